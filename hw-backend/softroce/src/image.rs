//! The initial file system: busybox, the drivers, the programs with the libraries that they need.

use crate::cpio::Archive;
use crate::kernel::Kernel;
use crate::packages::program;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a machine is to contain and to run.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Network cards, each with a device: `rxe0`, `rxe1`.
    pub nics: usize,
    /// Programs, to be put on the search path with their libraries.
    pub programs: Vec<PathBuf>,
    /// Other files: where they are here, and where they are to be.
    pub files: Vec<(PathBuf, String)>,
    /// Folders, to be at the same place with all that is in them, and the libraries that their own libraries need.
    pub trees: Vec<PathBuf>,
    /// The shell command; `$1` is the machine's number, `$2` how many there are.
    pub command: String,
    /// Whether a disk is mounted at `/disk`.
    pub disk: bool,
}

/// Drivers to load, with those that they need. `crc32_generic`: Soft-RoCE asks for the algorithm by name.
const MODULES: &[&str] =
    &["virtio_pci", "virtio_net", "crc32_generic", "crc32_pclmul", "rdma_rxe", "ib_uverbs", "rdma_ucm"];
/// Those that a disk with a file system needs beside; ext4 asks for `crc32c` by name.
const DISK_MODULES: &[&str] = &["virtio_blk", "crc32c_generic", "ext4"];
/// Programs that the start needs.
const TOOLS: &[&str] = &["rdma", "ip"];
/// The library that is loaded by name at a thread's end.
const UNWINDER: &str = "libgcc_s.so.1";

/// The file system, as the kernel unpacks it.
pub fn build(kernel: &Kernel, content: &Content) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["proc", "sys", "dev", "tmp", "etc", "root", "disk"] {
        archive.directory(folder);
    }
    let init = include_str!("init.sh").replace("{nics}", &content.nics.to_string());
    archive.file("init", init.as_bytes());
    archive.file("command", content.command.as_bytes());
    modules(&mut archive, kernel, content.disk)?;
    // Before busybox's links, which give way to real programs.
    for tool in TOOLS {
        add_program(&mut archive, &program(tool).with_context(|| format!("no program {tool}"))?)?;
    }
    for path in &content.programs {
        add_program(&mut archive, path)?;
    }
    busybox(&mut archive)?;
    provider(&mut archive)?;
    for folder in &content.trees {
        tree(&mut archive, folder)?;
    }
    for (from, to) in &content.files {
        let bytes = fs::read(from).with_context(|| from.display().to_string())?;
        archive.file(to.trim_start_matches('/'), &bytes);
    }
    Ok(archive.finish())
}

fn modules(archive: &mut Archive, kernel: &Kernel, disk: bool) -> Result<()> {
    let mut order = String::new();
    let modules = if disk { [MODULES, DISK_MODULES].concat() } else { MODULES.to_vec() };
    for file in kernel.modules(&modules)? {
        let name = file.file_name().context("a module without a name")?.to_string_lossy().into_owned();
        ensure!(name.ends_with(".ko"), "{name} is compressed, which busybox cannot load");
        archive.file(&format!("modules/{name}"), &fs::read(&file)?);
        order.push_str(&name);
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes());
    Ok(())
}

fn busybox(archive: &mut Archive) -> Result<()> {
    let path = program("busybox").context("no busybox")?;
    archive.file("bin/busybox", &fs::read(&path)?);
    let list = Command::new(&path).arg("--list").output()?;
    for applet in String::from_utf8_lossy(&list.stdout).lines() {
        archive.link(&format!("bin/{applet}"), "/bin/busybox");
    }
    Ok(())
}

/// Soft-RoCE's part of `libibverbs`, which is loaded by the name in its configuration.
fn provider(archive: &mut Archive) -> Result<()> {
    let config = "/etc/libibverbs.d/rxe.driver";
    archive.file(&config[1..], &fs::read(config).context(config)?);
    let library = library_folders()
        .into_iter()
        .map(|folder| folder.join("libibverbs/librxe-rdmav34.so"))
        .find(|path| path.exists())
        .context("no librxe-rdmav34.so beside libibverbs")?;
    add_file(archive, &library)?;
    add_libraries(archive, &library)?;
    let unwinder =
        library_folders().into_iter().map(|folder| folder.join(UNWINDER)).find(|path| path.exists());
    add_file(archive, &unwinder.context(UNWINDER)?)
}

fn library_folders() -> [PathBuf; 3] {
    ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64"].map(PathBuf::from)
}

/// A program under `bin`, and the libraries that it names.
fn add_program(archive: &mut Archive, path: &Path) -> Result<()> {
    let name = path.file_name().with_context(|| path.display().to_string())?.to_string_lossy();
    archive.file(&format!("bin/{name}"), &stripped(path)?);
    add_libraries(archive, path)
}

/// A program without what debuggers need: an unoptimised build has more of that than a small machine has memory. As it is where
/// `strip` is not there, or refuses it.
fn stripped(path: &Path) -> Result<Vec<u8>> {
    let small = std::env::temp_dir().join(format!("softroce-{}-stripped", std::process::id()));
    let done = Command::new("strip").arg("-o").arg(&small).arg(path).output();
    let bytes = done.ok().filter(|done| done.status.success()).and_then(|_| fs::read(&small).ok());
    let _ = fs::remove_file(&small);
    bytes.map_or_else(|| fs::read(path).with_context(|| path.display().to_string()), Ok)
}

/// A folder with all that is in it, links followed; and what its libraries need, such as a program loads by name.
fn tree(archive: &mut Archive, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            tree(archive, &path)?;
            continue;
        }
        add_file(archive, &path)?;
        if path.extension().is_some_and(|extension| extension == "so") {
            add_libraries(archive, &path)?;
        }
    }
    Ok(())
}

fn add_file(archive: &mut Archive, path: &Path) -> Result<()> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    archive.file(&path.to_string_lossy()[1..], &bytes);
    Ok(())
}

/// The libraries that the dynamic linker would load, where it would look for them.
fn add_libraries(archive: &mut Archive, of: &Path) -> Result<()> {
    let listed = Command::new("ldd").arg(of).output().context("ldd")?;
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        if let Some(path) = path {
            add_file(archive, Path::new(path))?;
        }
    }
    Ok(())
}
