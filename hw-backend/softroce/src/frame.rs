//! What a frame is to a fault: who sends it to whom, and what kind of RoCE version 2 packet it carries.
//!
//! Ethernet (14 bytes), IPv4 (20 and more), UDP to port 4791 (8), then the base transport header of IBA 9.2 (12) with
//! its operation, and for acknowledgements the extended header of 9.3.5 (4) with its syndrome.

use crate::control::Class;

/// A network card of the cluster, counted from 0.
pub type Nic = usize;

/// The first five bytes of every card's address; the last is its number. Locally administered, so nobody else's.
const MAC: [u8; 5] = [0x52, 0x54, 0x00, 0x77, 0x00];

/// The hardware address of a card.
pub fn mac(nic: Nic) -> [u8; 6] {
    let mut address = [0; 6];
    address[..5].copy_from_slice(&MAC);
    address[5] = nic as u8;
    address
}

/// A hardware address as QEMU takes it.
pub fn mac_text(nic: Nic) -> String {
    mac(nic).map(|byte| format!("{byte:02x}")).join(":")
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// One card.
    One(Nic),
    /// All others.
    All,
}

/// The receiver of a frame; `None` where the frame is too short or names a card that nobody has.
pub fn receiver(frame: &[u8]) -> Option<To> {
    let to = frame.get(..6)?;
    if to[0] & 1 == 1 {
        return Some(To::All);
    }
    (to[..5] == MAC).then(|| To::One(usize::from(to[5])))
}

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_UDP: u8 = 17;
/// RoCE version 2 (InfiniBand Architecture, annex A17).
const ROCE_PORT: [u8; 2] = [0x12, 0xb7];

/// The RoCE packet in a frame, from its base transport header on.
fn roce(frame: &[u8]) -> Option<&[u8]> {
    if frame.get(12..14)? != ETHERTYPE_IPV4 {
        return None;
    }
    let ip = &frame[14..];
    let header = usize::from(ip.first()? & 0x0f) * 4;
    if *ip.get(9)? != PROTOCOL_UDP {
        return None;
    }
    let udp = ip.get(header..)?;
    if udp.get(2..4)? != ROCE_PORT {
        return None;
    }
    udp.get(8..)
}

/// The general service queue pair, which carries the connection manager's datagrams (IBA 13.5.1).
const GSI: u32 = 1;

/// The kind of RoCE packet in a frame; `None` for everything else (ARP, TCP).
pub fn class(frame: &[u8]) -> Option<Class> {
    let bth = roce(frame)?;
    let opcode = *bth.first()?;
    let qp = u32::from_be_bytes([0, *bth.get(5)?, *bth.get(6)?, *bth.get(7)?]);
    if qp == GSI {
        return Some(Class::Cm);
    }
    // Reliable connection (IBA 9.2.1, table 38); other transports have their first three bits differ.
    Some(match opcode {
        0x00..=0x0c => Class::Request,
        0x13 | 0x14 => Class::AtomicRequest,
        0x0d..=0x10 => Class::ReadResponse,
        0x11 => match bth.get(12)? >> 5 {
            0b001 => Class::Rnr,
            0b011 => Class::Nak,
            _ => Class::Ack,
        },
        0x12 => Class::AtomicResponse,
        _ => Class::Any,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RoCE version 2 frame from card 0 to card 1.
    pub fn packet(opcode: u8, qp: u32, syndrome: u8) -> Vec<u8> {
        let mut frame = [mac(1), mac(0)].concat();
        frame.extend(ETHERTYPE_IPV4);
        frame.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, PROTOCOL_UDP, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        frame.extend([0xc0, 0x00, ROCE_PORT[0], ROCE_PORT[1], 0, 0, 0, 0]);
        frame.extend([opcode, 0, 0xff, 0xff, 0]);
        frame.extend(&qp.to_be_bytes()[1..]);
        frame.extend([0, 0, 0, 1, syndrome, 0, 0, 1]);
        frame
    }

    #[test]
    fn packets_are_told_apart_by_operation_and_syndrome() {
        let cases = [
            (0x04, 0, Class::Request),
            (0x0a, 0, Class::Request),
            (0x0c, 0, Class::Request),
            (0x0d, 0, Class::ReadResponse),
            (0x10, 0, Class::ReadResponse),
            (0x11, 0x1f, Class::Ack),
            (0x11, 0x20, Class::Rnr),
            (0x11, 0x60, Class::Nak),
            (0x12, 0, Class::AtomicResponse),
            (0x13, 0, Class::AtomicRequest),
            (0x14, 0, Class::AtomicRequest),
            (0x64, 0, Class::Any),
        ];
        for (opcode, syndrome, expected) in cases {
            assert_eq!(class(&packet(opcode, 17, syndrome)), Some(expected), "{opcode:#x} {syndrome:#x}");
        }
        assert_eq!(class(&packet(0x64, 1, 0)), Some(Class::Cm));
    }

    #[test]
    fn what_is_no_roce_packet_has_no_class_and_breaks_nothing() {
        let whole = packet(0x11, 17, 0);
        for len in 0..whole.len() - 4 {
            assert!(class(&whole[..len]).is_none() || len >= 14 + 20 + 8 + 8, "{len}");
        }
        let mut arp = whole.clone();
        arp[13] = 0x06;
        assert_eq!(class(&arp), None);
        let mut dns = whole;
        dns[14 + 20 + 3] = 53;
        assert_eq!(class(&dns), None);
    }

    #[test]
    fn receivers_are_known_by_their_address() {
        assert_eq!(receiver(&packet(0, 1, 0)), Some(To::One(1)));
        assert_eq!(receiver(&[0xff; 64]), Some(To::All));
        assert_eq!(receiver(&[0x02, 0, 0, 0, 0, 0, 9]), None);
        assert_eq!(receiver(&[1, 2]), None);
    }
}
