//! What precedes an application's private data.
//!
//! `rdma_cm` pads private data to its field's length and has no field for the path MTU that a side asks for, so the
//! first bytes are ours. A peer that does not send them does not speak this protocol.

use crate::convert;
use weft_verbs::Mtu;

/// Version 1, and something that other protocols are unlikely to begin with.
const MAGIC: u8 = 0xe1;

/// Length of the header.
pub(super) const LEN: usize = 4;

/// What a side says beside its application's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The largest packet that it wants.
    pub mtu: Mtu,
}

/// Header and bytes, as they travel.
pub(super) fn encode(header: Header, private: &[u8]) -> Vec<u8> {
    let mut bytes = vec![MAGIC, private.len() as u8, convert::mtu(header.mtu) as u8, 0];
    bytes.extend_from_slice(private);
    bytes
}

/// The inverse: `None` where it is not ours.
pub(super) fn decode(bytes: &[u8]) -> Option<(Header, Vec<u8>)> {
    let (head, rest) = bytes.split_at_checked(LEN)?;
    let &[MAGIC, len, mtu @ 1..=5, _] = head else { return None };
    let private = rest.get(..usize::from(len))?;
    Some((Header { mtu: convert::mtu_of(mtu.into()) }, private.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_told_from_private_data() {
        for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
            let mut bytes = encode(Header { mtu }, b"hello");
            bytes.resize(56, 0);
            assert_eq!(decode(&bytes), Some((Header { mtu }, b"hello".to_vec())));
        }
    }

    #[test]
    fn what_others_send_is_not_ours() {
        let ours = encode(Header { mtu: Mtu::B1024 }, b"x");
        for bad in [&[][..], &ours[..3], &ours[..4], &[0; 56], &[0xff; 56], &[MAGIC, 0, 6, 0], &[MAGIC, 0, 0, 0]] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
