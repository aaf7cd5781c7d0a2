//! What members say to each other, and the bytes of it. All numbers little-endian.

use super::view::{Ballot, Member, View, ViewId};
use crate::bytes;
use crate::transport::{Grounds, Rank};

/// The version of everything in this file.
const VERSION: u8 = 3;

/// What one incarnation says to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// I have no view. Take me into yours.
    Join,
    /// I am leaving.
    Leave,
    /// Do you have a later view than this one, and what did you accept for the next? (Paxos, 1a.) The whole view, for those
    /// who have not heard of it; without members for a cold start.
    Prepare {
        /// The view whose members decide.
        after: View,
        /// The proposal's number.
        ballot: Ballot,
    },
    /// I accept nothing older any more, and have accepted this. (1b.)
    Promise {
        /// The view whose members decide.
        after: ViewId,
        /// The proposal's number.
        ballot: Ballot,
        /// What was accepted last.
        accepted: Option<(Ballot, View)>,
    },
    /// Accept this as the next view. (2a.)
    Accept {
        /// The view whose members decide.
        after: ViewId,
        /// The proposal's number.
        ballot: Ballot,
        /// The next view.
        next: View,
    },
    /// I have accepted it, and renew no leases in this view any more. (2b.)
    Accepted {
        /// The view whose members decide.
        after: ViewId,
        /// The proposal's number.
        ballot: Ballot,
    },
    /// This view was decided.
    Decided {
        /// The view.
        view: View,
    },
    /// Renew my lease in this view.
    Renew {
        /// The view.
        view: ViewId,
        /// The renewal's number.
        id: u64,
    },
    /// Renewed.
    Renewed {
        /// The view.
        view: ViewId,
        /// The renewal's number.
        id: u64,
    },
    /// Are you there? I am in this view.
    Ping {
        /// The view; the default before any. One who is in a later one tells it.
        view: ViewId,
    },
    /// I am, and in this view.
    Pong {
        /// The view; the default before any. One who is in a later one tells it.
        view: ViewId,
    },
    /// I cannot reach this member, and wait for it.
    Complaint {
        /// Whom.
        about: Member,
    },
    /// I can reach it.
    Vouch {
        /// Whom.
        about: Member,
    },
    /// I have no part in this view any more, nor in one before it.
    GivenUp {
        /// The view.
        view: ViewId,
    },
    /// I was told of this view and accepted another list before. Do you act in it?
    Ask {
        /// The view.
        view: ViewId,
        /// The proposal by which the other list was accepted: an answer comes after that.
        accepted: Ballot,
    },
    /// I do.
    Acts {
        /// The view.
        view: ViewId,
        /// The proposal by which the other list was accepted: an answer comes after that.
        accepted: Ballot,
    },
}

/// A message with the incarnations that it goes between. What is addressed to another one was meant for an earlier boot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Who says it.
    pub from: u64,
    /// To whom; zero for whichever incarnation there is.
    pub to: u64,
    /// What.
    pub message: Message,
}

/// [`longest`], in words.
pub(super) const LONGEST: &str = "at least 93 and 12 for each node";

/// The longest message among so many nodes, in bytes.
pub const fn longest(nodes: u32) -> u32 {
    let id = 12 + 8;
    // A node has a member, or one that was left out, or none.
    let view = id + 4 + 4 + 12 * nodes;
    // An acceptance or a promise: header, the view before, two ballots, whether there is one, a view.
    20 + id + 12 + 1 + 12 + view
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, n: u8) -> &mut Writer {
        self.0.push(n);
        self
    }

    fn u32(&mut self, n: u32) -> &mut Writer {
        self.0.extend(n.to_le_bytes());
        self
    }

    fn u64(&mut self, n: u64) -> &mut Writer {
        self.0.extend(n.to_le_bytes());
        self
    }

    fn id(&mut self, id: ViewId) -> &mut Writer {
        self.ballot(id.lineage).u64(id.number)
    }

    fn member(&mut self, member: Member) -> &mut Writer {
        self.u32(member.rank.get()).u64(member.incarnation)
    }

    fn ballot(&mut self, ballot: Ballot) -> &mut Writer {
        self.u32(ballot.round).u64(ballot.by)
    }

    fn view(&mut self, view: &View) -> &mut Writer {
        self.id(view.id).members(&view.members).members(&view.left)
    }

    fn members(&mut self, members: &[Member]) -> &mut Writer {
        self.u32(members.len() as u32);
        for member in members {
            self.member(*member);
        }
        self
    }
}

/// What is left of a message.
struct Reader<'a> {
    rest: bytes::Reader<'a>,
    /// How many nodes are configured.
    nodes: u32,
}

impl Reader<'_> {
    fn id(&mut self) -> Option<ViewId> {
        Some(ViewId { lineage: self.ballot()?, number: self.rest.u64()? })
    }

    /// It is of a node that is configured: whoever acts in a view has a place for each of its members.
    fn member(&mut self) -> Option<Member> {
        let member = Member { rank: Rank::new(self.rest.u32()?)?, incarnation: self.rest.u64()? };
        (member.incarnation != 0 && member.rank.get() <= self.nodes).then_some(member)
    }

    fn ballot(&mut self) -> Option<Ballot> {
        Some(Ballot { round: self.rest.u32()?, by: self.rest.u64()? })
    }

    /// A node is in it once, as a member or as one that was left out.
    fn view(&mut self) -> Option<View> {
        let view = View { id: self.id()?, members: self.members()?, left: self.members()? };
        view.left.iter().all(|left| view.of(left.rank).is_none()).then_some(view)
    }

    /// They come by rank, each once.
    fn members(&mut self) -> Option<Vec<Member>> {
        let count = self.rest.u32()?;
        let mut members: Vec<Member> = Vec::new();
        for _ in 0..count {
            let member = self.member()?;
            if members.last().is_some_and(|last| last.rank >= member.rank) {
                return None;
            }
            members.push(member);
        }
        Some(members)
    }
}

impl ViewId {
    /// That a view is without a member, for the transport to tell it.
    pub fn grounds(self) -> Grounds {
        let mut out = Writer(Vec::with_capacity(20));
        out.id(self);
        Grounds(out.0.try_into().expect("4, 8 and 8 bytes"))
    }

    /// The view that grounds name; the default for none.
    pub fn of_grounds(grounds: Grounds) -> ViewId {
        Reader { rest: bytes::Reader(&grounds.0), nodes: 0 }.id().unwrap_or_default()
    }
}

impl Envelope {
    /// Its bytes: version, kind, two zeros, from, to, and the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(64));
        out.u8(VERSION).u8(self.message.kind()).u8(0).u8(0).u64(self.from).u64(self.to);
        match &self.message {
            Message::Join | Message::Leave => &mut out,
            Message::Ping { view } | Message::Pong { view } | Message::GivenUp { view } => out.id(*view),
            Message::Prepare { after, ballot } => out.ballot(*ballot).view(after),
            Message::Promise { after, ballot, accepted } => {
                out.id(*after).ballot(*ballot).u8(accepted.is_some().into());
                match accepted {
                    Some((ballot, view)) => out.ballot(*ballot).view(view),
                    None => &mut out,
                }
            }
            Message::Accept { after, ballot, next } => out.id(*after).ballot(*ballot).view(next),
            Message::Accepted { after, ballot } => out.id(*after).ballot(*ballot),
            Message::Decided { view } => out.view(view),
            Message::Renew { view, id } | Message::Renewed { view, id } => out.id(*view).u64(*id),
            Message::Ask { view, accepted } | Message::Acts { view, accepted } => {
                out.id(*view).ballot(*accepted)
            }
            Message::Complaint { about } | Message::Vouch { about } => out.member(*about),
        };
        out.0
    }

    /// The message that bytes stand for among so many nodes; none if it names another one. Any bytes are answered.
    pub fn decode(bytes: &[u8], nodes: u32) -> Option<Envelope> {
        let mut read = Reader { rest: bytes::Reader(bytes), nodes };
        let [version, kind, 0, 0] = read.rest.array::<4>()? else { return None };
        if version != VERSION {
            return None;
        }
        let (from, to) = (read.rest.u64()?, read.rest.u64()?);
        let message = match kind {
            1 => Message::Join,
            2 => Message::Leave,
            3 => {
                let ballot = read.ballot()?;
                Message::Prepare { ballot, after: read.view()? }
            }
            4 => {
                let (after, ballot) = (read.id()?, read.ballot()?);
                let has_accepted = read.rest.flag()?;
                let accepted = if has_accepted { Some((read.ballot()?, read.view()?)) } else { None };
                Message::Promise { after, ballot, accepted }
            }
            5 => Message::Accept { after: read.id()?, ballot: read.ballot()?, next: read.view()? },
            6 => Message::Accepted { after: read.id()?, ballot: read.ballot()? },
            7 => Message::Decided { view: read.view()? },
            8 => Message::Renew { view: read.id()?, id: read.rest.u64()? },
            9 => Message::Renewed { view: read.id()?, id: read.rest.u64()? },
            10 => Message::Ping { view: read.id()? },
            11 => Message::Pong { view: read.id()? },
            12 => Message::Complaint { about: read.member()? },
            13 => Message::Vouch { about: read.member()? },
            14 => Message::GivenUp { view: read.id()? },
            15 => Message::Ask { view: read.id()?, accepted: read.ballot()? },
            16 => Message::Acts { view: read.id()?, accepted: read.ballot()? },
            _ => return None,
        };
        (from != 0 && read.rest.0.is_empty()).then_some(Envelope { from, to, message })
    }
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Message::Join => 1,
            Message::Leave => 2,
            Message::Prepare { .. } => 3,
            Message::Promise { .. } => 4,
            Message::Accept { .. } => 5,
            Message::Accepted { .. } => 6,
            Message::Decided { .. } => 7,
            Message::Renew { .. } => 8,
            Message::Renewed { .. } => 9,
            Message::Ping { .. } => 10,
            Message::Pong { .. } => 11,
            Message::Complaint { .. } => 12,
            Message::Vouch { .. } => 13,
            Message::GivenUp { .. } => 14,
            Message::Ask { .. } => 15,
            Message::Acts { .. } => 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member() -> impl Strategy<Value = Member> {
        (1u32..9, 1u64..)
            .prop_map(|(rank, incarnation)| Member { rank: Rank::new(rank).unwrap(), incarnation })
    }

    fn id() -> impl Strategy<Value = ViewId> {
        (ballot(), any::<u64>()).prop_map(|(lineage, number)| ViewId { lineage, number })
    }

    fn ballot() -> impl Strategy<Value = Ballot> {
        any::<(u32, u64)>().prop_map(|(round, by)| Ballot { round, by })
    }

    fn view() -> impl Strategy<Value = View> {
        (id(), proptest::collection::btree_map(1u32..9, (1u64.., any::<bool>()), 0..8)).prop_map(
            |(id, all)| {
                let (mut members, mut left) = (Vec::new(), Vec::new());
                for (rank, (incarnation, is_in)) in all {
                    let member = Member { rank: Rank::new(rank).unwrap(), incarnation };
                    if is_in { &mut members } else { &mut left }.push(member);
                }
                View { id, members, left }
            },
        )
    }

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            Just(Message::Join),
            Just(Message::Leave),
            (view(), ballot()).prop_map(|(after, ballot)| Message::Prepare { after, ballot }),
            (id(), ballot(), proptest::option::of((ballot(), view())))
                .prop_map(|(after, ballot, accepted)| Message::Promise { after, ballot, accepted }),
            (id(), ballot(), view()).prop_map(|(after, ballot, next)| Message::Accept {
                after,
                ballot,
                next
            }),
            (id(), ballot()).prop_map(|(after, ballot)| Message::Accepted { after, ballot }),
            view().prop_map(|view| Message::Decided { view }),
            (id(), any::<u64>()).prop_map(|(view, id)| Message::Renew { view, id }),
            (id(), any::<u64>()).prop_map(|(view, id)| Message::Renewed { view, id }),
            id().prop_map(|view| Message::Ping { view }),
            id().prop_map(|view| Message::Pong { view }),
            member().prop_map(|about| Message::Complaint { about }),
            member().prop_map(|about| Message::Vouch { about }),
            id().prop_map(|view| Message::GivenUp { view }),
            (id(), ballot()).prop_map(|(view, accepted)| Message::Ask { view, accepted }),
            (id(), ballot()).prop_map(|(view, accepted)| Message::Acts { view, accepted }),
        ]
    }

    #[test]
    fn a_mesh_that_carries_what_it_is_told_to_carry_carries_every_message() {
        let told = format!("at least {} and {} for each node", longest(0), longest(1) - longest(0));
        assert_eq!(LONGEST, told);
    }

    #[test]
    fn what_names_a_node_that_is_not_configured_is_no_message() {
        let of = |rank: u32| Member { rank: Rank::new(rank).unwrap(), incarnation: 7 };
        let ballot = Ballot { round: 1, by: 7 };
        for (members, left) in [(vec![of(1), of(4)], vec![]), (vec![of(1)], vec![of(4)])] {
            let view = View { id: ViewId { lineage: ballot, number: 2 }, members, left };
            for message in [
                Message::Prepare { after: view.clone(), ballot },
                Message::Promise { after: view.id, ballot, accepted: Some((ballot, view.clone())) },
                Message::Accept { after: view.id, ballot, next: view.clone() },
                Message::Decided { view: view.clone() },
                Message::Complaint { about: of(4) },
                Message::Vouch { about: of(4) },
            ] {
                let bytes = Envelope { from: 7, to: 7, message }.encode();
                assert!(Envelope::decode(&bytes, 4).is_some());
                assert_eq!(Envelope::decode(&bytes, 3), None);
            }
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_back_from_its_bytes(from in 1u64.., to: u64, message in message(), cut: usize) {
            let envelope = Envelope { from, to, message };
            let bytes = envelope.encode();
            prop_assert!(bytes.len() <= longest(8) as usize);
            prop_assert_eq!(Envelope::decode(&bytes[..cut % bytes.len()], 8), None);
            prop_assert_eq!(Envelope::decode(&bytes, 8), Some(envelope));
        }

        #[test]
        fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0u8..17) {
            if let [version, k, a, b, ..] = &mut bytes[..] {
                (*version, *k, *a, *b) = (VERSION, kind, 0, 0);
            }
            if let Some(envelope) = Envelope::decode(&bytes, u32::MAX) {
                prop_assert_eq!(envelope.encode(), bytes);
            }
        }
    }
}
