//! Ports, their addresses, and the ways between them (IBA 4.1, 8.3).

use super::{Endpoint, HcaId};
use crate::NodeId;
use weft_verbs::Gid;

/// A port of the world, counted from 0 over all adapters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u32);

/// The stable part of every GID: a link-local subnet and a vendor's half of the GUID.
const GID_PREFIX: [u8; 12] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03];

impl PortId {
    /// Its only global identifier.
    pub fn gid(self) -> Gid {
        let mut gid = [0; 16];
        gid[..12].copy_from_slice(&GID_PREFIX);
        gid[12..].copy_from_slice(&(self.0 + 1).to_be_bytes());
        Gid(gid)
    }

    /// The port that a GID would belong to, whether or not the world has so many.
    pub fn of_gid(gid: Gid) -> Option<PortId> {
        let (prefix, rest) = gid.0.split_at(12);
        let number = u32::from_be_bytes(rest.try_into().ok()?).checked_sub(1)?;
        (prefix == GID_PREFIX).then_some(PortId(number))
    }

    /// Its local identifier.
    pub const fn lid(self) -> u16 {
        (self.0 + 1) as u16
    }
}

/// How many adapters every node has, and how many ports every adapter.
///
/// Adapters and ports are counted over the whole world, a node's one after the other. A node's ports, those of its first
/// adapter and then those of the next, are also counted from 1 within the node: so faults and names number its *cables*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Adapters of a node.
    pub devices: u8,
    /// Ports of an adapter.
    pub ports: u8,
}

// Most worlds have one adapter a node and one port an adapter, and a division is slow.
impl Shape {
    /// The node of an adapter.
    #[inline]
    pub const fn node(self, hca: HcaId) -> NodeId {
        if self.devices == 1 { NodeId(hca.0) } else { NodeId(hca.0 / self.devices as u32) }
    }

    /// A node's adapters.
    pub fn hcas(self, node: NodeId) -> impl Iterator<Item = HcaId> {
        let first = node.0 * u32::from(self.devices);
        (first..first + u32::from(self.devices)).map(HcaId)
    }

    /// An adapter's port, counted from 1.
    pub const fn port(self, hca: HcaId, port: u8) -> PortId {
        PortId(hca.0 * self.ports as u32 + port as u32 - 1)
    }

    /// The adapter of a port.
    pub const fn hca(self, port: PortId) -> HcaId {
        if self.ports == 1 { HcaId(port.0) } else { HcaId(port.0 / self.ports as u32) }
    }

    /// A port's number within its adapter, counted from 1.
    pub const fn local(self, port: PortId) -> u8 {
        if self.ports == 1 { 1 } else { (port.0 % self.ports as u32) as u8 + 1 }
    }

    /// How many cables a node has.
    pub const fn cables(self) -> u8 {
        self.devices * self.ports
    }

    /// The number of a port's cable within its node, counted from 1.
    #[inline]
    pub const fn cable(self, port: PortId) -> u8 {
        if self.cables() == 1 { 1 } else { (port.0 % self.cables() as u32) as u8 + 1 }
    }

    /// The port of a node's cable.
    pub const fn at_cable(self, node: NodeId, cable: u8) -> PortId {
        PortId(node.0 * self.cables() as u32 + cable as u32 - 1)
    }
}

/// From which port to which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Route {
    /// Where packets leave.
    pub from: PortId,
    /// Where they arrive.
    pub to: PortId,
}

impl Route {
    /// The same way in the other direction.
    pub const fn back(self) -> Route {
        Route { from: self.to, to: self.from }
    }
}

/// Where a connection's path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The peer. `None` where the path leads nowhere.
    pub peer: Option<Endpoint>,
    /// The ports.
    pub route: Route,
}

/// A queue pair and where the paths lead that a change of its attributes names.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The queue pair itself, as packets name it.
    pub me: Endpoint,
    /// Where its path leads, if that is named.
    pub primary: Option<Way>,
    /// Where its alternate path leads, if that is named.
    pub alternate: Option<Way>,
}

/// What an address handle stands for (IBA 11.2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The adapter and the way to it. `None` where the path leads nowhere.
    pub to: Option<(HcaId, Route)>,
    /// What its datagrams' headers say of the way.
    pub service: Service,
}

/// How a datagram asks to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// Service level.
    pub sl: u8,
    /// Traffic class of the global route header.
    pub traffic_class: u8,
    /// Hop limit of the global route header.
    pub hop_limit: u8,
}

/// Bytes of a global route header, which precedes every datagram in its receive buffer (IBA 11.4.1.2).
pub const GRH: u32 = weft_verbs::GRH;

/// The global route header of a packet with `len` bytes behind it (IBA 8.3).
pub fn global_route_header(route: Route, service: Service, len: u32) -> [u8; GRH as usize] {
    const VERSION: u32 = 6;
    const NEXT_HEADER: u8 = 0x1b;
    let mut grh = [0; GRH as usize];
    grh[..4].copy_from_slice(&(VERSION << 28 | u32::from(service.traffic_class) << 20).to_be_bytes());
    grh[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    grh[6] = NEXT_HEADER;
    grh[7] = service.hop_limit;
    grh[8..24].copy_from_slice(&route.from.gid().0);
    grh[24..].copy_from_slice(&route.to.gid().0);
    grh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_and_its_port_are_one_to_one() {
        for n in [0, 1, 300, 70_000] {
            assert_eq!(PortId::of_gid(PortId(n).gid()), Some(PortId(n)));
        }
        for foreign in [Gid::default(), Gid([0xff; 16])] {
            assert_eq!(PortId::of_gid(foreign), None);
        }
    }

    #[test]
    fn ports_adapters_and_cables_count_alike() {
        for (devices, ports) in [(1, 1), (1, 3), (2, 1), (3, 2)] {
            let shape = Shape { devices, ports };
            let mut all = 0;
            for node in (0..5).map(NodeId) {
                let mut cable = 0;
                for hca in shape.hcas(node) {
                    assert_eq!(shape.node(hca), node);
                    for local in 1..=ports {
                        let port = shape.port(hca, local);
                        cable += 1;
                        assert_eq!((port, shape.hca(port), shape.local(port)), (PortId(all), hca, local));
                        assert_eq!((shape.cable(port), shape.at_cable(node, cable)), (cable, port));
                        all += 1;
                    }
                }
                assert_eq!(cable, shape.cables());
            }
        }
    }

    #[test]
    fn a_global_route_header_names_both_ports() {
        let route = Route { from: PortId(3), to: PortId(4) };
        let grh = global_route_header(route, Service { sl: 1, traffic_class: 0xab, hop_limit: 64 }, 300);
        assert_eq!(grh[..8], [0x6a, 0xb0, 0, 0, 1, 44, 0x1b, 64]);
        assert_eq!((&grh[8..24], &grh[24..]), (&PortId(3).gid().0[..], &PortId(4).gid().0[..]));
    }
}
