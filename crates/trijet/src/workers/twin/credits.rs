//! The detection of the end of a run. A task has a credit, from before another worker can see the
//! task until after the task has run. So the run is over when all credits are given back. A worker
//! uses the credits of tasks that it has run for the tasks that its bodies make. The worker gives
//! back the credits that it still has before it looks for tasks of other workers. `give_back` and
//! `take_credits` of `scheduler.cuh` do the same on a GPU.
#![forbid(unsafe_code)]

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU32, Ordering};

/// The credits of a run.
#[derive(Debug)]
pub(crate) struct Credits {
    /// The number of credits that were given back, minus the number of credits that were taken for
    /// tasks that bodies make.
    balance: AtomicU32,
    /// The number of initial tasks.
    initial: u32,
}

/// The credits of tasks that a worker has run, until the worker uses the credits or gives them
/// back.
#[derive(Debug, Default)]
pub(crate) struct Purse(u32);

impl Credits {
    /// The credits of a run with `initial` initial tasks.
    pub(crate) fn new(initial: u32) -> Self {
        Self { balance: AtomicU32::new(0), initial }
    }

    /// Gets a credit for a task that a body makes: a credit that the worker has, or else a new
    /// credit.
    pub(crate) fn take(&self, purse: &mut Purse) {
        match purse.0.checked_sub(1) {
            Some(rest) => purse.0 = rest,
            // The task that makes the new task still has its own credit, so the balance cannot
            // reach its final value now.
            None => drop(self.balance.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    /// Gives back all credits of the worker. Returns true exactly once, at the end of the run.
    pub(crate) fn give_back(&self, purse: &mut Purse) -> bool {
        let given = std::mem::take(&mut purse.0);
        // Acquire and release: the last worker sees all accesses of the other workers.
        given > 0
            && self.balance.fetch_add(given, Ordering::AcqRel).wrapping_add(given) == self.initial
    }

    /// Whether all credits are given back.
    pub(crate) fn are_back(&self) -> bool {
        self.balance.load(Ordering::Acquire) == self.initial
    }
}

impl Purse {
    /// Adds the credit of a task that ran, or that could not be queued.
    pub(crate) fn add(&mut self) {
        self.0 += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Credits, Purse};

    #[test]
    fn the_end_is_when_the_last_credit_is_back() {
        let credits = Credits::new(2);
        let (mut one, mut two) = (Purse::default(), Purse::default());
        credits.take(&mut one);
        one.add();
        assert!(!credits.give_back(&mut one), "a child and another task are left");
        two.add();
        credits.take(&mut two);
        assert!(!credits.give_back(&mut two), "its credit went to a child");
        two.add();
        one.add();
        assert!(!credits.give_back(&mut one) && !credits.are_back());
        assert!(credits.give_back(&mut two) && credits.are_back());
        assert!(!credits.give_back(&mut two), "it is told once");
    }
}

#[cfg(all(test, loom))]
mod every_order {
    use super::super::ring::Ring;
    use super::{Credits, Purse};
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    /// A worker that runs tasks until the end. Task 2 makes task 1.
    fn worker(credits: &Credits, ring: &Ring, ran: &AtomicU64) -> bool {
        let (mut purse, mut told) = (Purse::default(), false);
        while !credits.are_back() {
            let Some(task) = ring.pop() else {
                thread::yield_now();
                continue;
            };
            if task == 2 {
                credits.take(&mut purse);
                assert!(ring.push(1));
            }
            ran.fetch_add(1, Ordering::Relaxed);
            purse.add();
            told |= credits.give_back(&mut purse);
        }
        assert_eq!(ran.load(Ordering::Relaxed), 2, "the end is after all tasks");
        told
    }

    #[test]
    fn the_end_is_told_once_and_after_all_tasks() {
        loom::model(|| {
            let shared = Arc::new((Credits::new(1), Ring::new(1), AtomicU64::new(0)));
            assert!(shared.1.push(2));
            let theirs = Arc::clone(&shared);
            let other = thread::spawn(move || worker(&theirs.0, &theirs.1, &theirs.2));
            let mine = worker(&shared.0, &shared.1, &shared.2);
            let theirs = other.join().expect("it does not panic");
            assert!(mine != theirs, "{mine} {theirs}");
        });
    }
}
