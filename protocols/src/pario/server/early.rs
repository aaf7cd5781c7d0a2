//! What happens while a server finds out what its disk has.

use super::machine::{Action, Event};
use crate::pario::messages::{Answer, Request};
use crate::pario::wire::UNASKED;

/// What is done when the server knows, in order.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<Event>);

impl Early {
    /// Keeps what happens. Only a question that is no call is answered at once, by the server's life: a long log takes its time, and who hears
    /// nothing meanwhile by a byte stream [gives it up](crate::pario::wire::SILENCE). Calls are answered in order.
    pub(super) fn on(&mut self, event: Event, epoch: u64) -> Option<Action> {
        match event {
            Event::Request { from, id: UNASKED, request: Request::Epoch } => {
                return Some(Action::Answer { to: from, id: UNASKED, answer: Answer::At { epoch } });
            }
            // What a client's earlier life asked for is of no use to it.
            Event::Reset { client } => {
                self.0.retain(|event| !matches!(event, Event::Request { from, .. } if *from == client));
            }
            _ => {}
        }
        self.0.push(event);
        None
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of it: the server knows.
    pub(super) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pario::Handle;
    use crate::transport::Rank;

    fn asks(index: u32, id: u64, request: Request) -> Event {
        Event::Request { from: Rank::from_index(index), id, request }
    }

    #[test]
    fn a_server_that_reads_its_log_says_that_it_lives_and_keeps_what_else_it_is_asked() {
        let (mut early, sync) = (Early::default(), Request::Sync { handle: Handle(5) });
        let calls = [asks(1, 3, sync), asks(1, 4, Request::Epoch)];
        calls.iter().for_each(|call| assert_eq!(early.on(call.clone(), 9), None));
        let answer = Answer::At { epoch: 9 };
        let answer = Action::Answer { to: Rank::from_index(2), id: UNASKED, answer };
        assert_eq!(early.on(asks(2, UNASKED, Request::Epoch), 9), Some(answer));
        assert_eq!(early.len(), 2);
        assert_eq!(early.take(), calls);
        assert_eq!(early.len(), 0);
    }

    #[test]
    fn what_a_clients_earlier_life_asked_for_is_not_kept() {
        let (mut early, sync) = (Early::default(), Request::Sync { handle: Handle(5) });
        let reset = Event::Reset { client: Rank::from_index(1) };
        for event in
            [asks(1, 3, sync.clone()), asks(2, 3, sync.clone()), reset.clone(), asks(1, 4, sync.clone())]
        {
            assert_eq!(early.on(event, 9), None);
        }
        assert_eq!(early.take(), [asks(2, 3, sync.clone()), reset, asks(1, 4, sync)]);
    }
}
