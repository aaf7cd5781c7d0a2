//! Groups: members say that they have come to a round, and are answered when all have.
//!
//! A round is in memory. A member that had joined before the home began anew [says so](BROKEN) when it comes: then all members are told
//! that the group is broken, those that wait and those that come later.

use super::super::super::messages::BROKEN;
use super::*;
use std::collections::BTreeSet;

/// Members that have come, each with whom to answer and what it said.
type Round = BTreeMap<u32, (Rank, u64, u64)>;

/// A group that is broken.
#[derive(Debug)]
struct Broken {
    /// In this round. Who comes to an earlier one is of another group of the same number.
    round: u64,
    /// The members that have been told.
    told: BTreeSet<u32>,
}

/// The groups that wait for members, or have some to tell that they are broken.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By group and round.
    rounds: BTreeMap<(u64, u64), Round>,
    broken: BTreeMap<u64, Broken>,
}

impl Groups {
    /// How many rounds wait for members.
    pub(super) fn waiting(&self) -> u64 {
        self.rounds.len() as u64
    }

    /// Whether a group is broken in which a member has come to this round.
    fn is_broken(&mut self, (group, round): (u64, u64)) -> bool {
        let is_over = self.broken.get(&group).is_some_and(|broken| round < broken.round);
        if is_over {
            self.broken.remove(&group);
        }
        self.broken.contains_key(&group)
    }

    /// Breaks a group, and tells this member and all that wait. Gives whom to answer.
    fn tell(&mut self, (group, round): (u64, u64), members: u32, come: Round) -> Vec<(Rank, u64)> {
        let waiting: Vec<_> = self.rounds.range((group, 0)..=(group, u64::MAX)).map(|(of, _)| *of).collect();
        let waiting = waiting.iter().filter_map(|of| self.rounds.remove(of)).flatten();
        let all: Vec<(u32, (Rank, u64, u64))> = waiting.chain(come).collect();
        let broken = self.broken.entry(group).or_insert_with(|| Broken { round, told: BTreeSet::new() });
        broken.told.extend(all.iter().map(|(member, _)| member));
        if broken.told.len() >= members as usize {
            self.broken.remove(&group);
        }
        all.into_iter().map(|(_, (to, id, _))| (to, id)).collect()
    }
}

impl Machine {
    /// A member has come to a round of a group.
    pub(super) fn on_gather(
        &mut self,
        (from, id): (Rank, u64),
        round: (u64, u64),
        (member, members): (u32, u32),
        word: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if member >= members {
            return Err(Refusal::Position);
        }
        if word == BROKEN || self.groups.is_broken(round) {
            let come = Round::from([(member, (from, id, word))]);
            let told = self.groups.tell(round, members, come);
            out.extend(told.into_iter().map(|(to, id)| gathered(to, id, BROKEN)));
            return Ok(());
        }
        let come = self.groups.rounds.entry(round).or_default();
        come.insert(member, (from, id, word));
        if come.len() < members as usize {
            return Ok(());
        }
        let come = self.groups.rounds.remove(&round).unwrap_or_default();
        let most = come.values().map(|(.., word)| *word).max().unwrap_or_default();
        out.extend(come.into_values().map(|(to, id, _)| gathered(to, id, most)));
        Ok(())
    }

    /// A client began anew: it waits for nobody.
    pub(super) fn leave_rounds(&mut self, client: Rank) {
        self.groups.rounds.retain(|_, come| {
            come.retain(|_, (of, ..)| *of != client);
            !come.is_empty()
        });
    }
}

fn gathered(to: Rank, id: u64, word: u64) -> Action {
    Action::Answer { to, id, answer: Answer::Gathered(word) }
}
