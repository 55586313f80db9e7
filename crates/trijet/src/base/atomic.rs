//! Atomic values that threads share without a lock. They are small enough for `cargo xtask loom` to
//! try every order of their steps.
#![forbid(unsafe_code)]

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number up to which work is known to be complete. It never falls.
#[derive(Debug, Default)]
pub(crate) struct Watermark(AtomicU64);

impl Watermark {
    /// Notes that the work up to `number` is complete.
    pub(crate) fn raise(&self, number: u64) {
        // Release: a thread that reuses memory because of this number sees what this thread saw.
        self.0.fetch_max(number, Ordering::Release);
    }

    /// Whether the work up to `number` is complete. If so, everything that happened before the
    /// matching [`Watermark::raise`] happens before the return of this call.
    #[inline]
    pub(crate) fn covers(&self, number: u64) -> bool {
        self.0.load(Ordering::Acquire) >= number
    }
}

/// A counter of calls that picks one call by its number.
#[derive(Debug, Default)]
pub(crate) struct Pick {
    count: AtomicU64,
    /// The number of the call to pick, counted from 1; 0 for none.
    picked: AtomicU64,
}

impl Pick {
    /// The number of calls so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Chooses the `number`-th call from now on, counted from 1; none for 0.
    pub(crate) fn choose(&self, number: u64) {
        let picked = if number == 0 { 0 } else { self.count() + number };
        self.picked.store(picked, Ordering::Relaxed);
    }

    /// Counts one call, and returns whether it is the picked one. A call that is not `able` is not
    /// picked; the next able call takes its place, also if other threads count calls meanwhile.
    pub(crate) fn take(&self, able: bool) -> bool {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let picked = self.picked.load(Ordering::Relaxed);
        let due = able && picked != 0 && number >= picked;
        // Of several due calls, one is picked.
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
    fn the_next_able_call_takes_the_place_of_one_that_is_not() {
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

    /// A thread that sees the end of a copy may pass on its bytes.
    #[test]
    fn a_thread_that_finds_a_number_covered_sees_what_came_before() {
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

    /// The picked call is not able while another thread counts two able calls. One of these is
    /// picked; once, none was.
    #[test]
    fn one_is_picked_while_another_thread_counts() {
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
    fn no_more_than_one_is_picked() {
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
