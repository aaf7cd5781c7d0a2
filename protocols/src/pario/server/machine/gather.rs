//! Groups: members say that they have come to a round, and are answered when all have.

use super::*;

/// Members that have come, each with whom to answer and what it said.
pub(super) type Round = BTreeMap<u32, (Rank, u64, u64)>;

impl Machine {
    /// A member has come to a round of a group.
    pub(super) fn on_gather(
        &mut self,
        asked: (Rank, u64),
        round: (u64, u64),
        (member, members): (u32, u32),
        word: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if member >= members {
            return Err(Refusal::Position);
        }
        let come = self.rounds.entry(round).or_default();
        come.insert(member, (asked.0, asked.1, word));
        if come.len() < members as usize {
            return Ok(());
        }
        let come = self.rounds.remove(&round).unwrap_or_default();
        let most = come.values().map(|(.., word)| *word).max().unwrap_or_default();
        let answer = Answer::Gathered(most);
        out.extend(come.into_values().map(|(to, id, _)| Action::Answer { to, id, answer: answer.clone() }));
        Ok(())
    }

    /// A client began anew: it waits for nobody.
    pub(super) fn leave_rounds(&mut self, client: Rank) {
        self.rounds.retain(|_, come| {
            come.retain(|_, (of, ..)| *of != client);
            !come.is_empty()
        });
    }
}
