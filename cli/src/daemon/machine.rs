//! What a daemon's systems run on: an RDMA device, or a machine that has none.

use crate::exit::Failure;
use std::io::ErrorKind;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use weft_control::daemon::config::Config;
#[cfg(feature = "hw")]
use weft_hw::Hw;
use weft_tcp::Tcp;
use weft_verbs::{Context, Node, Result, Verbs};

/// What systems run on.
#[derive(Clone, Debug)]
pub enum Machine {
    /// Byte streams, by one of the machine's addresses.
    Tcp(IpAddr),
    /// A device.
    #[cfg(feature = "hw")]
    Rdma(crate::device::Choice),
}

/// A backend, as a daemon drives it.
pub trait Backend: Verbs {
    /// Says where a node is, by the name that protocols use.
    fn name_peer(machine: &Self::Context, name: &str, address: IpAddr);
    /// Takes what is known about nodes that could not be reached, a sentence each.
    fn take_troubles(machine: &Self::Context) -> Vec<String>;
    /// The port to use.
    fn port(machine: &Self::Context) -> u8;
    /// This node's end of a pair of sockets, whose other end another thread has.
    fn adopt(machine: &Self::Context, end: UnixStream) -> Result<Self::Stream>;
    /// Steps a node until it has ended.
    fn drive(machine: &Self::Context, node: &mut dyn Node) -> Result<()>;
}

impl Backend for Tcp {
    fn name_peer(machine: &Self::Context, name: &str, address: IpAddr) {
        machine.name_peer(name, address);
    }

    fn take_troubles(_machine: &Self::Context) -> Vec<String> {
        Vec::new()
    }

    fn port(_machine: &Self::Context) -> u8 {
        1
    }

    fn adopt(machine: &Self::Context, end: UnixStream) -> Result<Self::Stream> {
        machine.out_of_band()?.adopt_local(end)
    }

    fn drive(machine: &Self::Context, node: &mut dyn Node) -> Result<()> {
        weft_tcp::Driver::new(machine).run(node, || false);
        Ok(())
    }
}

#[cfg(feature = "hw")]
impl Backend for Hw {
    fn name_peer(machine: &Self::Context, name: &str, address: IpAddr) {
        machine.name_peer(name, address);
    }

    fn take_troubles(machine: &Self::Context) -> Vec<String> {
        machine.take_troubles().into_iter().map(|(text, _)| text).collect()
    }

    fn port(machine: &Self::Context) -> u8 {
        machine.port()
    }

    fn adopt(machine: &Self::Context, end: UnixStream) -> Result<Self::Stream> {
        machine.out_of_band()?.adopt_local(end)
    }

    fn drive(machine: &Self::Context, node: &mut dyn Node) -> Result<()> {
        weft_hw::Driver::new(std::slice::from_ref(machine))?.run(node, || false);
        Ok(())
    }
}

/// By which address other nodes reach this one's byte streams: the one that is said, or the one by which it reaches the meeting place.
///
/// # Errors
/// What is said is no address of this machine, as before its network is there. Nobody says it, and the meeting place is not found, as then,
/// or is this machine by an address that no other one has.
pub fn address(config: &Config) -> std::result::Result<IpAddr, Failure> {
    if let Some(address) = config.node.address {
        // Now, and not when all nodes have come. After a boot it may not be there yet.
        return match UdpSocket::bind((address, 0)) {
            Err(why) if why.kind() == ErrorKind::AddrNotAvailable => {
                let says =
                    "this machine has no such address, or not yet: say one of its own, or leave it out";
                Err(Failure::unfinished(format!("[node] address = \"{address}\": {says}")))
            }
            _ => Ok(address),
        };
    }
    let meet = &config.cluster.meet;
    let say = "say it as [node] address";
    let of = |why: std::io::Error| {
        Failure::unfinished(format!(
            "{meet} is not found, by which other nodes would learn this one's address ({why}): {say}"
        ))
    };
    let place = (meet.host.as_str(), meet.port).to_socket_addrs().map_err(of)?.next();
    let place = place.ok_or_else(|| of(ErrorKind::NotFound.into()))?;
    // Nothing is sent: the system chooses a way, and so an address.
    let any: IpAddr = if place.is_ipv4() { [0; 4].into() } else { [0_u8; 16].into() };
    let socket = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(place).map(|()| socket));
    let address = socket.and_then(|socket| socket.local_addr()).map_err(of)?.ip();
    match address.is_loopback() && config.cluster.nodes > 1 {
        true => Err(Failure::bad_input(format!(
            "this node reaches {meet} by {address}, by which no other machine reaches it: {say}"
        ))),
        false => Ok(address),
    }
}
