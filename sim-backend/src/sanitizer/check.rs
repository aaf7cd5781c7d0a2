//! The rules, applied to one access at a time.

use super::leases::{Holder, Lease, Queue};
use super::ledger::Request;
use super::words::{Executed, Word};
use super::{Action, Gone, Landing, Party, Region, Rule, Sanitizer, Side, Violation, is_atomic};
use crate::NodeId;
use crate::access::{Access, RegionId, What, Who};
use crate::hca::{Endpoint, HcaId, Key, place_of};
use std::ops::Range;
use weft_verbs::{Nanos, QpNum, WcOp};

impl Sanitizer {
    /// An access has happened.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        match access.who {
            Who::Cpu(node) => self.by_processor(node, access),
            Who::Adapter { qp, .. } if access.what == What::Write => self.plain_write(qp, access),
            Who::Adapter { .. } => {}
            Who::Peer { qp, .. } => match access.what {
                What::Write => self.plain_write(qp, access),
                What::Atomic => self.atomic(qp, access),
                What::Read | What::Claim => self.by_peers_read(qp, access),
            },
        }
    }

    fn by_processor(&mut self, node: NodeId, access: &Access) {
        let Some(region) = self.regions.get(access.region.0 as usize).and_then(Option::as_deref) else {
            return;
        };
        let changes = access.what.changes();
        if let Some(lease) = region.leases.find(access.range(), changes) {
            return self.pending(node, access, lease);
        }
        if let Some(&word) = region.words.within(access.range()).first() {
            return self.mixed_by_processor(node, access, word);
        }
        if let Some(landing) = torn(region, access, None) {
            let first = landing.party;
            self.conflict(Rule::Unfinished, access, first, self.processor(node, access));
        }
    }

    /// The processor touched what a request in flight holds.
    #[cold]
    fn pending(&mut self, node: NodeId, access: &Access, lease: Lease) {
        let rule = if lease.writes { Rule::PendingResult } else { Rule::PendingSource };
        if let Some(first) = self.holder(access.region, lease) {
            self.conflict(rule, access, first, self.processor(node, access));
        }
    }

    /// The processor touched a word under atomics: it may not write it, and may read it only at rest.
    #[cold]
    fn mixed_by_processor(&mut self, node: NodeId, access: &Access, word: Word) {
        let first = match access.what.changes() {
            true => Some(word.last.party),
            false => self.open_atomic(access.region, &word),
        };
        if let Some(first) = first {
            self.conflict(Rule::MixedAtomics, access, first, self.processor(node, access));
        }
    }

    /// An adapter wrote plainly, by one of its queue pairs.
    #[inline]
    fn plain_write(&mut self, qp: QpNum, access: &Access) {
        let Some(region) = self.regions.get(access.region.0 as usize).and_then(Option::as_deref) else {
            return;
        };
        if !region.words.within(access.range()).is_empty() {
            self.write_over_words(qp, access);
        }
    }

    #[cold]
    fn write_over_words(&mut self, qp: QpNum, access: &Access) {
        let (Some(Some(region)), Some(place)) = (self.regions.get(access.region.0 as usize), place_of(qp))
        else {
            return;
        };
        let hca = region.this.hca;
        let unordered = |by: &Executed| u32::from(by.qp) != place && self.is_current(hca, by);
        let words = region.words.within(access.range()).iter();
        let mut others = words.flat_map(|word| [Some(word.last), word.other]).flatten();
        if let Some(by) = others.find(unordered) {
            self.conflict(Rule::MixedAtomics, access, by.party, self.adapter(hca, access));
        }
    }

    /// Whether the queue pair that an atomic came by still stands.
    fn is_current(&self, hca: HcaId, by: &Executed) -> bool {
        let pair = self.adapters[hca.0 as usize].pairs.get(by.qp as usize);
        pair.map_or(by.incarnation == 0, |pair| pair.incarnation == by.incarnation)
    }

    /// An atomic was executed for a peer.
    fn atomic(&mut self, qp: QpNum, access: &Access) {
        let Some(place) = place_of(qp) else { return };
        let Some(hca) = self.region(access.region).map(|region| region.this.hca) else { return };
        let party = self.adapter(hca, access);
        self.close_atomic(hca, access);
        let incarnation =
            self.adapters[hca.0 as usize].pairs.get(place as usize).map_or(0, |pair| pair.incarnation);
        let Some(region) = self.region(access.region) else { return };
        region.words.touch(access.start, Executed { qp: place as u16, incarnation, party });
        let landing = region.landings.iter().find(|l| !l.is_of(Some(place)) && meets(&l.range, access));
        let landing = landing.map(|landing| landing.party);
        if let Some(first) = landing.or_else(|| self.other_devices_atomic(access)) {
            self.conflict(Rule::MixedAtomics, access, first, party);
        }
    }

    /// An atomic on the same bytes by another device, which knows nothing of this one's.
    fn other_devices_atomic(&self, access: &Access) -> Option<Party> {
        let region = |id: RegionId| self.regions.get(id.0 as usize).and_then(Option::as_deref);
        region(access.region)?.aliases.iter().find_map(|&(id, shift)| {
            let other = region(id)?;
            let start = u64::try_from(access.start as i64 + shift).ok()?;
            let words = other.words.within(start..start + access.len).iter();
            let mut by = words.flat_map(|word| [Some(word.last), word.other]).flatten();
            by.find(|by| self.is_current(other.this.hca, by)).map(|by| by.party)
        })
    }

    fn by_peers_read(&mut self, qp: QpNum, access: &Access) {
        let Some(region) = self.regions.get(access.region.0 as usize).and_then(Option::as_deref) else {
            return;
        };
        if region.this.torn_reads {
            return;
        }
        if let Some(landing) = torn(region, access, place_of(qp)) {
            let (first, hca) = (landing.party, region.this.hca);
            self.conflict(Rule::Unfinished, access, first, self.adapter(hca, access));
        }
    }

    /// A message of several packets has begun to land in a range, by this side of a queue pair.
    pub fn landing(&mut self, key: Key, side: Side, whole: &Access) {
        let Some(hca) = self.region(whole.region).map(|region| region.this.hca) else { return };
        let party = self.adapter(hca, whole);
        self.pair(hca, key.index).landings.push((side, whole.region));
        if let Some(region) = self.region(whole.region) {
            region.landings.push(Landing { qp: key.index as u16, side, range: whole.range(), party });
        }
    }

    /// A responder refused a peer's operation for its key, or for a region that went away under it.
    #[cold]
    pub fn refused(&mut self, hca: HcaId, from: Endpoint, op: WcOp, at: Nanos) {
        let Some(pair) = self.find(from.hca, from.qp) else { return };
        let aimed = |request: &Request, gone: &Gone| {
            let at = request.remote().filter(|remote| remote.rkey == gone.rkey).map(|remote| remote.addr);
            let inside = at.is_some_and(|at| (gone.this.addr..gone.this.addr + gone.this.len).contains(&at));
            // By the clocks, and by what had happened: a processor's clock runs ahead within its step.
            let before = request.at <= gone.by.at && request.order < gone.order;
            inside && before && request.op == op
        };
        let here = self.gone.iter().rev().filter(|gone| gone.this.hca == hca);
        let met = here.filter_map(|gone| Some((gone, pair.sends.iter().find(|r| aimed(r, gone))?))).next();
        let Some((gone, request)) = met else { return };
        let (addr, len) = (request.remote().map_or(0, |remote| remote.addr), u64::from(request.len));
        let node = self.adapters[from.hca.0 as usize].node;
        let second = party_of(node, Some(from.qp), request, (addr, len, at));
        let (first, region) = (gone.by, gone.this.id);
        let memory = self.adapters[hca.0 as usize].node;
        self.report(Violation { rule: Rule::Deregistered, memory, region, first, second });
    }

    // Who is who.

    #[cold]
    fn conflict(&mut self, rule: Rule, access: &Access, first: Party, second: Party) {
        let Some(region) = self.region(access.region) else { return };
        let hca = region.this.hca;
        let memory = self.adapters[hca.0 as usize].node;
        self.report(Violation { rule, memory, region: access.region, first, second });
    }

    fn addr(&self, id: RegionId, offset: u64) -> u64 {
        self.regions.get(id.0 as usize).and_then(Option::as_ref).map_or(0, |r| r.this.addr) + offset
    }

    /// The processor that made an access.
    fn processor(&self, node: NodeId, access: &Access) -> Party {
        let action = match access.what {
            What::Read => Action::Read,
            What::Claim => Action::Claim,
            What::Write | What::Atomic => Action::Write,
        };
        let addr = self.addr(access.region, access.start);
        Party { node, task: self.running(node), action, addr, len: access.len, at: access.at }
    }

    /// The request that a lease belongs to, with the range that it holds there.
    fn holder(&self, id: RegionId, lease: Lease) -> Option<Party> {
        let hca = self.regions.get(id.0 as usize)?.as_ref()?.this.hca;
        let adapter = &self.adapters[hca.0 as usize];
        let Holder { queue, request } = lease.by;
        let request = adapter.ledger(queue)?.get(request)?;
        let place = (self.addr(id, u64::from(lease.at)), u64::from(lease.len), request.at);
        let (Queue::Send(qp) | Queue::Receive(qp)) = queue else {
            return Some(party_of(adapter.node, None, request, place));
        };
        Some(party_of(adapter.node, Some(adapter.pairs.get(qp as usize)?.num?), request, place))
    }

    /// The request for which an adapter made an access.
    fn adapter(&self, hca: HcaId, access: &Access) -> Party {
        let addr = self.addr(access.region, access.start);
        let place = (addr, access.len, access.at);
        let (hca, qp, op, request) = match access.who {
            Who::Peer { from, op, .. } => (from.hca, from.qp, op, self.peers_request(hca, access)),
            Who::Adapter { qp, wr_id, .. } => {
                let pair = self.find(hca, qp);
                let requests = pair.into_iter().flat_map(|p| p.receives.iter().chain(p.sends.iter()));
                (hca, qp, WcOp::Recv, requests.into_iter().find(|request| request.wr_id == wr_id))
            }
            Who::Cpu(node) => return self.processor(node, access),
        };
        let node = self.adapters[hca.0 as usize].node;
        match request {
            Some(request) => party_of(node, Some(qp), request, place),
            None => {
                let (addr, len, at) = place;
                let action = Action::Request { op, qp: Some(qp), wr_id: None };
                Party { node, task: None, action, addr, len, at }
            }
        }
    }

    /// The oldest request in flight that a peer's access can be for.
    fn peers_request(&self, hca: HcaId, access: &Access) -> Option<&Request> {
        let Who::Peer { from, op, .. } = access.who else { return None };
        let this = self.regions.get(access.region.0 as usize)?.as_ref()?.this;
        let addr = this.addr + access.start;
        let pair = self.find(from.hca, from.qp).filter(|pair| pair.peer == Some(hca))?;
        pair.sends.iter().find(|request| {
            let due = request.op == op && (request.open || !is_atomic(op));
            due && request.remote().is_some_and(|remote| {
                Some(remote.rkey) == this.rkey
                    && (remote.addr..remote.addr + u64::from(request.len)).contains(&addr)
            })
        })
    }

    /// An atomic was executed: its request can change the word no more.
    fn close_atomic(&mut self, hca: HcaId, access: &Access) {
        let Who::Peer { from, op, .. } = access.who else { return };
        let addr = self.addr(access.region, access.start);
        let Some(place) = place_of(from.qp) else { return };
        let pair = self.adapters[from.hca.0 as usize].pairs.get_mut(place as usize);
        let Some(pair) = pair.filter(|pair| pair.num == Some(from.qp) && pair.peer == Some(hca)) else {
            return;
        };
        let mut due = pair.sends.iter_mut().filter(|request| {
            request.open && request.op == op && request.remote().is_some_and(|remote| remote.addr == addr)
        });
        if let Some(request) = due.next() {
            request.open = false;
            self.open -= 1;
        }
    }

    /// An atomic on a word that is in flight and was not executed, anywhere.
    fn open_atomic(&self, id: RegionId, word: &Word) -> Option<Party> {
        if self.open == 0 {
            return None;
        }
        let this = self.regions.get(id.0 as usize)?.as_ref()?.this;
        let addr = this.addr + word.range().start;
        self.adapters.iter().find_map(|adapter| {
            adapter.pairs.iter().filter(|pair| pair.peer == Some(this.hca)).find_map(|pair| {
                let aimed = |request: &&Request| {
                    let at = request.remote().map(|remote| (remote.addr, Some(remote.rkey)));
                    request.open && at == Some((addr, this.rkey))
                };
                let request = pair.sends.iter().find(aimed)?;
                Some(party_of(adapter.node, Some(pair.num?), request, (addr, 8, request.at)))
            })
        })
    }
}

fn party_of(node: NodeId, qp: Option<QpNum>, request: &Request, (addr, len, at): (u64, u64, Nanos)) -> Party {
    let action = Action::Request { op: request.op, qp, wr_id: Some(request.wr_id) };
    Party { node, task: Some(request.task).filter(|&task| task > 0), action, addr, len, at }
}

fn meets(range: &Range<u64>, access: &Access) -> bool {
    range.start < access.start + access.len && access.start < range.end
}

impl Landing {
    /// Whether it is a peer's message by this queue pair, with whose other messages it is in order.
    fn is_of(&self, qp: Option<u32>) -> bool {
        self.side == Side::Responder && qp == Some(u32::from(self.qp))
    }
}

/// The unfinished message whose bytes an access touches, if it is torn by that. Not by a message of `own`, the
/// queue pair that the access comes by: order holds within it.
#[inline]
fn torn<'a>(region: &'a Region, access: &Access, own: Option<u32>) -> Option<&'a Landing> {
    if region.landings.is_empty() {
        return None;
    }
    let one_word = access.start / 8 == (access.start + access.len - 1) / 8;
    if one_word && !access.what.changes() {
        return None;
    }
    region.landings.iter().find(|landing| !landing.is_of(own) && meets(&landing.range, access))
}
