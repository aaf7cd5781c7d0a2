//! At rest the managers' books are what nodes hold, and what is freed is so on all nodes.

use super::litmus::WORDS_A_PAGE;
use std::collections::BTreeMap;
use weft_protocols::dsm::{Access, Dsm, DsmAudit, PageId, Shared};
use weft_protocols::transport::Rank;
use weft_sim::Sim;

/// What the books of those that live say is what they hold, a writer is alone, copies are equal, and
/// what one has freed all have.
///
/// # Errors
///
/// What is otherwise.
pub fn books(
    services: &[Dsm<Sim>],
    shared: Shared<[u64]>,
    lives: impl Fn(Rank) -> bool,
) -> Result<(), String> {
    let nodes = services.iter().enumerate().map(|(node, dsm)| (Rank::from_index(node as u32), dsm));
    let audits: Vec<(Rank, DsmAudit)> =
        nodes.filter(|(node, _)| lives(*node)).map(|(node, dsm)| (node, dsm.audit())).collect();
    for two in audits.windows(2) {
        let [(one, has), (other, otherwise)] = two else { continue };
        if has.freed != otherwise.freed {
            return Err(format!("{one} has freed {:?}, and {other} {:?}", has.freed, otherwise.freed));
        }
    }
    for (node, audit) in &audits {
        let kept = audit.held.iter().find(|(page, ..)| audit.freed.contains(&page.object));
        if let Some((page, ..)) = kept {
            return Err(format!("{node} holds minipage {} of what it has freed", page.index));
        }
        if let Some(object) = audit.unfreed.first() {
            return Err(format!("{node} has memory for {object:?}, which it has freed"));
        }
    }
    let mut held: BTreeMap<PageId, Vec<(Rank, Access, u64)>> = BTreeMap::new();
    for (node, audit) in &audits {
        for &(page, access, version) in &audit.held {
            held.entry(page).or_default().push((*node, access, version));
        }
    }
    for (page, version, owner, copies) in audits.iter().flat_map(|(_, audit)| &audit.book) {
        let holders = held.remove(page).unwrap_or_default();
        let nodes: Vec<Rank> = holders.iter().map(|(node, ..)| *node).collect();
        if nodes != *copies || owner.is_some_and(|owner| !nodes.contains(&owner)) {
            return Err(format!("minipage {} is at {nodes:?}, and the book says {copies:?}", page.index));
        }
        if let Some((node, _, other)) = holders.iter().find(|(_, _, other)| other != version) {
            return Err(format!("{node} has version {other} of minipage {}, not {version}", page.index));
        }
        let alone = holders.iter().all(|(_, access, _)| *access == Access::Read) || nodes.len() == 1;
        if !alone {
            return Err(format!("minipage {} has a writer and other holders: {nodes:?}", page.index));
        }
        let begin = (page.index * WORDS_A_PAGE) as usize;
        let bytes = |node: &Rank| -> Vec<Option<u64>> {
            let words = begin..begin + WORDS_A_PAGE as usize;
            words.map(|at| services[node.index()].copy(shared, at)).collect()
        };
        if nodes.windows(2).any(|two| bytes(&two[0]) != bytes(&two[1])) {
            return Err(format!("copies of minipage {} are not equal", page.index));
        }
    }
    match held.keys().next() {
        Some(page) => Err(format!("minipage {} is held, and in no book", page.index)),
        None => Ok(()),
    }
}

/// Each minipage is in the book of the node that manages it, and in no other one.
///
/// # Errors
///
/// One is in another node's.
pub fn kept_by(services: &[Dsm<Sim>], manager: impl Fn(PageId) -> u32) -> Result<(), String> {
    for (node, dsm) in (0..).zip(services) {
        let book = dsm.audit().book;
        if let Some((page, ..)) = book.iter().find(|(page, ..)| manager(*page) != node) {
            return Err(format!("n{node} manages minipage {}, and not n{}", page.index, manager(*page)));
        }
    }
    Ok(())
}
