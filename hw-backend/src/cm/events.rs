//! What `rdma_cm` tells, and what follows from it.

use super::header::{self, Header};
use super::{Connection, Manager, RESOLVE_MS, Stage, Wanted, cannot_be_reached};
use crate::ffi::{CmMessage, EventKind, Failing};
use std::io;
use std::net::IpAddr;
use weft_verbs::{CmEvent, CmId, Modify, Mtu, QueuePair, RejectReason};

/// Reasons of IBA 12.6.7.2 as `rdma_cm` passes them on.
mod reason {
    pub(super) const TIMEOUT: i32 = 4;
    pub(super) const INVALID_SERVICE_ID: i32 = 8;
    pub(super) const CONSUMER_DEFINED: i32 = 28;
}

impl Manager {
    pub(super) fn handle(&self, message: CmMessage) {
        if message.request.is_some() {
            return self.on_request(message);
        }
        let key = message.key;
        match message.kind {
            EventKind::AddrResolved => self.on_address(key),
            EventKind::RouteResolved => self.on_route(key),
            EventKind::ConnectResponse => self.on_answer(key, &message),
            EventKind::Established => self.on_established(key),
            EventKind::Rejected => self.on_rejected(key, &message),
            EventKind::Failed(at) => self.on_failure(key, &failed(at, message.status)),
            EventKind::Disconnected => self.on_disconnected(key),
            EventKind::DeviceRemoval => self.on_removal(key),
            // Address changes, ends of time-wait: nothing to do. A request is dealt with above.
            EventKind::ConnectRequest | EventKind::Other(_) => {}
        }
    }

    fn on_request(&self, message: CmMessage) {
        let Some(identity) = message.request else { return };
        let service = self.listeners.borrow().get(&message.key).map(|listener| listener.service);
        let (Some(service), Some((header, private))) = (service, header::decode(&message.private)) else {
            // Nobody listens any more, or the peer speaks something else.
            let _ = identity.reject(&header::encode(Header { mtu: Mtu::B256 }, &[]));
            return;
        };
        let peer = asker(identity.peer());
        if let Some(why) = self.misled(identity.device()) {
            // Its answer would give the peer a queue pair's number of this device for a way to another one.
            let _ = identity.reject(&header::encode(Header { mtu: Mtu::B256 }, &[]));
            return self.context.trouble(cannot_be_reached(&peer, &why));
        }
        let key = self.fresh();
        identity.rename(key);
        let wanted = Wanted { header, depth: message.initiator_depth };
        let connection = Connection {
            stage: Stage::Requested,
            identity,
            peer,
            qp: None,
            terms: None,
            wanted: Some(wanted),
            until: None,
        };
        self.connections.borrow_mut().insert(key, connection);
        self.raise(CmEvent::Request { id: CmId(key), service, private });
    }

    /// Takes a connection out where it is at one of these stages.
    fn take(&self, key: u64, stages: &[Stage]) -> Option<Connection> {
        let mut connections = self.connections.borrow_mut();
        let at = connections.get(&key)?.stage;
        if stages.contains(&at) { connections.remove(&key) } else { None }
    }

    fn put_back(&self, key: u64, connection: Connection) {
        self.connections.borrow_mut().insert(key, connection);
    }

    fn on_address(&self, key: u64) {
        let Some(connection) = self.take(key, &[Stage::Resolving]) else { return };
        if let Some(why) = self.misled(connection.identity.device()) {
            self.context.found_address.misleads();
            return self.give_up(key, &connection.peer, &why);
        }
        match connection.identity.resolve_route(RESOLVE_MS) {
            Ok(()) => self.put_back(key, connection),
            Err(error) => self.give_up(key, &connection.peer, &error.to_string()),
        }
    }

    fn on_route(&self, key: u64) {
        let Some(connection) = self.take(key, &[Stage::Resolving]) else { return };
        self.put_back(key, Connection { stage: Stage::Resolved, ..connection });
        self.raise(CmEvent::Resolved { id: CmId(key) });
    }

    /// The passive side has accepted: the active side's queue pair follows.
    fn on_answer(&self, key: u64, message: &CmMessage) {
        let Some(connection) = self.take(key, &[Stage::Asked]) else { return };
        let (Some(qp), Some(terms)) = (&connection.qp, connection.terms) else { return };
        let Some((header, private)) = header::decode(&message.private) else {
            let _ = connection.identity.reject(&[]);
            return self.give_up(key, &connection.peer, "it speaks another protocol");
        };
        let wanted = Wanted { header, depth: message.initiator_depth };
        let made = self
            .ready(&connection.identity, qp, &terms, &wanted)
            .and_then(|()| connection.identity.establish());
        match made {
            Ok(()) => {
                self.put_back(key, Connection { stage: Stage::Established, until: None, ..connection });
                self.raise(CmEvent::Established { id: CmId(key), private });
            }
            Err(error) => {
                let _ = qp.modify(&Modify::Err);
                self.give_up(key, &connection.peer, &error.to_string());
            }
        }
    }

    fn on_established(&self, key: u64) {
        let Some(connection) = self.take(key, &[Stage::Accepted, Stage::Leaving]) else { return };
        if connection.stage == Stage::Leaving {
            // It was ended before the peer had confirmed it: only now can the peer be told.
            let _ = connection.identity.disconnect();
            return self.put_back(key, Connection { until: None, ..connection });
        }
        self.put_back(key, Connection { stage: Stage::Established, until: None, ..connection });
        self.raise(CmEvent::Established { id: CmId(key), private: Vec::new() });
    }

    fn on_rejected(&self, key: u64, message: &CmMessage) {
        let over = self.take(key, &[Stage::Asked, Stage::Accepted, Stage::Established, Stage::Leaving]);
        let Some(over) = over else { return };
        if over.stage == Stage::Established {
            // Its acceptance was confirmed, by a message that got lost, and is taken back.
            return self.raise(CmEvent::Disconnected { id: CmId(key) });
        }
        if over.stage != Stage::Asked {
            return self.fail(key, &over, "it gave its request up");
        }
        // Of one that does not speak this protocol all that it says, be it padding alone: it has said something.
        let private =
            header::decode(&message.private).map_or_else(|| message.private.clone(), |(_, private)| private);
        let reason = match message.status.abs() {
            reason::INVALID_SERVICE_ID => RejectReason::NoListener,
            reason::CONSUMER_DEFINED => RejectReason::Consumer,
            reason::TIMEOUT => RejectReason::Timeout,
            other => RejectReason::Other(other as u16),
        };
        self.raise(CmEvent::Rejected { id: CmId(key), reason, private });
    }

    fn on_failure(&self, key: u64, why: &str) {
        let pending = [Stage::Resolving, Stage::Resolved, Stage::Asked, Stage::Requested, Stage::Accepted];
        if let Some(over) = self.take(key, &pending) {
            return self.fail(key, &over, why);
        }
        self.on_disconnected(key);
    }

    /// The kernel takes a device away, and tells so of each identity that is bound to it. Where the device's driver cannot let go of
    /// open contexts this is all that it tells: it waits until the process has closed the device (`ib_uverbs_remove_one` of Linux).
    fn on_removal(&self, key: u64) {
        let connection = self.connections.borrow().get(&key).map(|connection| connection.identity.device());
        let bound = connection.or_else(|| Some(self.listeners.borrow().get(&key)?.identity.device()));
        if bound.is_some_and(|device| self.misled(device).is_none()) {
            self.context.removal.notice();
        }
        self.on_failure(key, "the device was removed");
    }

    fn on_disconnected(&self, key: u64) {
        let ended = [Stage::Established, Stage::Accepted, Stage::Leaving];
        let Some(connection) = self.take(key, &ended) else { return };
        if connection.stage == Stage::Leaving {
            return;
        }
        // Answers the peer, which waits for it before it forgets the connection.
        let _ = connection.identity.disconnect();
        if connection.stage == Stage::Accepted {
            return self.fail(key, &connection, "it was ended before it was confirmed");
        }
        self.raise(CmEvent::Disconnected { id: CmId(key) });
    }
}

/// Who has asked, for people. All attempts of one machine have the same name, so that what comes of them is told once.
fn asker(at: Option<IpAddr>) -> String {
    at.map_or("a machine that asked".to_string(), |at| format!("{at}, which asked,"))
}

/// At what an attempt has failed and why, for people: an errno, negative as the kernel has it.
fn failed(at: Failing, status: i32) -> String {
    let what = match at {
        Failing::Address => "its address is not found",
        Failing::Route => "no route to it is found",
        Failing::Answer => "it does not answer",
        Failing::Connection => "the connection failed",
    };
    match status {
        0 => what.to_string(),
        errno => format!("{what}: {}", io::Error::from_raw_os_error(errno.saturating_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_reads_at_what_an_attempt_failed_and_finds_it_in_the_readme() {
        let all = [Failing::Address, Failing::Route, Failing::Answer];
        let page = include_str!("../../README.md");
        for line in all.map(|at| failed(at, -libc::ETIMEDOUT)) {
            let (what, why) = line.split_once(": ").expect("it says why");
            assert_eq!(why, "Connection timed out (os error 110)");
            assert!(page.contains(&format!("cannot be reached: {what}")), "{line}");
        }
        assert_eq!(failed(Failing::Answer, 0), "it does not answer");
    }

    #[test]
    fn who_asks_is_named_by_its_address_alone() {
        assert_eq!(asker(Some(IpAddr::from([10, 0, 0, 2]))), "10.0.0.2, which asked,");
        assert_eq!(asker(None), "a machine that asked");
    }
}
