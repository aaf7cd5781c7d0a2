//! What a queue pair's transitions were given: devices are asked for little of it.

use weft_verbs::{AltPath, Migration, Modify, ToInit, ToRtr, ToRts, Update};

/// What the transitions were given, with the path that is in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    pub init: Option<ToInit>,
    pub rtr: Option<ToRtr>,
    pub rts: Option<ToRts>,
    /// Its user has asked to arm the alternate path, and the connection has not moved since.
    rearmed: bool,
}

impl Given {
    /// Writes down what a transition was given.
    pub(crate) fn remember(&mut self, change: &Modify) {
        match change {
            Modify::Reset => *self = Given::default(),
            Modify::Init(to) => self.init = Some(*to),
            Modify::Rtr(to) => self.rtr = Some(*to),
            Modify::Rts(to) => {
                self.rts = Some(*to);
                self.load(to.alt, Some(to.migration));
            }
            Modify::Update(to) => self.update(to),
            Modify::Sqd { .. } | Modify::Resume | Modify::Err => {}
        }
    }

    fn update(&mut self, to: &Update) {
        if let Some(init) = &mut self.init {
            init.access = to.access.unwrap_or(init.access);
            init.qkey = to.qkey.unwrap_or(init.qkey);
        }
        if let Some(rtr) = &mut self.rtr {
            rtr.min_rnr_timer = to.min_rnr_timer.unwrap_or(rtr.min_rnr_timer);
        }
        self.load(to.alt, to.migration);
    }

    /// An alternate path is loaded, or armed.
    fn load(&mut self, alt: Option<AltPath>, migration: Option<Migration>) {
        if alt.is_some() {
            self.show_alternate(alt);
        }
        self.rearmed |= migration == Some(Migration::Rearm);
    }

    fn show_alternate(&mut self, alt: Option<AltPath>) {
        if let Some(rtr) = &mut self.rtr {
            rtr.alt = alt;
        }
        if let Some(rts) = &mut self.rts {
            rts.alt = alt;
        }
    }

    /// The device says where path migration stands. If it has moved to the alternate path, that is the only one now.
    pub(crate) fn settle(&mut self, migration: Migration) {
        if !self.rearmed || migration != Migration::Migrated {
            return;
        }
        self.rearmed = false;
        let (Some(rtr), Some(rts)) = (&mut self.rtr, &mut self.rts) else { return };
        if let Some(alt) = rtr.alt {
            (rtr.path, rts.timeout) = (alt.path, alt.timeout);
        }
        self.show_alternate(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::{AckTimeout, Gid, Mtu, Path, Psn, QpNum, Retries, RnrTimer};

    fn path(port: u8) -> Path {
        Path::to(Gid([port; 16]), port)
    }

    fn alternate(port: u8) -> AltPath {
        AltPath { path: path(port), pkey_index: 0, timeout: AckTimeout::new(10 + port).expect("a code") }
    }

    fn timeout(code: u8) -> AckTimeout {
        AckTimeout::new(code).expect("a code")
    }

    /// A connection on port 1.
    fn connected(alt: Option<AltPath>, migration: Migration) -> Given {
        let mut given = Given::default();
        given.remember(&Modify::Rtr(ToRtr {
            dest_qp: QpNum(1),
            rq_psn: Psn::new(0),
            path: path(1),
            mtu: Mtu::B1024,
            min_rnr_timer: RnrTimer::new(12).expect("a code"),
            max_dest_rd_atomic: 4,
            alt: None,
        }));
        given.remember(&Modify::Rts(ToRts {
            sq_psn: Psn::new(0),
            timeout: timeout(3),
            retry: Retries::new(7).expect("a count"),
            rnr_retry: Retries::new(7).expect("a count"),
            max_rd_atomic: 4,
            alt,
            migration,
        }));
        given
    }

    fn rearm(alt: AltPath) -> Modify {
        Modify::Update(Update { alt: Some(alt), migration: Some(Migration::Rearm), ..Update::default() })
    }

    /// The path and the time-out in use, and the alternate path as both transitions have it.
    fn shown(given: &Given) -> (Path, AckTimeout, [Option<AltPath>; 2]) {
        let (rtr, rts) = (given.rtr.expect("given"), given.rts.expect("given"));
        (rtr.path, rts.timeout, [rtr.alt, rts.alt])
    }

    #[test]
    fn an_alternate_path_is_shown_once_it_is_loaded() {
        let loaded = (path(1), timeout(3), [Some(alternate(2)); 2]);
        assert_eq!(shown(&connected(Some(alternate(2)), Migration::Migrated)), loaded);
        let mut given = connected(None, Migration::Migrated);
        given.remember(&rearm(alternate(2)));
        assert_eq!(shown(&given), loaded);
        for waiting in [Migration::Rearm, Migration::Armed] {
            given.settle(waiting);
            assert_eq!(shown(&given), loaded, "{waiting:?}");
        }
    }

    #[test]
    fn a_connection_that_has_moved_shows_the_path_that_it_is_on() {
        let moved = (path(2), timeout(12), [None; 2]);
        let by_update = || {
            let mut given = connected(None, Migration::Migrated);
            given.remember(&rearm(alternate(2)));
            given
        };
        for mut given in [by_update(), connected(Some(alternate(2)), Migration::Rearm)] {
            given.settle(Migration::Armed);
            given.settle(Migration::Migrated);
            assert_eq!(shown(&given), moved);
            given.settle(Migration::Migrated);
            assert_eq!(shown(&given), moved, "it moves once");
            given.remember(&rearm(alternate(1)));
            given.settle(Migration::Migrated);
            assert_eq!(shown(&given), (path(1), timeout(11), [None; 2]), "and back");
        }
    }

    #[test]
    fn a_path_that_nobody_armed_is_not_moved_to() {
        let mut given = connected(Some(alternate(2)), Migration::Migrated);
        given.settle(Migration::Migrated);
        assert_eq!(shown(&given), (path(1), timeout(3), [Some(alternate(2)); 2]));
    }
}
