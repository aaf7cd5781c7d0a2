//! A port's GIDs, and the address by which peers find it.
//!
//! Over Ethernet that address is one of the GIDs, so one place chooses among them: `rdma_cm`, which goes by the address, and those who move
//! their queue pairs by hand, and give the GID's number, take the same one.

use crate::device::{ContextInner, HwContext};
use crate::ffi;
use crate::host;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::Path;
use thiserror::Error;
use weft_verbs::{Context, Device, Gid, LinkLayer, Nanos, Result, VerbsError};

/// An address of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HwGid {
    /// Its number.
    pub index: u8,
    /// The address.
    pub gid: Gid,
    /// What the kernel calls it: `RoCE v2`, where it says so.
    pub kind: Option<String>,
    /// The network interface to which it belongs, where there is one.
    pub interface: Option<String>,
}

impl HwGid {
    /// The IPv4 address that it maps.
    pub fn address(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.gid.0).to_ipv4_mapped()
    }
}

/// Why peers cannot find a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoAddress {
    /// None of its GIDs is an IPv4 address; or its IPoIB interface has none.
    #[error("has no IP address, by which peers find it")]
    Missing,
    /// A device may have the GIDs of all network namespaces, and `rdma_cm` binds to addresses of its caller's only.
    #[error("has IP addresses of another network namespace only")]
    Elsewhere,
}

/// The numbers of the GIDs of a table of that length, all that the contract has numbers for. Each virtual network and each IPv6 address
/// takes some: the IPv4 address may be far behind.
fn gid_numbers(table: i32) -> Range<u8> {
    0..u8::try_from(table.max(0)).unwrap_or(u8::MAX)
}

/// Of a RoCE port's GIDs the one by which peers reach it: the first IPv4 address under version 2, or else the first one.
fn chosen(gids: &[HwGid], is_ours: impl Fn(Ipv4Addr) -> bool) -> Option<&HwGid> {
    let ours = || gids.iter().filter(|gid| gid.address().is_some_and(&is_ours));
    let is_version_2 = |gid: &&HwGid| gid.kind.as_ref().is_none_or(|kind| kind.contains("v2"));
    ours().find(is_version_2).or_else(|| ours().next())
}

/// Whether this network namespace has an address. Where the system does not list them, it is taken to have all.
fn is_ours(own: Option<&[Ipv4Addr]>) -> impl Fn(Ipv4Addr) -> bool {
    move |address| own.is_none_or(|own| own.contains(&address))
}

/// By which address a RoCE port with these GIDs is found, of a namespace with these addresses.
fn found_by(gids: &[HwGid], own: Option<&[Ipv4Addr]>) -> std::result::Result<Ipv4Addr, NoAddress> {
    let ours = chosen(gids, is_ours(own)).and_then(HwGid::address);
    let any = gids.iter().any(|gid| gid.address().is_some());
    ours.ok_or(if any { NoAddress::Elsewhere } else { NoAddress::Missing })
}

/// The number of the GID that is taken where nobody has chosen one. Also one by which no peer finds the port will do for who speaks to
/// itself.
fn usual(gids: &[HwGid], own: Option<&[Ipv4Addr]>) -> u8 {
    let taken = chosen(gids, is_ours(own)).or_else(|| chosen(gids, |_| true)).or(gids.first());
    taken.map_or(0, |gid| gid.index)
}

/// A network interface of an adapter.
#[derive(Clone, Debug)]
struct Interface {
    name: String,
    /// Its port, from 0.
    port: u64,
    /// The P_Key of its packets, if it is one of IPoIB.
    pkey: Option<u64>,
    /// Whether it is the port's own one: another one names that as what it lies on.
    is_own: bool,
}

impl Interface {
    fn read(all: &Path, name: String) -> Option<Interface> {
        let of = |what: &str| number(all.join(&name).join(what));
        let (port, pkey, is_own) = (of("dev_port")?, of("pkey"), of("iflink") == of("ifindex"));
        Some(Interface { name, port, pkey, is_own })
    }
}

/// The number that a file of the system says, with or without `0x`.
fn number(path: impl AsRef<Path>) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16)).ok()
}

/// Of these interfaces that of an InfiniBand port whose connections have this P_Key: the port's own one, if it is there, and none of another
/// partition, whatever it is called. `rdma_cm` would find a path in that partition, on which no packet of a connection arrives.
fn ipoib(mut interfaces: Vec<Interface>, port: u8, pkey: Option<u64>) -> Option<String> {
    // The highest bit tells full members from limited ones.
    let partition = |pkey: Option<u64>| pkey.map(|pkey| pkey & 0x7fff);
    interfaces.retain(|one| one.port + 1 == u64::from(port) && partition(one.pkey) == partition(pkey));
    interfaces.into_iter().min_by_key(|one| (!one.is_own, one.name.clone())).map(|one| one.name)
}

/// For how long there is none where none was found.
const NONE_FOR: Nanos = Nanos::from_secs(1);

/// The address by which connections begin, as it was found last: to look costs a call for each GID of a table, and files, and of many peers
/// that are down each is asked every second.
#[derive(Default)]
pub(crate) struct FoundAddress(Cell<Option<Found>>);

/// What was found, and until when it is taken for true.
type Found = (Option<IpAddr>, Nanos);

impl FoundAddress {
    fn or_find(&self, now: Nanos, find: impl FnOnce() -> Option<IpAddr>) -> Option<IpAddr> {
        if let Some((found, until)) = self.0.get()
            && now < until
        {
            return found;
        }
        let found = find();
        let until = if found.is_some() { Nanos::MAX } else { now + NONE_FOR };
        self.0.set(Some((found, until)));
        found
    }

    /// It is looked for again: another one was chosen.
    fn forget(&self) {
        self.0.set(None);
    }

    /// No connection begins by it at this device: it is looked for again. Where there was none that says nothing new.
    pub(crate) fn misleads(&self) {
        if matches!(self.0.get(), Some((Some(_), _))) {
            self.forget();
        }
    }

    /// A connection could not begin by it. Where the reason is the way to the peer, it is as good as it was.
    pub(crate) fn failed(&self, why: &VerbsError) {
        if matches!(why, VerbsError::Os { errno: libc::EADDRNOTAVAIL | libc::ENODEV, .. }) {
            self.misleads();
        }
    }
}

impl ContextInner {
    /// The address by which connections begin, if there is one.
    pub(crate) fn own_address(&self) -> Option<IpAddr> {
        self.found_address.or_find(host::now(), || self.address().ok())
    }

    /// The address by which peers reach this device, by which `rdma_cm` also finds the port and the GID: over Ethernet that of
    /// the chosen GID; over InfiniBand that of the port's IPoIB interface.
    pub(crate) fn address(&self) -> std::result::Result<IpAddr, NoAddress> {
        let port = self.port.get();
        let found = match self.link(port) {
            Ok(LinkLayer::InfiniBand) => {
                let of_port = self.interface(port).and_then(|name| ffi::interface_address(&name));
                of_port.ok_or(NoAddress::Missing)
            }
            Ok(LinkLayer::Ethernet) => {
                let (gids, own) = (self.gids(port), ffi::own_addresses());
                let is_open = |gid: &HwGid| self.gid.get().is_none_or(|index| gid.index == index);
                let open: Vec<_> = gids.into_iter().filter(is_open).collect();
                found_by(&open, own.as_deref())
            }
            Err(_) => Err(NoAddress::Missing),
        };
        found.map(IpAddr::V4)
    }

    /// A port's GIDs that are not empty.
    fn gids(&self, port: u8) -> Vec<HwGid> {
        let attribute = |what: &str, index: u8| {
            let path = format!("{}/ports/{port}/gid_attrs/{what}/{index}", self.class());
            std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
        };
        let gid = |index: u8| {
            let gid = self.raw.gid(port, index).ok().filter(|gid| *gid != [0; 16])?;
            let (kind, interface) = (attribute("types", index), attribute("ndevs", index));
            Some(HwGid { index, gid: Gid(gid), kind, interface })
        };
        let numbers = self.raw.port(port).map_or(0..0, |port| gid_numbers(port.gid_tbl_len));
        numbers.filter_map(gid).collect()
    }

    /// The network interface of an InfiniBand port: IPoIB's.
    fn interface(&self, port: u8) -> Option<String> {
        let all = std::fs::read_dir(format!("{}/device/net", self.class())).ok()?;
        let names = all.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
        let interfaces = names.filter_map(|name| Interface::read(Path::new("/sys/class/net"), name)).collect();
        let pkey = number(format!("{}/ports/{port}/pkeys/0", self.class()));
        ipoib(interfaces, port, pkey)
    }

    fn class(&self) -> String {
        format!("/sys/class/infiniband/{}", self.device.name())
    }
}

impl HwContext {
    /// Chooses a port, and which of its GIDs peers are to reach it by. Without this it is port 1, and the GID of
    /// [`HwContext::usable_gid`]. Connections that are made already stay where they are.
    ///
    /// # Errors
    ///
    /// The device has no such port, the port no such GID; or, over Ethernet, the GID is no IPv4 address, by which
    /// `rdma_cm` could find it.
    pub fn choose(&self, port: u8, gid: Option<u8>) -> Result<()> {
        let link = self.0.link(port)?;
        if let Some(index) = gid {
            let gid = self.gid(port, index)?;
            if link == LinkLayer::Ethernet && Ipv6Addr::from(gid.0).to_ipv4_mapped().is_none() {
                return Err(VerbsError::Invalid("the GID is no IPv4 address"));
            }
        }
        self.0.port.set(port);
        self.0.gid.set(gid);
        self.0.found_address.forget();
        Ok(())
    }

    /// The GID to use on a port, if none is [chosen](HwContext::choose): over Ethernet that of [`HwContext::address`], or of a port by
    /// which no peer finds it the first IPv4 address, or the first GID at all; over InfiniBand the first.
    pub fn usable_gid(&self, port: u8) -> Result<u8> {
        if let Some(chosen) = self.0.gid.get().filter(|_| port == self.port()) {
            return Ok(chosen);
        }
        match self.0.link(port)? {
            LinkLayer::InfiniBand => Ok(0),
            LinkLayer::Ethernet => Ok(usual(&self.0.gids(port), ffi::own_addresses().as_deref())),
        }
    }

    /// A port's GIDs that are not empty.
    pub fn gids(&self, port: u8) -> Vec<HwGid> {
        self.0.gids(port)
    }

    /// The address by which peers find this device: over Ethernet that of the chosen GID, or of the first one that is an IPv4 address of
    /// this network namespace, under RoCE version 2 where there is one; over InfiniBand that of the port's IPoIB interface.
    ///
    /// # Errors
    ///
    /// There is none. It may come later.
    pub fn address(&self) -> std::result::Result<IpAddr, NoAddress> {
        self.0.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

    fn gid(index: u8, address: Ipv4Addr, kind: &str) -> HwGid {
        let gid = Gid(address.to_ipv6_mapped().octets());
        HwGid { index, gid, kind: Some(kind.to_string()), interface: None }
    }

    fn link_local() -> HwGid {
        let (gid, kind) = (Gid([0xfe; 16]), Some("RoCE v2".to_string()));
        HwGid { index: 0, gid, kind, interface: None }
    }

    #[test]
    fn peers_find_a_port_by_an_address_of_this_network_namespace() {
        // One device has the host's addresses and, behind them, those of a container.
        let gids = [
            link_local(),
            gid(2, HOST, "IB/RoCE v1"),
            gid(3, HOST, "RoCE v2"),
            gid(4, OURS, "IB/RoCE v1"),
            gid(5, OURS, "RoCE v2"),
        ];
        let of = |own: Option<&[Ipv4Addr]>| (found_by(&gids, own), usual(&gids, own));
        assert_eq!(of(Some(&[HOST])), (Ok(HOST), 3));
        assert_eq!(of(Some(&[Ipv4Addr::LOCALHOST, OURS])), (Ok(OURS), 5));
        assert_eq!(of(Some(&[Ipv4Addr::LOCALHOST])), (Err(NoAddress::Elsewhere), 3));
        assert_eq!(of(None), (Ok(HOST), 3), "where the system lists none, any may be ours");
    }

    #[test]
    fn a_port_has_the_same_gid_however_its_queue_pairs_are_connected() {
        let old = [link_local(), gid(1, OURS, "IB/RoCE v1"), gid(2, HOST, "IB/RoCE v1")];
        let none = [link_local()];
        let of = |gids: &[HwGid]| (found_by(gids, Some(&[OURS])), usual(gids, Some(&[OURS])));
        assert_eq!(of(&old), (Ok(OURS), 1), "an adapter without version 2");
        assert_eq!(of(&none), (Err(NoAddress::Missing), 0));
        assert_eq!(of(&[]), (Err(NoAddress::Missing), 0));
    }

    /// An address that is looked for, and how often it was.
    #[derive(Default)]
    struct Looked {
        found: FoundAddress,
        looks: Cell<u32>,
    }

    impl Looked {
        /// What connections begin by at a time at which the device has this address.
        fn at(&self, millis: u64, there: Option<Ipv4Addr>) -> (Option<IpAddr>, u32) {
            let find = || {
                self.looks.set(self.looks.get() + 1);
                there.map(IpAddr::V4)
            };
            (self.found.or_find(Nanos::from_millis(millis), find), self.looks.get())
        }
    }

    fn refused(errno: i32) -> VerbsError {
        ffi::refused_by_cm("rdma_resolve_addr", errno)
    }

    #[test]
    fn an_address_is_looked_for_once_a_second_until_there_is_one() {
        let looked = Looked::default();
        assert_eq!([0, 1, 999].map(|at| looked.at(at, None)), [(None, 1); 3]);
        looked.found.failed(&refused(libc::ENODEV));
        looked.found.misleads();
        assert_eq!(looked.at(999, None), (None, 1), "no attempt finds one before");
        assert_eq!(looked.at(1_000, Some(HOST)), (Some(HOST.into()), 2));
        assert_eq!(looked.at(9_000, Some(OURS)), (Some(HOST.into()), 2));
        looked.found.forget();
        assert_eq!(looked.at(9_000, Some(OURS)), (Some(OURS.into()), 3), "another one was chosen");
    }

    #[test]
    fn an_address_is_looked_for_again_where_no_connection_begins_by_it_and_not_where_the_way_is_missing() {
        let looked = Looked::default();
        assert_eq!(looked.at(0, Some(HOST)), (Some(HOST.into()), 1));
        for errno in [libc::ENETUNREACH, libc::EHOSTUNREACH] {
            looked.found.failed(&refused(errno));
            assert_eq!(looked.at(0, Some(HOST)), (Some(HOST.into()), 1));
        }
        looked.found.failed(&refused(libc::EADDRNOTAVAIL));
        assert_eq!(looked.at(0, Some(OURS)), (Some(OURS.into()), 2), "no interface has it any more");
        looked.found.failed(&refused(libc::ENODEV));
        assert_eq!(looked.at(0, Some(HOST)), (Some(HOST.into()), 3), "one has it that is none of RDMA");
        looked.found.misleads();
        assert_eq!(looked.at(0, Some(OURS)), (Some(OURS.into()), 4), "another device has it");
    }

    #[test]
    fn an_infiniband_port_is_found_by_its_own_interface_whatever_others_are_called() {
        let one = |name: &str, port, pkey, is_own| Interface { name: name.to_string(), port, pkey, is_own };
        let own = one("ib0", 0, Some(0xffff), true);
        let others = [
            one("data0", 0, Some(0x8001), false),
            one("ib-more", 0, Some(0xffff), false),
            one("eth0", 0, None, true),
            one("ib-second", 1, Some(0xffff), true),
        ];
        let all = || Vec::from_iter(others.iter().chain([&own]).cloned());
        let of = |interfaces, port, pkey| ipoib(interfaces, port, Some(pkey));
        assert_eq!(of(all(), 1, 0x7fff).as_deref(), Some("ib0"), "a limited member");
        assert_eq!(of(all(), 2, 0xffff).as_deref(), Some("ib-second"));
        assert_eq!(of(others.to_vec(), 1, 0xffff).as_deref(), Some("ib-more"), "a container without the port's own");
        assert_eq!(of(others[..1].to_vec(), 1, 0xffff), None, "another partition");
    }

    #[test]
    fn an_interface_is_read_as_the_system_shows_it() {
        let all = std::env::temp_dir().join(format!("weft-interfaces-{}", std::process::id()));
        for (name, pkey, iflink) in [("ib0", "0xffff\n", "4\n"), ("data0", "0x8001\n", "4\n")] {
            let (one, index) = (all.join(name), if name == "ib0" { "4\n" } else { "7\n" });
            std::fs::create_dir_all(&one).expect("a directory");
            for (file, text) in [("dev_port", "1\n"), ("pkey", pkey), ("iflink", iflink), ("ifindex", index)] {
                std::fs::write(one.join(file), text).expect("a file");
            }
        }
        let read = |name: &str| {
            let one = Interface::read(&all, name.to_string())?;
            Some((one.port, one.pkey, one.is_own))
        };
        let seen = [read("ib0"), read("data0"), read("none")];
        std::fs::remove_dir_all(&all).expect("it is ours");
        assert_eq!(seen, [Some((1, Some(0xffff), true)), Some((1, Some(0x8001), false)), None]);
    }

    #[test]
    fn an_address_is_looked_for_among_all_gids_of_a_port() {
        assert_eq!([0, 16, 128, 256, -1].map(|table| gid_numbers(table).len()), [0, 16, 128, 255, 0]);
        assert!(gid_numbers(256).contains(&33));
    }
}
