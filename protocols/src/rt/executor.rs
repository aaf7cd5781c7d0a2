//! The executor: tasks of one thread, run in the order in which they were woken.

use super::wait_point::{Notes, Noting};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks that were woken and have not run since. Shared with wakers, which the standard library requires to
/// be sendable; the lock is never contended.
#[derive(Default)]
struct Ready {
    queue: Mutex<VecDeque<TaskId>>,
    /// Whether there are any, which is asked a dozen times for each that there is. Written with the queue locked.
    any: AtomicBool,
}

impl Ready {
    fn push(&self, id: TaskId) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(id);
        self.any.store(true, Ordering::Release);
    }

    /// Exchanges the queue for an empty one, unless it is empty itself.
    fn swap(&self, empty: &mut VecDeque<TaskId>) {
        if self.is_empty() {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *queue, empty);
        self.any.store(false, Ordering::Release);
    }

    fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }
}

/// A place in the slab, and which of its tenants is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TaskId {
    index: u32,
    generation: u32,
}

struct TaskWaker {
    id: TaskId,
    /// In the ready queue already: waking twice runs once.
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.push(self.id);
        }
    }
}

struct Task {
    /// `None` while the task runs.
    runnable: Option<Runnable>,
    header: Arc<TaskWaker>,
}

/// What a run takes out of the slab and puts back.
struct Runnable {
    future: BoxedTask,
    waker: Waker,
    /// For reports; no other task of the node has it. From 1, in the order of their starts.
    number: u32,
    /// What it said where it waits, if somebody asked for that.
    notes: Notes,
}

/// A task that waits until no other one is ready.
struct Idler {
    waker: Waker,
    /// How many steps have ended meanwhile with tasks that were ready.
    steps: u32,
}

#[derive(Default)]
struct Place {
    generation: u32,
    task: Option<Task>,
}

#[derive(Default)]
struct Slab {
    places: Vec<Place>,
    free: Vec<u32>,
    alive: usize,
    started: u32,
}

/// Runs the tasks of one node. Deterministic: the order of wake-ups is the order of runs.
#[derive(Default)]
pub(crate) struct Executor {
    slab: RefCell<Slab>,
    ready: Arc<Ready>,
    /// The empty queue of the last round, kept for its allocation.
    round: RefCell<VecDeque<TaskId>>,
    /// Tasks of this round whose turn is still to come.
    to_run: Cell<usize>,
    /// Woken for the next step, not this one: see [`Executor::wake_next_step`].
    yielded: RefCell<Vec<Waker>>,
    /// Woken when nothing else is left to run: see [`Executor::wake_when_idle`].
    idlers: RefCell<Vec<Idler>>,
    /// Some of those have waited for too long, and this round is theirs whatever else is ready.
    overdue: Cell<bool>,
    closed: Cell<bool>,
    /// Wait points are noted.
    notes_waits: Cell<bool>,
}

impl Executor {
    /// Starts a task; it first runs when its turn in the queue comes. After [`Executor::close`] the future is
    /// dropped unpolled.
    pub(crate) fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let state = Rc::new(Join { result: RefCell::new(JoinState::Running), waker: RefCell::new(None) });
        let guard = Finish(Rc::clone(&state));
        if !self.closed.get() {
            self.insert(Box::pin(async move {
                let value = future.await;
                guard.finish(value);
            }));
        }
        JoinHandle { state }
    }

    fn insert(&self, future: BoxedTask) {
        let mut slab = self.slab.borrow_mut();
        slab.started = slab.started.wrapping_add(1);
        let number = slab.started;
        let index = slab.free.pop().unwrap_or_else(|| {
            slab.places.push(Place::default());
            (slab.places.len() - 1) as u32
        });
        let place = &mut slab.places[index as usize];
        let id = TaskId { index, generation: place.generation };
        let (queued, ready) = (AtomicBool::new(true), Arc::clone(&self.ready));
        let header = Arc::new(TaskWaker { id, queued, ready });
        let waker = Waker::from(Arc::clone(&header));
        place.task = Some(Task {
            runnable: Some(Runnable { future, waker, number, notes: Notes::default() }),
            header,
        });
        slab.alive += 1;
        self.ready.push(id);
    }

    /// Runs the tasks that are ready now, each once; those that they wake wait for the next round. Says how
    /// many ran. `names` is told whose turn it is, 0 when it is nobody's any more.
    pub(crate) fn run_round(&self, names: impl Fn(u32)) -> usize {
        // No task can begin another round within this one.
        let mut round = self.round.borrow_mut();
        self.ready.swap(&mut round);
        let turns = round.len();
        if turns == 0 {
            return 0;
        }
        for (turn, id) in round.drain(..).enumerate() {
            self.to_run.set(turns - turn - 1);
            self.run(id, &names);
        }
        names(0);
        self.overdue.set(false);
        turns
    }

    fn run(&self, id: TaskId, names: impl Fn(u32)) {
        let Some(mut task) = self.take(id) else { return };
        names(task.number);
        let noting = self.notes_waits.get().then(|| Noting::begin(std::mem::take(&mut task.notes)));
        let done = task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready();
        if let Some(noting) = noting {
            task.notes = noting.end();
        }
        if done {
            self.remove(id);
            // Outside of every borrow: a future's destructors may spawn and wake.
            drop(task);
        } else {
            self.put_back(id, task);
        }
    }

    fn take(&self, id: TaskId) -> Option<Runnable> {
        let mut slab = self.slab.borrow_mut();
        let place = slab.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        let task = place.task.as_mut()?;
        task.header.queued.store(false, Ordering::Relaxed);
        task.runnable.take()
    }

    fn put_back(&self, id: TaskId, runnable: Runnable) {
        let mut slab = self.slab.borrow_mut();
        // The executor may have been closed while the task ran; then the future is dropped here, after the
        // borrow ends.
        let orphan = match slab.places.get_mut(id.index as usize) {
            Some(Place { generation, task: Some(task) }) if *generation == id.generation => {
                task.runnable = Some(runnable);
                None
            }
            _ => Some(runnable),
        };
        drop(slab);
        drop(orphan);
    }

    fn remove(&self, id: TaskId) {
        let mut slab = self.slab.borrow_mut();
        let Some(place) = slab.places.get_mut(id.index as usize) else { return };
        if place.generation == id.generation && place.task.take().is_some() {
            place.generation = place.generation.wrapping_add(1);
            slab.free.push(id.index);
            slab.alive -= 1;
        }
    }

    /// From now on wait points are noted.
    pub(crate) fn note_waits(&self) {
        self.notes_waits.set(true);
    }

    /// Adds what all tasks know to a hash: in no order, since who they are is told by what they know. False if one
    /// cannot be told, or several wait for the next step, whose order would count.
    pub(crate) fn fingerprint(&self, to: &mut impl Hasher) -> bool {
        let slab = self.slab.borrow();
        let (yielded, idlers) = (self.yielded.borrow().len(), self.idlers.borrow().len());
        let mut sum = 0u128;
        for task in slab.places.iter().filter_map(|place| place.task.as_ref()) {
            let Some(known) = task.runnable.as_ref().and_then(|task| task.notes.known()) else {
                return false;
            };
            // Tasks that know nothing wait for work, and it makes no difference which of them gets it.
            sum = sum.wrapping_add(known);
        }
        (yielded, sum).hash(to);
        yielded <= 1 && idlers == 0
    }

    /// How many tasks wait and say nothing.
    pub(crate) fn silent(&self) -> usize {
        let slab = self.slab.borrow();
        let silent = |task: &&Task| {
            let waits = !task.header.queued.load(Ordering::Relaxed);
            waits && task.runnable.as_ref().is_some_and(|task| task.notes.is_silent())
        };
        slab.places.iter().filter_map(|place| place.task.as_ref()).filter(silent).count()
    }

    /// Wakes when the next step begins, after the world has moved.
    pub(crate) fn wake_next_step(&self, waker: Waker) {
        self.yielded.borrow_mut().push(waker);
    }

    /// Wakes the tasks that yielded in the last step.
    pub(crate) fn begin_step(&self) {
        let mut yielded = self.yielded.borrow_mut();
        if !yielded.is_empty() {
            yielded.drain(..).for_each(Waker::wake);
        }
    }

    /// Wakes once no other task is ready, before the node rests.
    pub(crate) fn wake_when_idle(&self, waker: &Waker) {
        let mut idlers = self.idlers.borrow_mut();
        if !idlers.iter().any(|idler| idler.waker.will_wake(waker)) {
            idlers.push(Idler { waker: waker.clone(), steps: 0 });
        }
    }

    /// Wakes the tasks that let all others go first; whether there were any.
    pub(crate) fn wake_idlers(&self) -> bool {
        let mut idlers = self.idlers.borrow_mut();
        let any = !idlers.is_empty();
        if any {
            idlers.drain(..).for_each(|idler| idler.waker.wake());
        }
        any
    }

    /// A step ends while tasks are ready. Those that have let others go first for `most` such steps go in the next round: on a node that is
    /// never idle they would wait for ever.
    pub(crate) fn ends_busy(&self, most: u32) {
        let mut idlers = self.idlers.borrow_mut();
        idlers.iter_mut().for_each(|idler| idler.steps += 1);
        for idler in idlers.extract_if(.., |idler| idler.steps >= most) {
            idler.waker.wake();
            self.overdue.set(true);
        }
    }

    /// Whether a task that lets others go first has to wait: another one is ready, and this round is not for those that have waited.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_ready() && !self.overdue.get()
    }

    /// Whether a task could run now.
    pub(crate) fn has_ready(&self) -> bool {
        self.to_run.get() > 0 || !self.ready.is_empty()
    }

    /// Whether a task waits for the next step.
    pub(crate) fn has_yielded(&self) -> bool {
        !self.yielded.borrow().is_empty()
    }

    /// How many tasks have not ended.
    pub(crate) fn alive(&self) -> usize {
        self.slab.borrow().alive
    }

    /// Drops every task and takes no more.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.yielded.borrow_mut().clear();
        self.idlers.borrow_mut().clear();
        let slab = self.slab.take();
        // A destructor may wake or try to spawn; neither finds a borrow held.
        drop(slab);
        self.ready.swap(&mut VecDeque::new());
    }
}

enum JoinState<T> {
    Running,
    Done(T),
    Dropped,
}

struct Join<T> {
    result: RefCell<JoinState<T>>,
    waker: RefCell<Option<Waker>>,
}

impl<T> Join<T> {
    fn settle(&self, state: JoinState<T>) {
        *self.result.borrow_mut() = state;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Tells the handle how the task ended, be it by being dropped.
struct Finish<T>(Rc<Join<T>>);

impl<T> Finish<T> {
    fn finish(self, value: T) {
        self.0.settle(JoinState::Done(value));
    }
}

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        if matches!(*self.0.result.borrow(), JoinState::Running) {
            self.0.settle(JoinState::Dropped);
        }
    }
}

/// Awaits a task's result: `None` when the node was shut down before the task ended. Dropping the handle
/// leaves the task running.
pub struct JoinHandle<T> {
    state: Rc<Join<T>>,
}

impl<T> JoinHandle<T> {
    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.state.result.borrow(), JoinState::Running)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut result = self.state.result.borrow_mut();
        match std::mem::replace(&mut *result, JoinState::Dropped) {
            JoinState::Running => {
                *result = JoinState::Running;
                *self.state.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
            JoinState::Done(value) => Poll::Ready(Some(value)),
            JoinState::Dropped => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
