//! Atomic values that threads share without a lock. They are small enough for `cargo xtask loom` to
//! try every order of their steps.
#![forbid(unsafe_code)]

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The largest number that [`Watermark::raise`] got: the work up to this number is known to be
/// complete. The number never falls.
#[derive(Debug, Default)]
pub struct Watermark(AtomicU64);

impl Watermark {
    /// Notes that the work up to `number` is complete.
    #[inline]
    pub fn raise(&self, number: u64) {
        // Release: a thread that reuses memory because of this number sees what this thread saw.
        self.0.fetch_max(number, Ordering::Release);
    }

    /// Whether the work up to `number` is complete. If so, everything that happened before the
    /// matching [`Watermark::raise`] happens before the return of this call.
    #[inline]
    pub fn covers(&self, number: u64) -> bool {
        self.0.load(Ordering::Acquire) >= number
    }
}

/// A counter of calls that picks one call by its number.
#[derive(Debug, Default)]
pub struct Pick {
    count: AtomicU64,
    /// The number of the call to pick, counted from 1; 0 for none.
    picked: AtomicU64,
}

impl Pick {
    /// The number of calls so far.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Picks the `number`-th call from now on, counted from 1. With 0, no call is picked.
    #[inline]
    pub fn choose(&self, number: u64) {
        let picked = if number == 0 { 0 } else { self.count() + number };
        self.picked.store(picked, Ordering::Relaxed);
    }

    /// Counts one call, and returns whether this call is picked. A call with `able` false is never
    /// picked. If the chosen call has `able` false, the next call with `able` true is picked
    /// instead. Other threads may count calls at the same time.
    #[inline]
    pub fn take(&self, able: bool) -> bool {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let picked = self.picked.load(Ordering::Relaxed);
        let due = able && picked != 0 && number >= picked;
        // If several calls are due, only one is picked.
        due && self.picked.compare_exchange(picked, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A list of numbers to which threads add without waiting for each other. One thread at a time
/// removes all numbers. Each number is in the list at most once. The link of a number is the next
/// number in the list.
#[derive(Debug)]
pub struct Stack(AtomicU32);

/// Marks the end of the list: the link of its last number.
const END: u32 = u32::MAX;

impl Default for Stack {
    #[inline]
    fn default() -> Self {
        Self(AtomicU32::new(END))
    }
}

impl Stack {
    /// Whether the list is empty, as far as this thread can see.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == END
    }

    /// Adds `number`, which must not be in the list and must not be `u32::MAX`. `link` is the link
    /// of `number`.
    #[inline]
    pub fn push(&self, number: u32, link: &AtomicU32) {
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            link.store(first, Ordering::Relaxed);
            // Release: the thread that takes the number sees the link, and everything that this
            // thread did before the push.
            match self.0.compare_exchange_weak(first, number, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// Removes all numbers and calls `each` with each of them, beginning with the number that was
    /// added last. During that call, the number may be added again.
    #[inline]
    pub fn take<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32, mut each: impl FnMut(u32)) {
        let mut number = self.0.swap(END, Ordering::Acquire);
        while number != END {
            let next = link(number).load(Ordering::Relaxed);
            each(number);
            number = next;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_once_and_the_last_one_first() {
        let links: [AtomicU32; 4] = Default::default();
        let (stack, mut taken) = (Stack::default(), Vec::new());
        assert!(stack.is_empty());
        [2, 0, 3].into_iter().for_each(|number| stack.push(number, &links[number as usize]));
        stack.take(|number| &links[number as usize], |number| taken.push(number));
        assert_eq!(taken, [3, 0, 2]);
        assert!(stack.is_empty());
        stack.take(|number| &links[number as usize], |_| panic!("it is empty"));
    }

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

    /// Two threads add numbers while a third thread takes numbers. One number is added again after
    /// it was taken. The thread that takes a number sees everything that the adding thread did
    /// before it added the number.
    #[test]
    fn every_number_is_taken_as_often_as_it_was_added() {
        loom::model(|| {
            struct List {
                stack: Stack,
                links: [AtomicU32; 2],
                values: [AtomicU64; 2],
            }
            let new = || AtomicU64::new(0);
            let list = Arc::new(List {
                stack: Stack::default(),
                links: [AtomicU32::new(0), AtomicU32::new(0)],
                values: [new(), new()],
            });
            let push = |list: &List, number: u32, value| {
                list.values[number as usize].store(value, Ordering::Relaxed);
                list.stack.push(number, &list.links[number as usize]);
            };
            let take = |list: &List, taken: &mut Vec<(u32, u64)>| {
                let value = |number: u32| list.values[number as usize].load(Ordering::Relaxed);
                let link = |number: u32| &list.links[number as usize];
                list.stack.take(link, |number| taken.push((number, value(number))));
            };
            let (first, second) = (Arc::clone(&list), Arc::clone(&list));
            let one = thread::spawn(move || push(&first, 0, 5));
            let two = thread::spawn(move || push(&second, 1, 6));
            let mut taken = Vec::new();
            take(&list, &mut taken);
            let again = taken.contains(&(0, 5));
            if again {
                push(&list, 0, 7);
            }
            one.join().expect("it does not panic");
            two.join().expect("it does not panic");
            take(&list, &mut taken);
            taken.sort_unstable();
            let expected: &[_] = if again { &[(0, 5), (0, 7), (1, 6)] } else { &[(0, 5), (1, 6)] };
            assert_eq!(taken, expected);
            assert!(list.stack.is_empty());
        });
    }

    /// A thread that sees that a copy is complete may pass on the bytes of the copy.
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

    /// One thread counts a call with `able` false, which has the picked number. Meanwhile another
    /// thread counts two calls with `able` true. One of these two calls must be picked. An earlier
    /// version of `take` picked none.
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
