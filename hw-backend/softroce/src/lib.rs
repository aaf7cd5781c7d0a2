//! A cluster of small virtual machines on this machine: real `ibverbs` where there is no adapter.
//!
//! Each machine is QEMU without hardware help, with the distribution's kernel, its `rdma_rxe` driver, and an initial
//! file system of a few megabytes made on the spot. The machines' network cards end in one process, the hub, which
//! switches their Ethernet frames and can cut, delay, duplicate and drop them: by rules, at moments, by seed.
//!
//! | module | idea |
//! |---|---|
//! | [`packages`] | what must be installed, and the line that installs it |
//! | [`kernel`] | a kernel with `rdma_rxe`, installed or fetched |
//! | [`image`], `cpio` | the initial file system |
//! | [`cluster`] | the machines' processes, from boot to the last line of output |
//! | [`hub`] | the Ethernet between them |
//! | [`frame`] | what a frame is to a fault: who sends it to whom, and which packet class |
//! | [`faults`] | rules and what they strike |
//! | [`control`] | how a program in a machine orders faults |
//!
//! Everything listens on the loopback address only, and ends with the process that started it.

pub mod cluster;
pub mod control;
mod cpio;
pub mod faults;
pub mod frame;
pub mod hub;
pub mod image;
pub mod kernel;
pub mod packages;
