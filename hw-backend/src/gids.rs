//! A port's GIDs, and the address by which peers find it.
//!
//! Over Ethernet that address is one of the GIDs, so one place chooses among them: `rdma_cm`, which goes by the address, and those who move
//! their queue pairs by hand, and give the GID's number, take the same one.

use crate::device::{ContextInner, HwContext};
use crate::ffi;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use thiserror::Error;
use weft_verbs::{Context, Device, Gid, LinkLayer, Result, VerbsError};

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

/// The address by which connections begin, as it was found last: to look costs a call for each GID of a table, and files, and of many peers
/// that are down each is asked every second.
#[derive(Default)]
pub(crate) struct FoundAddress(Cell<Option<IpAddr>>);

impl FoundAddress {
    fn or_find(&self, find: impl FnOnce() -> Option<IpAddr>) -> Option<IpAddr> {
        if self.0.get().is_none() {
            self.0.set(find());
        }
        self.0.get()
    }

    /// It is looked for again: another one was chosen, or no connection can begin by this one.
    pub(crate) fn forget(&self) {
        self.0.set(None);
    }
}

impl ContextInner {
    /// The address by which connections begin, if there is one.
    pub(crate) fn own_address(&self) -> Option<IpAddr> {
        self.found_address.or_find(|| self.address().ok())
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
        let mut names: Vec<String> =
            all.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect();
        // Further ones are partitions of the same port.
        names.sort();
        names.into_iter().find(|name| {
            let number = std::fs::read_to_string(format!("/sys/class/net/{name}/dev_port"));
            number.ok().and_then(|text| text.trim().parse::<u8>().ok()) == port.checked_sub(1)
        })
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

    #[test]
    fn an_address_is_looked_for_until_there_is_one_and_again_when_connections_cannot_begin_by_it() {
        let (found, looks) = (FoundAddress::default(), Cell::new(0));
        let find = |there: Option<Ipv4Addr>| {
            found.or_find(|| {
                looks.set(looks.get() + 1);
                there.map(IpAddr::V4)
            })
        };
        assert_eq!([None, Some(HOST), Some(OURS)].map(find), [None, Some(HOST.into()), Some(HOST.into())]);
        assert_eq!(looks.get(), 2);
        found.forget();
        assert_eq!((find(Some(OURS)), looks.get()), (Some(OURS.into()), 3));
    }

    #[test]
    fn an_address_is_looked_for_among_all_gids_of_a_port() {
        assert_eq!([0, 16, 128, 256, -1].map(|table| gid_numbers(table).len()), [0, 16, 128, 255, 0]);
        assert!(gid_numbers(256).contains(&33));
    }
}
