//! Answers that are kept until their clients have received them: a call is executed once, however often a home begins anew.
//!
//! An answer is committed in the same batch of the log as the effect. So whoever asks again finds both, or neither.

use super::super::messages::{Reader, Writer};
use super::super::slots::Asked;
use super::super::{Distribution, Handle};
use crate::transport::Rank;
use std::collections::BTreeMap;

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kept {
    Done,
    Opened { handle: Handle, layout: Distribution },
    Place { at: u64 },
}

/// The answers of all clients, each in its slot.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Answered(BTreeMap<(Rank, u16), (u64, Kept)>);

impl Answered {
    /// What was answered to a call, if it was.
    pub(super) fn to(&self, client: Rank, asked: Asked) -> Option<Kept> {
        let kept = self.0.get(&(client, asked.slot)).filter(|(sequence, _)| *sequence == asked.sequence);
        kept.map(|(_, kept)| *kept)
    }

    /// Keeps an answer. That in the slot before was received.
    pub(super) fn keep(&mut self, client: Rank, asked: Asked, kept: Kept) {
        self.0.insert((client, asked.slot), (asked.sequence, kept));
    }

    /// Forgets one that was never given.
    pub(super) fn forget(&mut self, client: Rank, asked: Asked) {
        if self.to(client, asked).is_some() {
            self.0.remove(&(client, asked.slot));
        }
    }

    /// All of them.
    pub(super) fn encode(&self, to: &mut Writer) {
        to.u64(self.0.len() as u64);
        for ((client, slot), (sequence, kept)) in &self.0 {
            encode(*client, Asked { slot: *slot, sequence: *sequence }, *kept, to);
        }
    }

    /// Reads them.
    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Answered> {
        let mut answered = Answered::default();
        for _ in 0..from.u64()? {
            let (client, asked, kept) = decode(from)?;
            answered.keep(client, asked, kept);
        }
        Some(answered)
    }
}

/// One as bytes of the log.
pub(super) fn encode(client: Rank, asked: Asked, kept: Kept, to: &mut Writer) {
    to.u32(client.get());
    to.asked(asked);
    match kept {
        Kept::Done => to.0.push(0),
        Kept::Opened { handle, layout } => {
            to.0.push(1);
            to.u64(handle.0);
            to.layout(layout);
        }
        Kept::Place { at } => {
            to.0.push(2);
            to.u64(at);
        }
    }
}

/// Reads one.
pub(super) fn decode(from: &mut Reader<'_>) -> Option<(Rank, Asked, Kept)> {
    let (client, asked) = (Rank::new(from.u32()?)?, from.asked()?);
    let kept = match from.u8()? {
        0 => Kept::Done,
        1 => Kept::Opened { handle: from.handle()?, layout: from.layout()? },
        2 => Kept::Place { at: from.u64()? },
        _ => return None,
    };
    Some((client, asked, kept))
}
