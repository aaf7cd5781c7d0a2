//! Machines of one process: an address each, and a directory for those that have a disk.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use weft_store::{Directory, Objects, StoreId};

/// Addresses of one test: all of 127.0.0.0/8 is this machine, and no other test has the same third step.
pub(crate) struct Net(u8);

impl Net {
    pub(crate) fn new() -> Net {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        Net(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn address(&self, machine: usize) -> IpAddr {
        // Processes that run at once differ, too.
        let process = 1 + (std::process::id() % 250) as u8;
        Ipv4Addr::new(127, process, self.0, 1 + machine as u8).into()
    }
}

/// A directory that is gone with its value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("weft-tcp-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Scratch(path)
    }

    /// The store of a machine: the same one each time.
    pub(crate) fn store(&self, machine: usize) -> Arc<Objects> {
        let id = StoreId { cluster: "test".to_string(), server: machine as u32 };
        let path = self.0.join(machine.to_string());
        std::fs::create_dir_all(&path).expect("a directory for the store");
        let directory = Directory::open_or_make(&path, &id).expect("a store");
        Arc::new(Objects::of(directory).expect("its objects"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind is in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
