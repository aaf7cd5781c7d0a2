//! A queue pair's making, attributes and states (IBA 10.3.1, 11.2.5).

use super::Qp;
use crate::hca::{Ends, Hardware, Io, Key, Limits, Way};
use crate::log::Kind;
use weft_verbs::{AccessFlags, AltPath, Caps, Modify, Path, QpCaps, QpType, Result, Update, VerbsError};

/// A queue pair's making.
#[derive(Clone, Copy, Debug)]
pub struct NewQp {
    /// Its kind.
    pub kind: QpType,
    /// Its protection domain.
    pub pd: Key,
    /// Where send completions go.
    pub send_cq: Key,
    /// Where receive completions go.
    pub recv_cq: Key,
    /// The queue that its receives come from, if not its own.
    pub srq: Option<Key>,
    /// Its sizes.
    pub caps: QpCaps,
    /// Every send request completes, flagged or not.
    pub sq_sig_all: bool,
}

impl NewQp {
    pub(in crate::hca) fn check(&self, limits: &Limits) -> Result<()> {
        let within = |what, value: u32, bound: u32| {
            let (value, bound) = (u64::from(value), u64::from(bound));
            if value <= bound { Ok(()) } else { Err(VerbsError::TooLarge { what, value, bound }) }
        };
        let caps = &self.caps;
        within("the number of send requests", caps.max_send_wr, limits.max_wr)?;
        within("the number of receive requests", caps.max_recv_wr, limits.max_wr)?;
        within("the number of gather entries", caps.max_send_sge, limits.max_sge)?;
        within("the number of scatter entries", caps.max_recv_sge, limits.max_sge)?;
        within("the length of inline data", caps.max_inline, limits.max_inline)
    }
}

impl Qp {
    /// Changes its state or attributes. `ends` are itself and where the paths lead that the change names; `stretch` is by how much this adapter's timer stretches the time-out of acknowledgements, in percent.
    pub fn modify(
        &mut self,
        change: &Modify,
        hw: &mut Hardware,
        ends: Ends,
        stretch: u64,
        io: &mut Io<'_>,
    ) -> Result<()> {
        let kind = self.new.kind;
        let to = change.check(self.state, kind)?;
        check_attributes(change, kind, &hw.limits)?;
        self.check_migration(change)?;
        let from = self.state;
        match change {
            Modify::Reset => self.reset(hw, io),
            Modify::Init(init) => (self.init, self.state) = (Some(*init), to),
            Modify::Rtr(rtr) if kind == QpType::Ud => {
                if let Some(way) = ends.primary {
                    self.route = way.route;
                }
                self.mtu = hw.limits.mtu;
                (self.rtr, self.state) = (Some(*rtr), to);
            }
            Modify::Rtr(rtr) => {
                self.me = ends.me;
                if let Some(way) = ends.primary {
                    (self.peer, self.route) = (way.peer, way.route);
                }
                self.mtu = rtr.mtu.bytes();
                self.rq.start(rtr);
                (self.rtr, self.state) = (Some(*rtr), to);
                self.load_alternate(rtr.alt, ends.alternate);
            }
            Modify::Rts(rts) => {
                self.sq.start(rts, stretch);
                (self.rts, self.state) = (Some(*rts), to);
                self.load_alternate(rts.alt, ends.alternate);
                self.set_migration(rts.migration, hw, io);
            }
            Modify::Update(update) => self.update(update, ends.alternate, hw, io),
            Modify::Sqd { notify } => {
                self.state = to;
                self.sq.notify_drained = *notify;
                self.note_drained(hw, io);
            }
            Modify::Resume => {
                self.state = to;
                self.serve(hw, io);
            }
            Modify::Err => self.enter_error(hw, io),
        }
        if self.state != from {
            io.log.line(io.now, hw.node, Kind::State, format_args!("{} {from} -> {}", self.num, self.state));
        }
        Ok(())
    }

    fn update(&mut self, update: &Update, alternate: Option<Way>, hw: &mut Hardware, io: &mut Io<'_>) {
        if let (Some(access), Some(init)) = (update.access, &mut self.init) {
            init.access = access;
        }
        if let (Some(qkey), Some(init)) = (update.qkey, &mut self.init) {
            init.qkey = qkey;
        }
        if let (Some(timer), Some(rtr)) = (update.min_rnr_timer, &mut self.rtr) {
            rtr.min_rnr_timer = timer;
            self.rq.rnr_timer = Some(timer);
        }
        self.load_alternate(update.alt, alternate);
        if let Some(migration) = update.migration {
            self.set_migration(migration, hw, io);
        }
    }
}

/// Attribute values that no adapter takes, whatever the state.
fn check_attributes(change: &Modify, kind: QpType, limits: &Limits) -> Result<()> {
    let within = |what, value: u8, bound: u8| {
        let (value, bound) = (u64::from(value), u64::from(bound));
        if value <= bound { Ok(()) } else { Err(VerbsError::TooLarge { what, value, bound }) }
    };
    let port = |port: u8| match port {
        0 => Err(VerbsError::Invalid("ports count from 1")),
        _ if port > limits.ports => Err(VerbsError::Invalid("there is no such port")),
        _ => Ok(()),
    };
    let path = |path: &Path| {
        port(path.port)?;
        within("the index of the GID to send from", path.sgid_index, 0)
    };
    let alternate = |alt: &Option<AltPath>| alt.map_or(Ok(()), |alt| path(&alt.path));
    let rights = |access: AccessFlags| match access.contains(AccessFlags::REMOTE_ATOMIC) && !limits.atomics {
        true => Err(VerbsError::Unsupported(Caps::ATOMICS)),
        false => Ok(()),
    };
    match change {
        Modify::Init(init) if kind == QpType::Ud => port(init.port),
        Modify::Init(init) => port(init.port).and_then(|()| rights(init.access)),
        // A datagram queue pair uses none of them.
        Modify::Rtr(_) | Modify::Rts(_) if kind == QpType::Ud => Ok(()),
        Modify::Rtr(rtr) => {
            path(&rtr.path)?;
            alternate(&rtr.alt)?;
            within("the number of reads and atomics served", rtr.max_dest_rd_atomic, limits.max_rd_atomic)
        }
        Modify::Rts(rts) => {
            alternate(&rts.alt)?;
            within("the number of reads and atomics in flight", rts.max_rd_atomic, limits.max_rd_atomic)
        }
        Modify::Update(update) => alternate(&update.alt).and_then(|()| update.access.map_or(Ok(()), rights)),
        _ => Ok(()),
    }
}
