//! Tasks that wait for the next job.
//!
//! A daemon has something to do for few of its locks at a time. A task for each lock that it knows would keep
//! some kilobytes for each; a task for each thing to do would be an allocation for each. So the tasks are as many
//! as there is to do at one time, and a few of them are kept.

use crate::rt::sync::{MailboxSender, mailbox};
use crate::rt::{Rt, WaitPoint};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use weft_verbs::Verbs;

/// Idle tasks that are kept.
const KEPT: usize = 64;

/// The idle tasks of one kind. Each has what its jobs need for as long as it is kept.
pub(crate) struct Pool<J> {
    /// Where each of them hears of its next job, or that there will be none.
    idle: RefCell<Vec<MailboxSender<Option<J>>>>,
    has_ended: Cell<bool>,
}

impl<J: 'static> Pool<J> {
    pub(crate) fn new() -> Rc<Pool<J>> {
        Rc::new(Pool { idle: RefCell::default(), has_ended: Cell::new(false) })
    }

    /// No task is kept any more.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        for task in self.idle.take() {
            let _ = task.send(None);
        }
    }

    /// Has a job done, by the task that became idle last or by a new one. `work` is the same for all jobs.
    pub(crate) fn give<V, F>(self: &Rc<Self>, rt: &Rt<V>, job: J, work: impl Fn(J) -> F + 'static)
    where
        V: Verbs,
        F: Future<Output = ()> + 'static,
    {
        let idle = self.idle.borrow_mut().pop();
        if let Some(task) = idle {
            // It ends with its node only, and then nothing is to be done any more.
            let _ = task.send(Some(job));
            return;
        }
        let pool = Rc::clone(self);
        rt.spawn(async move {
            let (sender, mut jobs) = mailbox();
            work(job).at(()).await;
            while pool.keep(&sender)
                && let Ok(Some(job)) = jobs.recv().at(()).await
            {
                work(job).at(()).await;
            }
        });
    }

    /// Whether a task that has done its job is kept.
    fn keep(&self, task: &MailboxSender<Option<J>>) -> bool {
        let mut idle = self.idle.borrow_mut();
        let keep = idle.len() < KEPT && !self.has_ended.get();
        if keep {
            idle.push(task.clone());
        }
        keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::RtConfig;
    use crate::rt::fake::{Fake, V};
    use crate::rt::sync::Signal;
    use weft_verbs::{Node, Park};

    #[test]
    fn jobs_at_one_time_have_a_task_each_of_which_a_few_are_kept_for_the_next() {
        let rt = Rt::<V>::new(&Fake::default(), RtConfig::default()).expect("the fake device obeys");
        let (mut program, pool) = (rt.program(), Pool::new());
        let (end, begun, done) = (Signal::new(), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let give = |job: usize| {
            let (end, begun, done) = (end.clone(), Rc::clone(&begun), Rc::clone(&done));
            pool.give(&rt, job, move |job| {
                let (end, begun, done) = (end.clone(), Rc::clone(&begun), Rc::clone(&done));
                async move {
                    begun.set(begun.get() + job);
                    end.changed().await;
                    done.set(done.get() + job);
                }
            });
        };
        let mut tasks = || {
            while program.step() == Park::Again {}
            rt.audit().tasks
        };
        (0..KEPT + 3).for_each(|_| give(1));
        assert_eq!((tasks(), begun.get(), done.get()), (KEPT + 3, KEPT + 3, 0));
        end.notify();
        assert_eq!((tasks(), done.get()), (KEPT, KEPT + 3));
        give(1000);
        assert_eq!((tasks(), begun.get()), (KEPT, KEPT + 1003), "one that was idle does it");
        end.notify();
        assert_eq!((tasks(), done.get()), (KEPT, KEPT + 1003));
        give(1);
        pool.end();
        assert_eq!(tasks(), 1, "one has something to do");
        end.notify();
        assert_eq!((tasks(), done.get()), (0, KEPT + 1004));
    }
}
