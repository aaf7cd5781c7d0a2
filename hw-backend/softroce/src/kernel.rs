//! A kernel with `rdma_rxe`: an installed one, or the distribution's, fetched and unpacked without installing it.

use crate::packages::program;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel and its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The kernel's image.
    pub image: PathBuf,
    /// The folder in which `lib/modules` lies.
    pub root: PathBuf,
    /// Its version, which names its modules' folder.
    pub version: String,
}

const DRIVER: &str = "kernel/drivers/infiniband/sw/rxe";

/// The kernel in `cache`, or an installed one, or a new one fetched into `cache`.
pub fn find(cache: &Path) -> Result<Kernel> {
    let unpacked = cache.join("kernel");
    if let Some(kernel) = under(&unpacked).or_else(|| under(Path::new("/"))) {
        return Ok(kernel);
    }
    fetch(cache, &unpacked)?;
    under(&unpacked).context("the kernel package has no rdma_rxe")
}

/// A kernel under a root folder whose modules have the driver. Kernels for clouds lack it.
fn under(root: &Path) -> Option<Kernel> {
    let modules = fs::read_dir(root.join("lib/modules")).ok()?;
    let mut versions: Vec<_> =
        modules.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    versions.sort();
    versions.into_iter().rev().find_map(|version| {
        let image = root.join(format!("boot/vmlinuz-{version}"));
        let driver = root.join("lib/modules").join(&version).join(DRIVER);
        let whole = driver.is_dir() && fs::File::open(&image).is_ok();
        whole.then(|| Kernel { image, root: root.to_path_buf(), version })
    })
}

/// Downloads the distribution's kernel package and unpacks it.
fn fetch(cache: &Path, into: &Path) -> Result<()> {
    let downloads = cache.join("download");
    fs::create_dir_all(&downloads)?;
    let package = package()?;
    eprintln!("softroce: fetching {package} (70 MB, once)");
    let mut apt = Command::new("apt-get");
    apt.args(["download", "-q", &package]).current_dir(&downloads);
    let done = apt.output().context("apt-get")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "apt-get download {package} failed (apt-get update may help): {said}");
    let file = fs::read_dir(&downloads)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = file.filter(|path| path.extension().is_some_and(|e| e == "deb")).max();
    let file = file.context("apt-get download left no package")?;
    // First beside its place: an interrupted unpacking leaves nothing that looks whole.
    let partial = cache.join("kernel.partial");
    let _ = fs::remove_dir_all(&partial);
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(&file).arg(&partial).status()?;
    ensure!(unpacked.success(), "dpkg-deb -x {} failed", file.display());
    fs::remove_file(&file)?;
    fs::rename(&partial, into)?;
    Ok(())
}

/// The package that the distribution's kernel depends on.
fn package() -> Result<String> {
    let shown =
        Command::new("apt-cache").args(["depends", "linux-image-amd64"]).output().context("apt-cache")?;
    let text = String::from_utf8_lossy(&shown.stdout);
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    match line {
        Some(package) => Ok(package.to_string()),
        None => {
            bail!("apt knows no linux-image-amd64: run apt-get update, or install a kernel with rdma_rxe")
        }
    }
}

impl Kernel {
    /// The files of modules and of those that they need, in the order in which they are to be loaded.
    pub fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        let lists = self.root.join("lib/modules").join(&self.version).join("modules.dep.bin");
        if !lists.exists() {
            let depmod = program("depmod").context("depmod")?;
            let made = Command::new(depmod).arg("-b").arg(&self.root).arg(&self.version).status()?;
            ensure!(made.success(), "depmod failed for {}", self.root.display());
        }
        let mut files: Vec<PathBuf> = Vec::new();
        for name in names {
            let modprobe = program("modprobe").context("modprobe")?;
            let mut ask = Command::new(modprobe);
            ask.arg("-d").arg(&self.root).args(["-S", &self.version, "--show-depends", name]);
            let shown = ask.output()?;
            ensure!(shown.status.success(), "modprobe knows no {name} in kernel {}", self.version);
            for line in String::from_utf8_lossy(&shown.stdout).lines() {
                let file = line.strip_prefix("insmod ").and_then(|rest| rest.split_whitespace().next());
                let file = file.map(PathBuf::from);
                files.extend(file.filter(|file| !files.contains(file)));
            }
        }
        Ok(files)
    }
}
