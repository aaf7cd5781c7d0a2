//! What is left to the driver, by whoever runs between its turns.

use super::fail_back::Wanted;
use super::link::Event;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::Waker;

/// What the driver has yet to do for peers, which are known by their indices, and how to wake it.
#[derive(Default)]
pub(super) struct ToDo {
    /// What has happened to a peer, and in which epoch of its queue pair.
    pub(super) events: RefCell<VecDeque<(usize, u32, Event)>>,
    /// Peers whose messages wait for room in the send queue.
    pub(super) starved: RefCell<Vec<usize>>,
    /// Peers that were sent messages and are not on the driver's list of those to probe yet.
    pub(super) unprobed: RefCell<Vec<usize>>,
    /// Peers for whose next message there was no memory, and that are not on the driver's list of those yet.
    pub(super) unsupplied: RefCell<Vec<usize>>,
    /// Peers whose connection came to stand, and that may need a standby queue pair.
    pub(super) unready: RefCell<Vec<usize>>,
    /// Peers whose connection is on a worse rail and whose hold-off is to begin.
    pub(super) unheld: RefCell<Vec<usize>>,
    /// Rails that are to be tried.
    pub(super) untried: RefCell<Vec<Wanted>>,
    pub(super) driver: RefCell<Option<Waker>>,
}

impl ToDo {
    pub(super) fn is_empty(&self) -> bool {
        let ToDo { events, starved, unprobed, unsupplied, unready, unheld, untried, driver: _ } = self;
        let peers = [starved, unprobed, unsupplied, unready, unheld];
        events.borrow().is_empty()
            && untried.borrow().is_empty()
            && peers.into_iter().all(|peers| peers.borrow().is_empty())
    }

    pub(super) fn wake_driver(&self) {
        if let Some(waker) = self.driver.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}
