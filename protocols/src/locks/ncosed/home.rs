//! The home's side of one lock: a state machine without I/O.
//!
//! While an epoch lasts it says where the word is, and serves those who share (`serving`). When an epoch ends it
//! decides alone until the next one begins.

use super::OutcomeUnknown;
use super::messages::{Claim, Epoch, Message, Report};
use super::rebuild;
use super::serving::Serving;
use super::word::Word;
use crate::locks::Mode;
use crate::locks::client::WaitPolicy;
use crate::locks::queue::{GrantQueue, OutOfTurn};
use crate::transport::Rank;
use weft_verbs::RemoteSlice;

/// What happens to the home.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A message for the lock's home came.
    Message(Rank, Message),
    /// The compare-and-swap that was asked for came home.
    Swapped(Result<Word, OutcomeUnknown>),
    /// A fresh word, all zeros, or none to be had.
    Word(Option<RemoteSlice>),
    /// All members of a view that has begun have reported, and nobody who left holds anything any more.
    MayGrant,
}

/// What the home wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send a message.
    Send(Rank, Message),
    /// Compare-and-swap on the word; answer with [`Event::Swapped`]. One is out at a time.
    Swap { at: RemoteSlice, compare: Word, swap: Word },
    /// Find a word; answer with [`Event::Word`]. The old one is not used any more.
    FreshWord { retired: Option<RemoteSlice> },
    /// Count a rebuild.
    Rebuilding,
    /// Count a message of an epoch that is over.
    Stale,
    /// Count a message that contradicts the protocol.
    OutOfTurn,
}

/// The home's actions, in order.
pub(crate) type Actions = Vec<Action>;

#[derive(Clone, Debug, Hash)]
enum Phase {
    /// Nobody has asked for the lock.
    New,
    /// A view of the membership has begun: members report what they had of the lock in the last one. In the order of those who know
    /// the word.
    Reporting(Vec<Report>),
    /// A word is being looked for.
    Opening,
    Serving(Serving),
    /// The epoch ends: reports come in, and perhaps our own compare-and-swap.
    Freezing {
        reports: Vec<Option<Report>>,
        swap_out: bool,
    },
    /// All have reported. The word is read for the last time and poisoned; `guess` is what it may hold.
    Closing {
        reports: Vec<Report>,
        guess: Word,
    },
    /// The home grants what was reported.
    Draining(GrantQueue),
}

/// The home of one lock.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Home {
    epoch: Epoch,
    word: Option<RemoteSlice>,
    /// Who knows the word.
    openers: Vec<Rank>,
    /// Who has asked since the epoch's end, and whether it waits for those who have the lock.
    joining: Vec<(Rank, WaitPolicy)>,
    phase: Phase,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { epoch: 0, word: None, openers: Vec::new(), joining: Vec::new(), phase: Phase::New }
    }

    /// The home of a lock in a view that has begun, until all members have reported: whoever kept the lock in the last one, nothing is
    /// known of it but what they say. An epoch before the first.
    pub(crate) fn of_a_view() -> Home {
        Home { phase: Phase::Reporting(Vec::new()), ..Home::new() }
    }

    /// Takes an event in.
    pub(crate) fn on_event(&mut self, event: Event, out: &mut Actions) {
        match event {
            Event::Message(from, message) => self.on_message(from, message, out),
            Event::Swapped(outcome) => self.on_swapped(outcome, out),
            Event::Word(word) => self.on_word(word, out),
            Event::MayGrant => self.may_grant(out),
        }
    }

    fn on_message(&mut self, from: Rank, message: Message, out: &mut Actions) {
        match message {
            Message::Open { policy } => return self.on_open(from, policy, out),
            Message::Wait { epoch, .. }
            | Message::Release { epoch }
            | Message::Downgrade { epoch }
            | Message::RetryReset { epoch }
            | Message::Report { epoch, .. } => {
                if epoch < self.epoch {
                    return out.push(Action::Stale);
                }
                if epoch > self.epoch {
                    return out.push(Action::OutOfTurn);
                }
            }
            _ => return out.push(Action::OutOfTurn),
        }
        match &mut self.phase {
            Phase::New | Phase::Opening => out.push(Action::OutOfTurn),
            Phase::Reporting(_) => self.while_reporting(from, message, out),
            Phase::Serving(_) => self.while_serving(from, message, out),
            Phase::Freezing { .. } => self.while_freezing(from, message, out),
            Phase::Closing { reports, .. } => match self.openers.iter().position(|&o| o == from) {
                Some(at) => after_report(&mut reports[at], message, out),
                None => out.push(Action::OutOfTurn),
            },
            Phase::Draining(queue) => {
                let taken = match message {
                    Message::Release { .. } => queue.release(from),
                    Message::Downgrade { .. } => queue.downgrade(from),
                    _ => Err(OutOfTurn),
                };
                match taken {
                    Ok(()) => self.drain(out),
                    Err(OutOfTurn) => out.push(Action::OutOfTurn),
                }
            }
        }
    }

    fn while_reporting(&mut self, from: Rank, message: Message, out: &mut Actions) {
        let Phase::Reporting(reports) = &mut self.phase else { return };
        match (self.openers.iter().position(|&o| o == from), message) {
            (None, Message::Report { report, .. }) => {
                self.openers.push(from);
                reports.push(report);
            }
            (Some(at), message) => after_report(&mut reports[at], message, out),
            (None, _) => out.push(Action::OutOfTurn),
        }
    }

    /// The members' reports are the queue; the dead report nothing. In which order those who wait had come is not known: the word that
    /// says it may have been the dead one's.
    fn may_grant(&mut self, out: &mut Actions) {
        let Phase::Reporting(reports) = &self.phase else { return };
        let reported: Vec<_> = self.openers.iter().copied().zip(reports.iter().copied()).collect();
        self.phase = Phase::Draining(rebuild::queue(Word::FREE, &reported));
        self.drain(out);
        self.refuse_tries(out);
    }

    /// Others have the lock, or want it: who only tries does not wait for that.
    fn refuse_tries(&mut self, out: &mut Actions) {
        if matches!(self.phase, Phase::Draining(_)) {
            let tries = self.joining.extract_if(.., |(_, policy)| *policy == WaitPolicy::Try);
            out.extend(tries.map(|(node, _)| Action::Send(node, Message::Busy)));
        }
    }

    fn while_serving(&mut self, from: Rank, message: Message, out: &mut Actions) {
        let Phase::Serving(serving) = &mut self.phase else { return };
        if let Message::Report { report, .. } = message {
            let swap_out = serving.is_resetting();
            self.freeze(swap_out, out);
            self.on_report(from, report, out);
        } else {
            serving.take(message, out);
            self.serve(out);
        }
    }

    fn while_freezing(&mut self, from: Rank, message: Message, out: &mut Actions) {
        if let Message::Report { report, .. } = message {
            return self.on_report(from, report, out);
        }
        let at = self.openers.iter().position(|&o| o == from);
        let Phase::Freezing { reports, .. } = &mut self.phase else { return };
        match (at.and_then(|at| reports[at].as_mut()), message) {
            (None, Message::Downgrade { .. }) => out.push(Action::OutOfTurn),
            // Sent before its sender reported, and counted for an epoch that is over.
            (None, _) => out.push(Action::Stale),
            (Some(report), message) => after_report(report, message, out),
        }
    }

    /// A node asks for the word.
    fn on_open(&mut self, from: Rank, policy: WaitPolicy, out: &mut Actions) {
        match (&self.phase, self.word) {
            (Phase::New, _) => {
                self.joining.push((from, policy));
                self.phase = Phase::Opening;
                out.push(Action::FreshWord { retired: None });
            }
            (Phase::Serving(_), Some(word)) => {
                self.admit(from);
                out.push(Action::Send(from, Message::Opened { epoch: self.epoch, word }));
            }
            // As those are told who know the word: what was reported comes first.
            (Phase::Freezing { .. } | Phase::Closing { .. } | Phase::Draining(_), _)
                if policy == WaitPolicy::Try =>
            {
                out.push(Action::Send(from, Message::Busy));
            }
            _ if self.joining.iter().any(|(node, _)| *node == from) => {}
            _ => self.joining.push((from, policy)),
        }
    }

    fn admit(&mut self, node: Rank) {
        if !self.openers.contains(&node) {
            self.openers.push(node);
        }
    }

    /// A new epoch begins.
    fn on_word(&mut self, word: Option<RemoteSlice>, out: &mut Actions) {
        let Some(word) = word else {
            // Only the first word of a lock in a view can be lacking: a rebuild leaves at least the old one. Those who reported as the view
            // began wait for the word as those do who have asked for it, and ask anew as they do.
            self.phase = Phase::New;
            let reported = std::mem::take(&mut self.openers);
            for node in reported.into_iter().chain(self.joining.drain(..).map(|(node, _)| node)) {
                out.push(Action::Send(node, Message::Refused));
            }
            return;
        };
        self.epoch += 1;
        self.word = Some(word);
        self.phase = Phase::Serving(Serving::default());
        for (node, _) in std::mem::take(&mut self.joining) {
            self.admit(node);
        }
        for &node in &self.openers {
            out.push(Action::Send(node, Message::Opened { epoch: self.epoch, word }));
        }
    }

    /// Serves whoever waits; when nobody does, tries to reset the count.
    fn serve(&mut self, out: &mut Actions) {
        if let (Phase::Serving(serving), Some(at)) = (&mut self.phase, self.word) {
            serving.serve(self.epoch, at, out);
        }
    }

    fn on_swapped(&mut self, outcome: Result<Word, OutcomeUnknown>, out: &mut Actions) {
        match &mut self.phase {
            Phase::Serving(serving) => match outcome {
                Ok(was) => {
                    serving.reset_came_home(was);
                    self.serve(out);
                }
                Err(OutcomeUnknown) => self.freeze(false, out),
            },
            Phase::Freezing { swap_out, .. } => {
                // Whatever became of it: an atomic whose result never came.
                *swap_out = false;
                self.close_when_all_reported(out);
            }
            Phase::Closing { guess, .. } => {
                let last = match outcome {
                    // Ours took effect just now, or did so earlier and we never heard.
                    Ok(was) if was == *guess || was.is_poisoned() => Some(*guess),
                    Ok(was) => {
                        *guess = was;
                        None
                    }
                    Err(OutcomeUnknown) => None,
                };
                match last {
                    Some(last) => self.closed(last, out),
                    None => self.poison(out),
                }
            }
            Phase::New | Phase::Reporting(_) | Phase::Opening | Phase::Draining(_) => {
                out.push(Action::OutOfTurn);
            }
        }
    }

    /// Ends the epoch: nothing more is served in it.
    fn freeze(&mut self, swap_out: bool, out: &mut Actions) {
        out.push(Action::Rebuilding);
        for &node in &self.openers {
            out.push(Action::Send(node, Message::Freeze { epoch: self.epoch }));
        }
        self.phase = Phase::Freezing { reports: vec![None; self.openers.len()], swap_out };
    }

    fn on_report(&mut self, from: Rank, report: Report, out: &mut Actions) {
        let Phase::Freezing { reports, .. } = &mut self.phase else { return };
        match self.openers.iter().position(|&o| o == from) {
            Some(at) if reports[at].is_none() => reports[at] = Some(report),
            _ => return out.push(Action::OutOfTurn),
        }
        self.close_when_all_reported(out);
    }

    fn close_when_all_reported(&mut self, out: &mut Actions) {
        let Phase::Freezing { reports, swap_out: false } = &self.phase else { return };
        let Some(reports) = reports.iter().copied().collect() else { return };
        self.phase = Phase::Closing { reports, guess: Word::FREE };
        self.poison(out);
    }

    /// Nobody uses the word any more: this ends after one wrong guess.
    fn poison(&mut self, out: &mut Actions) {
        if let (Phase::Closing { guess, .. }, Some(at)) = (&self.phase, self.word) {
            out.push(Action::Swap { at, compare: *guess, swap: Word::POISON });
        }
    }

    fn closed(&mut self, last: Word, out: &mut Actions) {
        let Phase::Closing { reports, .. } = &self.phase else { return };
        let reported: Vec<_> = self.openers.iter().copied().zip(reports.iter().copied()).collect();
        self.phase = Phase::Draining(rebuild::queue(last, &reported));
        self.drain(out);
    }

    fn drain(&mut self, out: &mut Actions) {
        let Phase::Draining(queue) = &mut self.phase else { return };
        while let Some((who, _)) = queue.next_grant() {
            out.push(Action::Send(who, Message::GrantAfterRecovery { epoch: self.epoch }));
        }
        if queue.is_idle() {
            self.phase = Phase::Opening;
            out.push(Action::FreshWord { retired: self.word });
        }
    }

    /// The word of this epoch.
    pub(crate) fn word(&self) -> Option<RemoteSlice> {
        self.word
    }

    /// The word that nobody uses any more once this home is none: not one that has been given up for another already.
    pub(crate) fn last_word(&self) -> Option<RemoteSlice> {
        self.word.filter(|_| !matches!(self.phase, Phase::Opening))
    }

    /// Whether an epoch has ended and the next one has not begun.
    pub(crate) fn is_rebuilding(&self) -> bool {
        match self.phase {
            Phase::New | Phase::Serving(_) => false,
            Phase::Opening => self.epoch > 0,
            Phase::Reporting(_) | Phase::Freezing { .. } | Phase::Closing { .. } | Phase::Draining(_) => true,
        }
    }

    /// Releases that are not accounted for.
    pub(crate) fn unspent(&self) -> u32 {
        match &self.phase {
            Phase::Serving(serving) => serving.unspent(),
            _ => 0,
        }
    }

    /// Who holds or waits, as far as the home's books know.
    pub(crate) fn entries(&self) -> usize {
        match &self.phase {
            Phase::Serving(serving) => usize::from(serving.is_waited_for()),
            Phase::Draining(queue) => queue.holding() + queue.waiting(),
            Phase::Reporting(reports) => {
                reports.iter().filter(|report| report.claim != Claim::Nothing).count()
            }
            _ => 0,
        }
    }
}

/// A node that had reported a hold gave it up, or half of it, before the home had made its queue.
fn after_report(report: &mut Report, message: Message, out: &mut Actions) {
    report.claim = match (report.claim, message) {
        (Claim::Holds(_), Message::Release { .. }) => Claim::Nothing,
        (Claim::Holds(Mode::Exclusive), Message::Downgrade { .. }) => Claim::Holds(Mode::Shared),
        _ => return out.push(Action::OutOfTurn),
    };
}
