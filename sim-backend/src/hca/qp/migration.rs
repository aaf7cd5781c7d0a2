//! Automatic path migration: two paths a connection, and how both ends move to the other one (IBA 17.2.8).
//!
//! Every packet says by a bit whether its sender has moved, or never prepared to (BTH:MigReq). Without the bit it
//! says: I have an alternate path loaded. An end that has one too is armed by that; an armed end that then sees the
//! bit on its alternate path follows its peer.

use super::Qp;
use crate::hca::packet::Packet;
use crate::hca::{Hardware, Io, Route, Way};
use crate::log::Kind;
use weft_verbs::{AltPath, AsyncEvent, Migration, Modify, QpType, Result, Update, VerbsError};

/// A connection's paths besides the one in use.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Spare {
    /// The alternate path that is loaded, and where it leads.
    loaded: Option<(AltPath, Way)>,
    /// The way that was left last. The peer's packets may still be on it, and an adapter may take them or not
    /// (IBA 17.2.8.1.4); this one does.
    left: Option<Route>,
    /// It was told that the peer moved elsewhere.
    told: bool,
}

impl Qp {
    /// Whether a change leaves path migration in a state that a user may ask for.
    pub(super) fn check_migration(&self, change: &Modify) -> Result<()> {
        let (alt, asked) = match change {
            Modify::Rts(rts) if self.kind() == QpType::Rc => (rts.alt, Some(rts.migration)),
            Modify::Update(Update { alt, migration, .. }) => (*alt, *migration),
            _ => return Ok(()),
        };
        if self.kind() == QpType::Ud && (alt.is_some() || asked.is_some()) {
            return Err(VerbsError::Invalid("a datagram queue pair has no path"));
        }
        let loaded = alt.is_some() || self.spare.as_ref().is_some_and(|spare| spare.loaded.is_some());
        let armed = self.migration == Migration::Armed;
        match asked {
            Some(Migration::Armed) => {
                Err(VerbsError::Invalid("adapters arm path migration, not their users"))
            }
            Some(Migration::Rearm) if !loaded => Err(VerbsError::Invalid("no alternate path is loaded")),
            Some(Migration::Migrated) if !armed && !matches!(change, Modify::Rts(_)) => {
                Err(VerbsError::Invalid("only an armed connection can be moved"))
            }
            _ => Ok(()),
        }
    }

    /// Loads an alternate path, if there is one to load.
    pub(super) fn load_alternate(&mut self, alt: Option<AltPath>, way: Option<Way>) {
        let (Some(alt), Some(way)) = (alt, way) else { return };
        self.spare.get_or_insert_default().loaded = Some((alt, way));
        self.show_alternate(Some(alt));
    }

    fn show_alternate(&mut self, alt: Option<AltPath>) {
        if let Some(rtr) = &mut self.rtr {
            rtr.alt = alt;
        }
        if let Some(rts) = &mut self.rts {
            rts.alt = alt;
        }
    }

    /// Its user asks for a state of path migration, which was checked.
    pub(super) fn set_migration(&mut self, asked: Migration, hw: &mut Hardware, io: &mut Io<'_>) {
        match asked {
            Migration::Rearm => {
                self.migration = Migration::Rearm;
                self.spare.get_or_insert_default().told = false;
            }
            Migration::Migrated if self.migration == Migration::Armed => {
                self.migrate(hw, io);
                self.service_at = self.service_at.min(io.now);
            }
            _ => {}
        }
    }

    /// Whether a packet is one of the connection's that comes by another way than the present one, or while path
    /// migration is under way; and what its bit does.
    #[cold]
    pub(super) fn admit(
        &mut self,
        packet: &Packet,
        on_path: bool,
        hw: &mut Hardware,
        io: &mut Io<'_>,
    ) -> bool {
        let Some(spare) = &mut self.spare else { return on_path };
        let way = packet.route.back();
        match self.migration {
            Migration::Rearm if on_path && !packet.migrated => {
                self.migration = Migration::Armed;
                io.log.line(io.now, hw.node, Kind::State, format_args!("{} armed to migrate", self.num));
                true
            }
            Migration::Armed if packet.migrated => {
                let alternate = spare.loaded.is_some_and(|(_, loaded)| loaded.route == way);
                if alternate {
                    self.migrate(hw, io);
                } else if !std::mem::replace(&mut spare.told, true) {
                    hw.completions.raise(hw.node, self.ctx, AsyncEvent::PathMigrationFailed(self.num), io);
                }
                alternate
            }
            _ => on_path || spare.left == Some(way),
        }
    }

    /// Whether packets by a way could be of its connection.
    pub(in crate::hca) fn is_reached_by(&self, route: Route) -> bool {
        self.peer.is_some() && (route.back() == self.route || self.spare.is_some())
    }

    /// Whether it may move to its alternate path by itself.
    pub(in crate::hca) fn is_armed(&self) -> bool {
        self.migration == Migration::Armed
    }

    /// Moves to the alternate path, which is the only one then. Retries begin anew on it.
    pub(in crate::hca) fn migrate(&mut self, hw: &mut Hardware, io: &mut Io<'_>) {
        self.migration = Migration::Migrated;
        let Some(spare) = &mut self.spare else { return };
        let Some((alt, way)) = spare.loaded.take() else { return };
        spare.left = Some(self.route);
        (self.peer, self.route, self.moved) = (way.peer, way.route, true);
        self.sq.begin_path(alt.timeout);
        self.show_alternate(None);
        if let (Some(rtr), Some(rts)) = (&mut self.rtr, &mut self.rts) {
            (rtr.path, rts.timeout) = (alt.path, alt.timeout);
        }
        let (from, to) = (way.route.from.0, way.route.to.0);
        io.log.line(
            io.now,
            hw.node,
            Kind::State,
            format_args!("{} migrates to port {from} -> {to}", self.num),
        );
        hw.completions.raise(hw.node, self.ctx, AsyncEvent::PathMigrated(self.num), io);
    }
}
