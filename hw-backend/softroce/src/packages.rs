//! What must be installed, and the line that installs it.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// Something that must be there, and the Debian package that has it.
struct Need {
    what: What,
    package: &'static str,
}

enum What {
    Program(&'static str),
    File(&'static str),
}

const NEEDS: &[Need] = &[
    Need { what: What::Program("qemu-system-x86_64"), package: "qemu-system-x86" },
    Need { what: What::Program("busybox"), package: "busybox-static" },
    Need { what: What::Program("modprobe"), package: "kmod" },
    Need { what: What::Program("rdma"), package: "iproute2" },
    Need { what: What::Program("setpriv"), package: "util-linux" },
    Need { what: What::Program("dpkg-deb"), package: "dpkg" },
    Need { what: What::File("/etc/libibverbs.d/rxe.driver"), package: "ibverbs-providers" },
];

/// The packages that are missing.
pub fn missing() -> Vec<&'static str> {
    let lacks = |need: &&Need| match need.what {
        What::Program(name) => program(name).is_none(),
        What::File(path) => !Path::new(path).exists(),
    };
    NEEDS.iter().filter(lacks).map(|need| need.package).collect()
}

/// Fails in words where packages are missing.
pub fn check() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    bail!("not installed: {list}\ninstall with: apt-get install -y --no-install-recommends {list}");
}

/// A program on the search path, or where administrators' programs are.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(more).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file())
}
