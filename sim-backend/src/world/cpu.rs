//! Processors: what a node's work costs, when it runs, what wakes it.

use super::World;
use super::events::{Event, Happened};
use super::timed::jitter::at_pace;
use crate::NodeId;
use crate::hca::News;
use crate::jitter::EXACT;
use crate::log::Kind;
use crate::log::entry::Stepped;
use crate::stats::{Asked, Busy, Cause};
use weft_verbs::{Nanos, Park, Result, VerbsError, Wait, Work};

/// What a node's processor is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    /// No program is mounted; calls come from outside.
    #[default]
    Idle,
    /// In a step.
    Running,
    /// Between two steps that follow each other.
    Busy,
    /// Waiting.
    Parked(Wait),
    /// Its program has ended.
    Done,
}

/// A node's machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Until when its processor is busy. In a step, its own time, ahead of the world's.
    pub clock: Nanos,
    /// When it is stepped next; `MAX` is not at all.
    pub step_at: Nanos,
    pub activity: Activity,
    /// How it waited last.
    pub style: Wait,
    /// Something that ends any wait happened while it was not waiting.
    pub urgent: bool,
    /// How long its work takes, in percent of what the profile says.
    pub percent: u32,
    /// How long the work of its present step takes beside that, in parts of [`EXACT`].
    pub pace: u32,
    pub crashed: bool,
    /// Whether its operating system has memory to give.
    pub has_memory: bool,
    /// Whether it was asked for some while it had none.
    pub gave_none: bool,
    /// How long it was busy, by cause.
    pub busy: Busy,
    /// What it has asked of its adapters.
    pub asked: Asked,
}

impl Default for Machine {
    fn default() -> Machine {
        let activity = Activity::Idle;
        Machine {
            clock: Nanos::ZERO,
            step_at: Nanos::MAX,
            activity,
            style: Wait::Poll,
            urgent: false,
            percent: 100,
            pace: EXACT,
            crashed: false,
            has_memory: true,
            gave_none: false,
            busy: Busy::default(),
            asked: Asked::default(),
        }
    }
}

/// `ENOMEM`, as adapters' drivers answer at the limit of locked memory.
const NO_MEMORY: i32 = 12;

impl Machine {
    /// Asked by a call that takes memory of the operating system. What a node needs to begin it has before it runs.
    pub fn give_memory(&mut self, call: &'static str) -> Result<()> {
        if self.has_memory || self.activity != Activity::Running {
            return Ok(());
        }
        self.gave_none = true;
        Err(VerbsError::Os { call, errno: NO_MEMORY })
    }
}

impl World {
    pub fn machine(&mut self, node: NodeId) -> &mut Machine {
        &mut self.state.machines[node.index()]
    }

    /// The time as a node sees it.
    pub fn local_time(&self, node: NodeId) -> Nanos {
        self.state.machines[node.index()].clock.max(self.state.now)
    }

    /// Charges a node's processor; the time afterwards.
    #[inline]
    pub(super) fn charge(&mut self, node: NodeId, cause: Cause, ns: u64) -> Nanos {
        let now = self.state.now;
        let machine = &mut self.state.machines[node.index()];
        let ns =
            if machine.percent == 100 { ns } else { ns.saturating_mul(u64::from(machine.percent)) / 100 };
        let ns = at_pace(machine.pace, ns);
        machine.busy.add(cause, ns);
        machine.clock = machine.clock.max(now) + Nanos(ns);
        machine.clock
    }

    /// Charges for work that is not a verbs call.
    pub fn spend(&mut self, node: NodeId, work: Work) {
        let notified = self.state.machines[node.index()].style == Wait::Notify;
        let cpu = &self.profile.cpu;
        let ns = match work {
            Work::IpcSend => cpu.ipc_send_ns,
            Work::IpcReceive => cpu.ipc_receive_ns,
            Work::Bookkeeping if notified => cpu.bookkeeping_notify_ns,
            Work::Bookkeeping => cpu.bookkeeping_poll_ns,
            Work::Copy { bytes } => self.profile.copy(bytes).0,
            Work::Syscall => cpu.syscall_ns,
            Work::PageFault => cpu.page_fault_ns,
            Work::Protect { pages } => {
                cpu.syscall_ns.saturating_add(cpu.protect_page_ns.saturating_mul(pages))
            }
            Work::Compute(span) => span.0,
        };
        let cause = match work {
            Work::IpcSend | Work::IpcReceive | Work::Bookkeeping | Work::Compute(_) => Cause::Application,
            Work::Copy { .. } => Cause::Copy,
            Work::Syscall | Work::PageFault | Work::Protect { .. } => Cause::System,
        };
        self.charge(node, cause, ns);
    }

    /// A program was put on a node: it is stepped now.
    pub fn program_mounted(&mut self, node: NodeId) {
        let machine = self.machine(node);
        machine.activity = Activity::Busy;
        machine.step_at = Nanos::MAX;
        let at = self.local_time(node);
        self.step_by(node, at);
    }

    /// A node's program has something to do that nothing on its machine tells it.
    pub fn program_nudged(&mut self, node: NodeId) {
        let machine = self.machine(node);
        if !machine.crashed && !matches!(machine.activity, Activity::Idle | Activity::Done) {
            machine.urgent = true;
            let at = self.local_time(node);
            self.step_by(node, at);
        }
    }

    /// Sees to it that a node is stepped at a time or before.
    pub(super) fn step_by(&mut self, node: NodeId, at: Nanos) {
        let machine = &mut self.state.machines[node.index()];
        let at = at.max(machine.clock);
        if at < machine.step_at {
            machine.step_at = at;
            self.schedule(at, Event::Step(node));
        }
    }

    /// There is news for a node: wakes it if it waits for such.
    #[inline]
    pub(super) fn wake(&mut self, node: NodeId, news: News) {
        // Where events have an order, it is they that are left: see `look_once`.
        let urgent = news.urgent || (news.event && !self.in_order());
        let machine = &mut self.state.machines[node.index()];
        let Activity::Parked(style) = machine.activity else {
            machine.urgent |= urgent;
            return self.touch_news(node, news, None);
        };
        let wanted = match style {
            Wait::Poll => news.completion,
            Wait::Notify => news.channel,
        };
        if wanted || news.event || news.urgent {
            machine.urgent |= urgent;
            let woken = machine.step_at == Nanos::MAX;
            if woken && style == Wait::Notify {
                machine.busy.add(Cause::Interrupt, self.profile.cpu.interrupt_ns);
            }
            let notice = self.notice(style);
            self.step_by(node, self.state.now + notice);
            self.touch_news(node, news, Some(woken));
        } else {
            self.touch_news(node, news, None);
        }
    }

    /// How long a waiting processor takes to notice.
    fn notice(&mut self, style: Wait) -> Nanos {
        let usual = Nanos(match style {
            Wait::Poll => self.profile.cpu.poll_detect_ns,
            Wait::Notify => self.profile.cpu.interrupt_ns,
        });
        self.vary(usual, usual)
    }

    pub(super) fn begin_step(&mut self, node: NodeId) -> Happened {
        let now = self.state.now;
        let machine = &mut self.state.machines[node.index()];
        // An entry that was overtaken by an earlier step.
        if machine.step_at != now || machine.crashed {
            return Happened::Done;
        }
        machine.step_at = Nanos::MAX;
        machine.clock = machine.clock.max(now);
        machine.activity = Activity::Running;
        machine.urgent = false;
        self.vary_step(node);
        self.state.stats.steps += 1;
        if let Some(sanitizer) = self.state.access.sanitizer() {
            sanitizer.task(node, 0);
        }
        self.log.entry(now, node, Kind::Step, &Stepped);
        self.log.came(node, 3);
        Happened::Step(node)
    }

    /// A step has ended.
    pub fn end_step(&mut self, node: NodeId, park: Park) {
        let now = self.state.now;
        let machine = &mut self.state.machines[node.index()];
        if machine.crashed {
            return;
        }
        match park {
            Park::Done => machine.activity = Activity::Done,
            Park::Again => {
                machine.activity = Activity::Busy;
                // A step that cost nothing still takes time, or the world would stand still.
                let at = machine.clock.max(now + Nanos(1));
                self.step_by(node, at);
            }
            Park::Until { style, deadline } => {
                machine.activity = Activity::Parked(style);
                machine.style = style;
                self.parked(node, deadline);
                self.look_once(node, style);
            }
        }
    }

    /// What a node left behind when it began to wait ends the wait at once: a spinning processor sees the
    /// completions that are still queued, a sleeping one finds its channel readable.
    fn look_once(&mut self, node: NodeId, style: Wait) {
        let machine = &self.state.machines[node.index()];
        let (clock, urgent) = (machine.clock, machine.urgent);
        let mut hcas = self.shape.hcas(node);
        let left = hcas.any(|hca| self.state.hcas[hca.0 as usize].hw.completions.left(style));
        if left || urgent || self.has_arrivals(node) {
            let at = clock + self.notice(style).max(Nanos(1));
            self.step_by(node, at.max(self.state.now + Nanos(1)));
        }
    }
}
