//! Where on an RDMA device something runs, as a command line says it.

use clap::Args;

/// A device's port, and which of its addresses.
#[derive(Clone, Debug, Default, Args)]
pub struct PortArgs {
    /// The device's port [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub device_port: Option<u8>,
    /// Which of the port's addresses, by its number in `weft devices` [default: on RoCE the first IPv4 address that this network namespace has, under version 2 where there is one; on InfiniBand that of the port's IPoIB interface]
    #[arg(long, value_name = "N")]
    pub gid: Option<u8>,
}
