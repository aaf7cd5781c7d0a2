//! Experiments that know nothing of each other run at the same time, on all processors.

use super::PaperError;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{sync::mpsc, thread};

/// Runs an experiment of each kind, and returns what they gave in the order of the kinds: the same, however many processors there are.
/// `progress` is told which share of them is done.
///
/// # Errors
///
/// That of the first kind that has one. Kinds that were not begun by then are left out.
pub fn apart<K: Sync, T: Send>(
    kinds: &[K],
    experiment: impl Fn(&K) -> Result<T, PaperError> + Sync,
    mut progress: impl FnMut(f64),
) -> Result<Vec<T>, PaperError> {
    let mut ended: Vec<Option<Result<T, PaperError>>> = kinds.iter().map(|_| None).collect();
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(kinds.len());
    let (next, (send, receive)) = (AtomicUsize::new(0), mpsc::channel());
    thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next, experiment) = (send.clone(), &next, &experiment);
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(kind) = kinds.get(nth) else { return };
                    let result = experiment(kind);
                    if result.is_err() {
                        next.store(kinds.len(), Ordering::Relaxed);
                    }
                    if send.send((nth, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (done, (nth, result)) in (1..).zip(receive) {
            ended[nth] = Some(result);
            progress(f64::from(done) / kinds.len() as f64);
        }
    });
    // What was left out comes after what has failed, or there would be a failure before it.
    ended.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_what_was_asked_for_and_progress_to_the_end() {
        let mut told = Vec::new();
        let squares = apart(&[1, 2, 3, 4, 5], |n| Ok(n * n), |share| told.push(share));
        assert_eq!(squares.expect("none fails"), [1, 4, 9, 16, 25]);
        assert_eq!(told, [0.2, 0.4, 0.6, 0.8, 1.0]);
        assert!(apart(&[] as &[u32], |n| Ok(*n), |_| ()).expect("none fails").is_empty());
    }

    #[test]
    fn an_experiment_that_fails_ends_them() {
        let fails = |n: &u32| if *n == 2 { Err(PaperError::Unfinished(n.to_string())) } else { Ok(*n) };
        let error = apart(&(0..1_000).collect::<Vec<_>>(), fails, |_| ()).expect_err("one fails");
        assert_eq!(error.to_string(), "2");
    }
}
