//! What threads tell each other without a lock, in pieces small enough that a test tries every
//! order of their steps: `cargo xtask loom`.
#![forbid(unsafe_code)]

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU64, Ordering};

/// How far something is known to be complete, by anybody. It only rises.
#[derive(Debug, Default)]
pub(crate) struct Watermark(AtomicU64);

impl Watermark {
    /// Everything up to `number` is complete.
    pub(crate) fn raise(&self, number: u64) {
        // Releases what this thread saw to whoever reuses memory because of it.
        self.0.fetch_max(number, Ordering::Release);
    }

    /// Whether somebody said so of `number`. Then everything that happened before they did happens
    /// before what follows here.
    pub(crate) fn covers(&self, number: u64) -> bool {
        self.0.load(Ordering::Acquire) >= number
    }
}

/// Counts, and picks out one by its number.
#[derive(Debug, Default)]
pub(crate) struct Pick {
    count: AtomicU64,
    /// The number to be picked, counted from 1; 0 for none.
    picked: AtomicU64,
}

impl Pick {
    /// How many were counted.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Picks the `number`-th from now on, counted from 1; none for 0.
    pub(crate) fn choose(&self, number: u64) {
        let picked = if number == 0 { 0 } else { self.count() + number };
        self.picked.store(picked, Ordering::Relaxed);
    }

    /// Counts one; whether it is the one. If that one was not `able`, the next that is takes its
    /// place, whatever other threads count meanwhile.
    pub(crate) fn take(&self, able: bool) -> bool {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let picked = self.picked.load(Ordering::Relaxed);
        let due = able && picked != 0 && number >= picked;
        // Of several that are due, one wins.
        due && self.picked.compare_exchange(picked, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_watermark_never_falls() {
        let mark = Watermark::default();
        mark.raise(5);
        mark.raise(3);
        assert!(mark.covers(5) && !mark.covers(6));
    }

    #[test]
    fn the_next_that_is_able_takes_the_place_of_the_picked() {
        let pick = Pick::default();
        assert!(!pick.take(true), "nothing is picked");
        pick.choose(2);
        let taken = [true, false, false, true, true].map(|able| pick.take(able));
        assert_eq!(taken, [false, false, false, true, false]);
        assert_eq!(pick.count(), 6);
        pick.choose(0);
        assert!(!pick.take(true), "0 picks none");
    }
}

#[cfg(all(test, loom))]
mod every_order {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A copy ended, and whoever saw it lends its bytes to the next owner.
    #[test]
    fn who_is_covered_sees_what_came_before() {
        loom::model(|| {
            let (mark, bytes) = (Arc::new(Watermark::default()), Arc::new(AtomicU64::new(0)));
            let (theirs, written) = (Arc::clone(&mark), Arc::clone(&bytes));
            let waiter = thread::spawn(move || {
                written.store(7, Ordering::Relaxed);
                theirs.raise(3);
            });
            let other = Arc::clone(&mark);
            let behind = thread::spawn(move || other.raise(1));
            if mark.covers(3) {
                assert_eq!(bytes.load(Ordering::Relaxed), 7);
            }
            waiter.join().expect("it does not panic");
            behind.join().expect("it does not panic");
            assert!(mark.covers(3) && !mark.covers(4), "no claim is lost");
        });
    }

    /// The picked wait belongs to a free, which must not go without it, while another thread
    /// counts two that could. One of these is left out; it once was none.
    #[test]
    fn one_is_taken_whoever_counts_meanwhile() {
        loom::model(|| {
            let pick = Arc::new(Pick::default());
            pick.choose(1);
            let theirs = Arc::clone(&pick);
            let able = thread::spawn(move || [theirs.take(true), theirs.take(true)]);
            let unable = pick.take(false);
            let able = able.join().expect("it does not panic");
            assert!(!unable);
            assert_eq!(able.into_iter().filter(|taken| *taken).count(), 1);
            assert_eq!(pick.count(), 3);
        });
    }

    #[test]
    fn no_more_than_one_is_taken() {
        loom::model(|| {
            let pick = Arc::new(Pick::default());
            pick.choose(2);
            let theirs = Arc::clone(&pick);
            let other = thread::spawn(move || theirs.take(true));
            let mine = [pick.take(true), pick.take(true)];
            let taken = usize::from(other.join().expect("it does not panic"))
                + mine.into_iter().filter(|taken| *taken).count();
            assert_eq!(taken, 1);
        });
    }
}
