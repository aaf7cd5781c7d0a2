//! What a daemon's systems run on: an RDMA device, or a machine that has none.

use crate::exit::Failure;
use std::io::ErrorKind;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;
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
        let says = "this machine has no such address, or not yet: say one of its own, or leave it out";
        let none = || Failure::unfinished(format!("[node] address = \"{address}\": {says}"));
        return if has(address) { Ok(address) } else { Err(none()) };
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

/// Whether this machine has an address. What else its system has against a socket says nothing about that.
fn has(address: IpAddr) -> bool {
    !UdpSocket::bind((address, 0)).is_err_and(|why| why.kind() == ErrorKind::AddrNotAvailable)
}

/// How often a node looks for its address, and how often in a row it is not there before it is gone: while a network is set up anew it may
/// be away.
pub const LOOK: Duration = Duration::from_secs(1);
const LOOKS: u32 = 10;

/// Waits until others reach this node's byte streams no more though it takes part, and another start would end that: its address is gone,
/// and the coordinator is there, which shows it as here, by another network perhaps. Says so. Until then a link that fails may bring back the
/// address that it took along. Where the address is said there is no other one to begin with: the node waits for it, and warns.
pub async fn lost(
    (rank, on): (u32, &Machine),
    config: &Config,
    coordinator: impl Fn() -> bool,
    look: Duration,
) -> String {
    let at = match on {
        Machine::Tcp(at) => *at,
        #[cfg(feature = "hw")]
        Machine::Rdma(_) => return std::future::pending().await,
    };
    let mut gone = 0;
    loop {
        tokio::time::sleep(look).await;
        gone = if coordinator() && !has(at) { gone + 1 } else { 0 };
        if gone != LOOKS {
            continue;
        }
        if config.node.address.is_some() {
            // It goes on counting, and warns once.
            tracing::warn!(
                "node {rank}: its address {at} is gone: others do not reach it there until it is back"
            );
            continue;
        }
        gone = 0;
        // A name may take long.
        let config = config.clone();
        let now = tokio::task::spawn_blocking(move || address(&config)).await;
        if let Ok(Ok(now)) = now
            && now != at
        {
            return format!(
                "its address {at}, by which others reach it, is gone: it is {now} from the next start on"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::net::Ipv4Addr;
    use tokio::sync::Notify;

    const GONE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn config(node: &str) -> Config {
        let text = format!("[cluster]\nname = \"blue\"\nnodes = 1\nmeet = \"127.0.0.1\"\n{node}");
        Config::parse(&text).expect("it is one")
    }

    /// What a node ends by, or none if it goes on for a hundred looks; `there`: at which of them the coordinator is.
    fn ends_by(at: IpAddr, config: &Config, there: impl Fn(u32) -> bool) -> Option<String> {
        let (looks, enough) = (Cell::new(0), Notify::new());
        let coordinator = || {
            looks.set(looks.get() + 1);
            if looks.get() == 100 {
                enough.notify_one();
            }
            there(looks.get())
        };
        let on = Machine::Tcp(at);
        let lost = lost((0, &on), config, coordinator, Duration::from_millis(1));
        let ended = async {
            tokio::select! {
                why = lost => Some(why),
                () = enough.notified() => None,
            }
        };
        crate::control::run(ended).expect("a runtime")
    }

    #[test]
    fn a_node_whose_address_is_gone_ends_and_says_by_which_one_it_is_reached_then() {
        let line = "its address 192.0.2.1, by which others reach it, is gone: it is 127.0.0.1 from the next start on";
        assert_eq!(ends_by(GONE, &config(""), |_| true).as_deref(), Some(line));
    }

    #[test]
    fn a_node_goes_on_whose_address_may_come_back_with_its_network() {
        // The coordinator is reached by another network, and no start would find another address.
        let said = config("[node]\naddress = \"192.0.2.1\"\n");
        assert_eq!(ends_by(GONE, &said, |_| true), None, "its file says it");
        let config = config("");
        assert_eq!(ends_by(IpAddr::V4(Ipv4Addr::LOCALHOST), &config, |_| true), None, "it is there");
        assert_eq!(ends_by(GONE, &config, |_| false), None, "its link has failed");
        assert_eq!(ends_by(GONE, &config, |look| look % 9 != 0), None, "its network is set up");
        let nowhere = Config::parse("[cluster]\nname = \"blue\"\nnodes = 2\nmeet = \"127.0.0.1\"\n");
        assert_eq!(ends_by(GONE, &nowhere.expect("it is one"), |_| true), None, "it has no other one");
    }
}
