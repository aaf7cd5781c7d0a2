//! The messages between requestors, managers and servers, and their bytes (kernel-dsm.txt, 2.2 and 4.1).

use super::shared::{ObjectId, PageId};
use crate::bytes::Reader;
use crate::transport::Rank;
use weft_verbs::RemoteSlice;

/// What a node may do with a minipage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Nothing.
    #[default]
    Invalid,
    /// Load.
    Read,
    /// Load and store.
    Write,
}

impl Access {
    fn of(byte: u8) -> Option<Access> {
        [Access::Invalid, Access::Read, Access::Write].into_iter().find(|access| *access as u8 == byte)
    }
}

/// A message about a minipage, or about a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// To the manager: this node needs the minipage so, and its data go there. What it has now is old when the request is served: no manager that is
    /// shipped looks at it. `heir_of`: as far as this node knows, the manager took over from that one when it may have been written.
    Request { page: PageId, id: u32, need: Access, has: Access, at: RemoteSlice, heir_of: Option<Rank> },
    /// To the server that has the data: downgrade or give up, then transfer to the requestor.
    Forward { page: PageId, id: u32, to: Rank, at: RemoteSlice, need: Access, notices: u16, version: u64 },
    /// To another holder: give up, and tell the requestor.
    Invalidate { page: PageId, id: u32, to: Rank, notices: u16, version: u64 },
    /// To the requestor of a read: another node has the minipage there and will keep it until this is done; take it by RDMA.
    Pull { page: PageId, id: u32, from: Rank, at: RemoteSlice, version: u64 },
    /// To the requestor: this one of so many has done what it had to. The data, if they come from there, are placed before it;
    /// or they are in it, where nodes have several rails.
    Notice { page: PageId, id: u32, notices: u16, version: u64, data: Option<&'a [u8]> },
    /// To the manager: all notices are in and access is set.
    Done { page: PageId, id: u32 },
    /// To a barrier's home: a thread has come.
    Enter { barrier: u64, id: u32, parties: u32 },
    /// To a thread's node: all have come.
    Leave { barrier: u64, id: u32 },
    /// To the requestor: the minipage is lost with a node that died.
    Lost { page: PageId, id: u32 },
    /// To the requestor: another node has asked for the minipage in another length, so what it has cannot be had.
    Otherwise { page: PageId, id: u32 },
    /// To the manager of a new view: what this node has of the minipage, or had last and gave to that node, and how long it is here.
    Report { page: PageId, access: Access, version: u64, len: u32, given: Option<Rank> },
    /// To all managers: that were so many reports of this node to this manager.
    Reported { reports: u32 },
    /// To a node that gave the minipage up for one that did not get it: it is to have it again.
    Restore { page: PageId, version: u64 },
    /// To all nodes of a view, which the stamp names: this node has no memory.
    Here,
    /// To a node that says so: the shared memory has gone on without it.
    Ended,
    /// To a node that says so, and that has a part in the memory: it has begun. The stamp says with which view.
    Begun,
    /// To all others, where nodes do not agree on who is alive: that one has restarted, and what it had is gone. The memory has ended.
    Restarted { who: Rank },
    /// To all nodes: end all that is open for the object, or forget it.
    Free { object: ObjectId, id: u32, step: Freeing },
    /// To the node that frees the object: that step is done here.
    Freed { object: ObjectId, id: u32, step: Freeing },
}

/// The steps in which an object is freed, each by all nodes before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Freeing {
    /// Begin nothing new with it, and end what is open.
    Close,
    /// Forget it.
    Forget,
}

impl Freeing {
    fn of(number: u32) -> Option<Freeing> {
        [Freeing::Close, Freeing::Forget].into_iter().find(|step| *step as u32 == number)
    }
}

const REQUEST: u8 = 1;
const FORWARD: u8 = 2;
const INVALIDATE: u8 = 3;
const NOTICE: u8 = 4;
const NOTICE_AND_DATA: u8 = 5;
const DONE: u8 = 6;
const ENTER: u8 = 7;
const LEAVE: u8 = 8;
const PULL: u8 = 9;
const FREE: u8 = 10;
const FREED: u8 = 11;
const LOST: u8 = 12;
const REPORT: u8 = 13;
const REPORTED: u8 = 14;
const RESTORE: u8 = 15;
const ENDED: u8 = 16;
const HERE: u8 = 17;
const BEGUN: u8 = 18;
const RESTARTED: u8 = 19;
const OTHERWISE: u8 = 20;

/// In what a request needs: its manager took over from the node whose rank is behind the rest.
const HEIR: u8 = 0x80;

/// The page of a message that is about none.
const NO_PAGE: PageId = PageId { object: ObjectId(0), index: 0 };

/// The longest message without data, in bytes.
pub const LONGEST: usize = 1 + 16 + 4 + 16 + 1 + 2 + 8;

impl Message<'_> {
    /// The message, if it is of no memory, but about whether there is one.
    pub fn of_none(bytes: &[u8]) -> Option<Message<'_>> {
        let is_one = bytes.first().is_some_and(|kind| [HERE, ENDED].contains(kind));
        is_one.then(|| Message::decode(bytes)).flatten()
    }

    /// Writes its bytes: a kind, what it is about, the request's number, and what the kind has; little-endian.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.clear();
        match *self {
            Message::Request { page, id, need, has, at, heir_of } => {
                head(to, REQUEST, page, id);
                to.extend([need as u8 | if heir_of.is_some() { HEIR } else { 0 }, has as u8]);
                to.extend(at.to_bytes());
                to.extend(heir_of.iter().flat_map(|base| base.get().to_le_bytes()));
            }
            Message::Forward { page, id, to: requestor, at, need, notices, version } => {
                head(to, FORWARD, page, id);
                to.extend(requestor.get().to_le_bytes());
                to.extend(at.to_bytes());
                to.push(need as u8);
                to.extend(notices.to_le_bytes());
                to.extend(version.to_le_bytes());
            }
            Message::Invalidate { page, id, to: requestor, notices, version } => {
                head(to, INVALIDATE, page, id);
                to.extend(requestor.get().to_le_bytes());
                to.extend(notices.to_le_bytes());
                to.extend(version.to_le_bytes());
            }
            Message::Pull { page, id, from, at, version } => {
                head(to, PULL, page, id);
                to.extend(from.get().to_le_bytes());
                to.extend(at.to_bytes());
                to.extend(version.to_le_bytes());
            }
            Message::Notice { page, id, notices, version, data } => {
                head(to, if data.is_some() { NOTICE_AND_DATA } else { NOTICE }, page, id);
                to.extend(notices.to_le_bytes());
                to.extend(version.to_le_bytes());
                to.extend(data.unwrap_or_default());
            }
            Message::Done { page, id } => head(to, DONE, page, id),
            Message::Enter { barrier, id, parties } => {
                head(to, ENTER, PageId { object: ObjectId(barrier), index: parties }, id);
            }
            Message::Leave { barrier, id } => {
                head(to, LEAVE, PageId { object: ObjectId(barrier), index: 0 }, id);
            }
            Message::Lost { page, id } => head(to, LOST, page, id),
            Message::Otherwise { page, id } => head(to, OTHERWISE, page, id),
            Message::Report { page, access, version, len, given } => {
                head(to, REPORT, page, given.map_or(0, Rank::get));
                to.push(access as u8);
                to.extend(version.to_le_bytes());
                to.extend(len.to_le_bytes());
            }
            Message::Reported { reports } => head(to, REPORTED, NO_PAGE, reports),
            Message::Restore { page, version } => {
                head(to, RESTORE, page, 0);
                to.extend(version.to_le_bytes());
            }
            Message::Ended => head(to, ENDED, NO_PAGE, 0),
            Message::Begun => head(to, BEGUN, NO_PAGE, 0),
            Message::Here => head(to, HERE, NO_PAGE, 0),
            Message::Restarted { who } => head(to, RESTARTED, NO_PAGE, who.get()),
            Message::Free { object, id, step } => head(to, FREE, PageId { object, index: step as u32 }, id),
            Message::Freed { object, id, step } => head(to, FREED, PageId { object, index: step as u32 }, id),
        }
    }

    /// Reads bytes; none if they are no message.
    pub fn decode(bytes: &[u8]) -> Option<Message<'_>> {
        let mut rest = Reader(bytes);
        let kind = rest.u8()?;
        let page = PageId { object: ObjectId(rest.u64()?), index: rest.u32()? };
        let (id, barrier) = (rest.u32()?, page.object.0);
        let message = match kind {
            REQUEST => {
                let kind = rest.u8()?;
                let (need, has, at) = (need(kind & !HEIR)?, Access::of(rest.u8()?)?, rest.slice()?);
                let heir_of = if kind & HEIR == 0 { None } else { Some(rest.rank()?) };
                Message::Request { page, id, need, has, at, heir_of }
            }
            FORWARD => {
                let (to, at) = (rest.rank()?, rest.slice()?);
                let (need, notices) = (need(rest.u8()?)?, rest.u16()?);
                Message::Forward { page, id, to, at, need, notices, version: rest.u64()? }
            }
            INVALIDATE => {
                let to = rest.rank()?;
                Message::Invalidate { page, id, to, notices: rest.u16()?, version: rest.u64()? }
            }
            NOTICE => Message::Notice { page, id, notices: rest.u16()?, version: rest.u64()?, data: None },
            NOTICE_AND_DATA => {
                let (notices, version) = (rest.u16()?, rest.u64()?);
                return Some(Message::Notice { page, id, notices, version, data: Some(rest.0) });
            }
            DONE => Message::Done { page, id },
            ENTER => Message::Enter { barrier, id, parties: page.index },
            LEAVE if page.index == 0 => Message::Leave { barrier, id },
            PULL => {
                let (from, at) = (rest.rank()?, rest.slice()?);
                Message::Pull { page, id, from, at, version: rest.u64()? }
            }
            LOST => Message::Lost { page, id },
            OTHERWISE => Message::Otherwise { page, id },
            REPORT => {
                let (access, version, len) = (Access::of(rest.u8()?)?, rest.u64()?, rest.u32()?);
                Message::Report { page, access, version, len, given: Rank::new(id) }
            }
            REPORTED if page == NO_PAGE => Message::Reported { reports: id },
            RESTORE if id == 0 => Message::Restore { page, version: rest.u64()? },
            ENDED if (page, id) == (NO_PAGE, 0) => Message::Ended,
            BEGUN if (page, id) == (NO_PAGE, 0) => Message::Begun,
            HERE if (page, id) == (NO_PAGE, 0) => Message::Here,
            RESTARTED if page == NO_PAGE => Message::Restarted { who: Rank::new(id)? },
            FREE => Message::Free { object: page.object, id, step: Freeing::of(page.index)? },
            FREED => Message::Freed { object: page.object, id, step: Freeing::of(page.index)? },
            _ => return None,
        };
        rest.end(message)
    }
}

fn head(to: &mut Vec<u8>, kind: u8, page: PageId, id: u32) {
    to.push(kind);
    to.extend(page.object.0.to_le_bytes());
    to.extend(page.index.to_le_bytes());
    to.extend(id.to_le_bytes());
}

/// What somebody needs: nobody needs no access.
fn need(byte: u8) -> Option<Access> {
    Access::of(byte).filter(|access| *access != Access::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A peer may send anything. What is a message has one form, and whatever is none is refused.
        #[test]
        fn any_bytes_are_a_message_in_its_one_form_or_none(
            kind in 0..22u8,
            rest in prop::collection::vec(any::<u8>(), 0..80),
            small in any::<bool>(),
        ) {
            // Small numbers are more often a rank, a kind of access, or a step.
            let rest = rest.into_iter().map(|byte| if small { byte % 4 } else { byte });
            let bytes: Vec<u8> = std::iter::once(kind).chain(rest).collect();
            if let Some(message) = Message::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert!(again == bytes, "{message:?}");
            }
        }
    }

    #[test]
    fn every_message_survives_its_bytes_and_no_part_of_it_is_one() {
        let (page, id) = (PageId { object: ObjectId(1 << 40), index: 7 }, 9);
        let (to, need, notices, version) = (Rank::from_index(3), Access::Write, 62, 1 << 50);
        let at = RemoteSlice { addr: 1 << 40, len: 64, rkey: 7 };
        let mut bytes = Vec::new();
        for message in [
            Message::Request { page, id, need: Access::Read, has: Access::Invalid, at, heir_of: None },
            Message::Request { page, id, need: Access::Write, has: Access::Read, at, heir_of: Some(to) },
            Message::Forward { page, id, to, at, need, notices, version },
            Message::Invalidate { page, id, to, notices, version },
            Message::Notice { page, id, notices, version, data: None },
            Message::Done { page, id },
            Message::Enter { barrier: 5, id, parties: 64 },
            Message::Leave { barrier: 5, id },
            Message::Pull { page, id, from: to, at, version },
            Message::Free { object: page.object, id, step: Freeing::Close },
            Message::Freed { object: page.object, id, step: Freeing::Forget },
            Message::Lost { page, id },
            Message::Otherwise { page, id },
            Message::Report { page, access: Access::Read, version, len: 64, given: None },
            Message::Report { page, access: Access::Invalid, version, len: 64, given: Some(to) },
            Message::Reported { reports: 7 },
            Message::Restore { page, version },
            Message::Ended,
            Message::Begun,
            Message::Here,
            Message::Restarted { who: to },
        ] {
            message.encode(&mut bytes);
            assert!(bytes.len() <= LONGEST);
            assert_eq!(Message::decode(&bytes), Some(message));
            assert!((0..bytes.len()).all(|end| Message::decode(&bytes[..end]).is_none()), "{message:?}");
        }
        let data = [5; 64];
        let message = Message::Notice { page, id, notices, version, data: Some(&data) };
        message.encode(&mut bytes);
        assert_eq!(Message::decode(&bytes), Some(message));
    }
}
