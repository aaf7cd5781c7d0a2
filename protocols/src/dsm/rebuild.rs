//! What a manager makes of its minipages when a node has died: its book is made anew, from what the survivors report. A state
//! machine without I/O.
//!
//! Each survivor reports what it may access and what it gave up last, and for whom; it still has those bytes. The latest version of
//! a minipage is then found, or it is **lost**:
//!
//! - Who may access it has the latest version: a later one is granted when all others have given up.
//! - Else it was given up. Who was to have it next and survives, and reports nothing later, was not granted it, and stores under a
//!   grant only: the version that was given up is the latest, and a node that gave it up has it again. That counts in one epoch: what a
//!   manager made of it may have been another node's copy, and that one may have been written since.
//! - Else it went to a node that died. That node may have stored, and another one may have seen it: lost.
//!
//! Never is an older version given out in silence.

use super::messages::Access;
use super::shared::PageId;
use crate::transport::Rank;
use std::collections::BTreeMap;

/// What a survivor says of a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub from: Rank,
    /// What it may do.
    pub access: Access,
    /// The version that it has, or had last.
    pub version: u64,
    /// How long the minipage is there.
    pub len: u32,
    /// For whom it gave it up since it last said so.
    pub given: Option<Rank>,
}

/// What the manager's book had, if the manager was the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub version: u64,
    pub owner: Option<Rank>,
    pub lost: bool,
}

/// What becomes of a minipage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    /// Nobody has written it.
    Fresh,
    /// These may access it; the first one's data count.
    Held { version: u64, copies: Vec<Rank> },
    /// That node gave it up, and is to have it again.
    Given { version: u64, by: Rank },
    /// Its latest version died.
    Lost,
}

/// What becomes of a minipage, by what is reported and known of it.
pub(super) fn restore(
    known: Option<Known>,
    reports: &[Report],
    survives: impl Fn(Rank) -> bool,
    lost_with_receiver: bool,
) -> Restored {
    if known.is_some_and(|known| known.lost) {
        return Restored::Lost;
    }
    let mut copies: Vec<Rank> =
        reports.iter().filter(|report| report.access > Access::Invalid).map(|report| report.from).collect();
    copies.sort_unstable();
    let Some(version) = reports.iter().map(|report| report.version).max() else {
        return unreported(known, survives);
    };
    let mut latest = reports.iter().filter(|report| report.version == version && report.given.is_some());
    if !copies.is_empty() {
        // Whoever may access it has the latest version; what is later than that contradicts the protocol.
        let agreed =
            reports.iter().all(|report| report.access == Access::Invalid || report.version == version);
        return if agreed { Restored::Held { version, copies } } else { Restored::Lost };
    }
    let by = latest.clone().map(|report| report.from).min();
    let stays = latest.all(|report| report.given.is_some_and(&survives));
    match by {
        Some(by) if stays || !lost_with_receiver => Restored::Given { version, by },
        _ => Restored::Lost,
    }
}

/// Of one that no survivor has had: it was never written, or the dead alone have had it.
fn unreported(known: Option<Known>, survives: impl Fn(Rank) -> bool) -> Restored {
    match known {
        Some(Known { version: 0, .. }) => Restored::Fresh,
        // The first one to write it survives, and has not had it: no grant reached it.
        Some(Known { version: 1, owner: Some(owner), .. }) if survives(owner) => Restored::Fresh,
        _ => Restored::Lost,
    }
}

/// The reports of a view that begins.
#[derive(Debug, Default)]
pub(super) struct Rebuild {
    /// The members that have not reported all: how many reports they said there are.
    awaited: BTreeMap<Rank, Awaited>,
    reports: BTreeMap<PageId, Vec<Report>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    got: u32,
    of: Option<u32>,
}

impl Rebuild {
    /// No member has reported.
    pub fn of(members: impl IntoIterator<Item = Rank>) -> Rebuild {
        let awaited = members.into_iter().map(|member| (member, Awaited::default())).collect();
        Rebuild { awaited, reports: BTreeMap::new() }
    }

    /// A member reports a minipage. False if none of it is awaited.
    pub fn on_report(&mut self, page: PageId, report: Report) -> bool {
        let Some(awaited) = self.awaited.get_mut(&report.from) else { return false };
        awaited.got += 1;
        self.reports.entry(page).or_default().push(report);
        self.tidy(report.from);
        true
    }

    /// A member has reported all. False if none of it is awaited.
    pub fn on_reported(&mut self, from: Rank, reports: u32) -> bool {
        let Some(awaited) = self.awaited.get_mut(&from) else { return false };
        awaited.of = Some(reports);
        self.tidy(from);
        true
    }

    fn tidy(&mut self, from: Rank) {
        if self.awaited.get(&from).is_some_and(|awaited| awaited.of == Some(awaited.got)) {
            self.awaited.remove(&from);
        }
    }

    /// Whether all members have.
    pub fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// What was reported, by minipage.
    pub fn reports(self) -> BTreeMap<PageId, Vec<Report>> {
        self.reports
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::ObjectId;
    use super::*;
    use Access::{Invalid, Read, Write};

    fn rank(number: u32) -> Rank {
        Rank::from_index(number)
    }

    fn has(from: u32, access: Access, version: u64) -> Report {
        Report { from: rank(from), access, version, len: 64, given: None }
    }

    fn gave(from: u32, version: u64, to: u32) -> Report {
        Report { from: rank(from), access: Invalid, version, len: 64, given: Some(rank(to)) }
    }

    /// Node 2 has died.
    fn restored(known: Option<(u64, Option<u32>)>, reports: &[Report]) -> Restored {
        let known = known.map(|(version, owner)| Known { version, owner: owner.map(rank), lost: false });
        restore(known, reports, |node| node != rank(2), true)
    }

    #[test]
    fn what_survivors_may_access_is_the_latest_version() {
        let held = |version, copies: &[u32]| Restored::Held {
            version,
            copies: copies.iter().map(|c| rank(*c)).collect(),
        };
        assert_eq!(restored(None, &[has(0, Write, 3)]), held(3, &[0]));
        assert_eq!(restored(Some((3, Some(2))), &[has(1, Read, 3), has(0, Read, 3)]), held(3, &[0, 1]));
        // The dead was to write, and one reader had not given up.
        assert_eq!(restored(Some((4, Some(2))), &[has(1, Read, 3), gave(0, 3, 2)]), held(3, &[1]));
        assert_eq!(
            restored(None, &[has(1, Read, 3), gave(0, 4, 1)]),
            Restored::Lost,
            "it contradicts the protocol"
        );
    }

    #[test]
    fn what_was_given_up_for_a_survivor_that_has_not_got_it_comes_back() {
        assert_eq!(
            restored(Some((5, Some(1))), &[gave(0, 4, 1)]),
            Restored::Given { version: 4, by: rank(0) }
        );
        assert_eq!(
            restored(None, &[gave(3, 4, 1), gave(0, 4, 1), gave(1, 2, 0)]),
            Restored::Given { version: 4, by: rank(0) }
        );
    }

    #[test]
    fn what_was_given_up_for_the_dead_is_lost() {
        assert_eq!(restored(Some((5, Some(2))), &[gave(0, 4, 2), gave(1, 3, 0)]), Restored::Lost);
        // An older version went to a survivor, which had it and gave it to the dead.
        assert_eq!(restored(None, &[gave(0, 4, 1), gave(1, 5, 2)]), Restored::Lost);
    }

    /// `weft fuzz swarm-16-dsm-members` found a version that was granted twice (seed 72).
    #[test]
    fn what_was_given_up_in_an_epoch_before_is_not_the_latest_for_sure() {
        let long_ago = Report { given: None, ..gave(0, 3, 1) };
        assert_eq!(
            restored(None, &[long_ago]),
            Restored::Lost,
            "another node that had it gave it to the dead"
        );
        let again = Restored::Given { version: 3, by: rank(3) };
        assert_eq!(restored(None, &[long_ago, gave(3, 3, 1)]), again);
        assert_eq!(restored(None, &[long_ago, gave(3, 3, 2)]), Restored::Lost);
    }

    #[test]
    fn what_no_survivor_had_was_never_written_or_is_lost() {
        assert_eq!(restored(Some((0, None)), &[]), Restored::Fresh);
        assert_eq!(restored(Some((1, Some(0))), &[]), Restored::Fresh, "no grant reached its first writer");
        assert_eq!(restored(Some((1, Some(2))), &[]), Restored::Lost);
        assert_eq!(restored(Some((2, Some(0))), &[]), Restored::Lost, "its data were with the dead");
        let lost = Some(Known { version: 0, owner: None, lost: true });
        assert_eq!(restore(lost, &[], |_| true, true), Restored::Lost, "what is lost stays so");
    }

    #[test]
    fn a_view_is_rebuilt_when_all_reports_of_all_are_in_however_they_overtake_each_other() {
        let page = PageId { object: ObjectId(0), index: 0 };
        let mut rebuild = Rebuild::of([0, 1].map(rank));
        assert!(rebuild.on_reported(rank(0), 1) && !rebuild.is_complete());
        assert!(rebuild.on_report(page, has(0, Read, 1)));
        assert!(!rebuild.on_report(page, has(0, Read, 1)), "there is one only");
        assert!(rebuild.on_reported(rank(1), 0) && rebuild.is_complete());
        assert_eq!(rebuild.reports()[&page].len(), 1);
    }
}
