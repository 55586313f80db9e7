//! A bounded deque of tasks: its owner uses one end, and thieves use the other end (Chase and Lev,
//! "Dynamic circular work-stealing deque"). The memory orders follow Lê et al., "Correct and
//! efficient work-stealing for weak memory models". `deque_push`, `deque_take` and `deque_steal` of
//! `scheduler.cuh` do the same on a GPU.
#![forbid(unsafe_code)]

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A deque whose capacity is a power of two.
#[derive(Debug)]
pub(crate) struct Deque {
    /// The index of the oldest task, modulo 2^32. The index only grows.
    top: AtomicU32,
    /// The index after the newest task, modulo 2^32. Only the owner writes this index.
    bottom: AtomicU32,
    tasks: Box<[AtomicU64]>,
}

impl Deque {
    /// A deque with room for `1 << bits` tasks.
    pub(crate) fn new(bits: u32) -> Self {
        let tasks = (0..1_u32 << bits).map(|_| AtomicU64::new(0)).collect();
        Self { top: AtomicU32::new(0), bottom: AtomicU32::new(0), tasks }
    }

    fn task(&self, at: u32) -> &AtomicU64 {
        &self.tasks[at as usize & (self.tasks.len() - 1)]
    }

    /// Whether the deque has tasks, as far as this thread can see.
    pub(crate) fn has_tasks(&self) -> bool {
        let (top, bottom) = (self.top.load(Ordering::Relaxed), self.bottom.load(Ordering::Relaxed));
        bottom.wrapping_sub(top).cast_signed() > 0
    }

    /// Adds a task. Returns false if there is no room. Only the owner may call this.
    pub(crate) fn push(&self, task: u64) -> bool {
        let bottom = self.bottom.load(Ordering::Relaxed);
        // Acquire: if the new task reuses a slot, a thief has already read the old task in this
        // slot.
        let top = self.top.load(Ordering::Acquire);
        if bottom.wrapping_sub(top) as usize >= self.tasks.len() {
            return false;
        }
        self.task(bottom).store(task, Ordering::Relaxed);
        // A thief must see the task, and all earlier writes of the thread that made the task. The
        // thief may read a value that `take` stores into `bottom` later. A release store here would
        // not cover this case (C++20, PTX), so a fence is necessary.
        fence(Ordering::Release);
        self.bottom.store(bottom.wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// Takes the newest task. Only the owner may call this.
    pub(crate) fn take(&self) -> Option<u64> {
        let bottom = self.bottom.load(Ordering::Relaxed).wrapping_sub(1);
        if bottom.wrapping_sub(self.top.load(Ordering::Relaxed)).cast_signed() < 0 {
            return None;
        }
        self.bottom.store(bottom, Ordering::Relaxed);
        // Either a thief sees the new `bottom`, or the owner sees the new `top` that the thief
        // wrote.
        fence(Ordering::SeqCst);
        let top = self.top.load(Ordering::Relaxed);
        let left = bottom.wrapping_sub(top).cast_signed();
        if left > 0 {
            return Some(self.task(bottom).load(Ordering::Relaxed));
        }
        let mut taken = None;
        if left == 0 {
            // This is the last task, which a thief may take at the same time.
            let task = self.task(bottom).load(Ordering::Relaxed);
            taken = self.advance(top).then_some(task);
        }
        self.bottom.store(bottom.wrapping_add(1), Ordering::Relaxed);
        taken
    }

    /// Takes the oldest task. `None` if there is no task, or if another thread took the task at the
    /// same time.
    pub(crate) fn steal(&self) -> Option<u64> {
        let top = self.top.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        // Acquire: the thief sees the task, and all earlier writes of the thread that made the
        // task.
        let bottom = self.bottom.load(Ordering::Acquire);
        if bottom.wrapping_sub(top).cast_signed() <= 0 {
            return None;
        }
        let task = self.task(top).load(Ordering::Relaxed);
        self.advance(top).then_some(task)
    }

    fn advance(&self, top: u32) -> bool {
        let (next, failed) = (top.wrapping_add(1), Ordering::Relaxed);
        self.top.compare_exchange(top, next, Ordering::SeqCst, failed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Deque;

    #[test]
    fn the_owner_takes_the_newest_and_a_thief_the_oldest_task() {
        let deque = Deque::new(2);
        assert_eq!((deque.take(), deque.steal(), deque.has_tasks()), (None, None, false));
        assert!((1..=4).all(|task| deque.push(task)));
        assert!(!deque.push(5), "it is full");
        assert_eq!((deque.steal(), deque.take()), (Some(1), Some(4)));
        assert!(deque.push(5) && deque.push(6) && !deque.push(7));
        let rest: Vec<u64> = std::iter::from_fn(|| deque.steal()).collect();
        assert_eq!(rest, [2, 3, 5, 6]);
        assert_eq!(deque.take(), None);
    }

    #[test]
    fn its_ends_may_wrap_around() {
        let deque = Deque::new(1);
        let near = u32::MAX - 1;
        deque.top.store(near, super::Ordering::Relaxed);
        deque.bottom.store(near, super::Ordering::Relaxed);
        for task in 0..6 {
            assert!(deque.push(task) && deque.push(task + 100) && !deque.push(0));
            assert_eq!((deque.steal(), deque.take()), (Some(task), Some(task + 100)));
        }
    }
}

#[cfg(all(test, loom))]
mod every_order {
    use super::Deque;
    use loom::sync::Arc;
    use loom::thread;

    /// Returns all tasks, in ascending order: the tasks that thieves took, the tasks that `owner`
    /// took, and the tasks that are left.
    fn taken(
        deque: &Arc<Deque>,
        owner: impl FnOnce(&Deque) -> Vec<u64>,
        thieves: usize,
    ) -> Vec<u64> {
        let steal = || {
            let deque = Arc::clone(deque);
            thread::spawn(move || deque.steal())
        };
        let thieves: Vec<_> = (0..thieves).map(|_| steal()).collect();
        let mut all = owner(deque);
        all.extend(
            thieves.into_iter().filter_map(|thief| thief.join().expect("it does not panic")),
        );
        all.extend(std::iter::from_fn(|| deque.take()));
        all.sort_unstable();
        all
    }

    #[test]
    fn a_task_is_taken_once_by_its_owner_or_by_a_thief() {
        loom::model(|| {
            let deque = Arc::new(Deque::new(1));
            let owner = |deque: &Deque| {
                assert!(deque.push(1) && deque.push(2));
                deque.take().into_iter().chain(deque.take()).collect()
            };
            assert_eq!(taken(&deque, owner, 1), [1, 2]);
        });
    }

    #[test]
    fn two_thieves_take_different_tasks() {
        loom::model(|| {
            let deque = Arc::new(Deque::new(1));
            assert!(deque.push(1) && deque.push(2));
            assert_eq!(taken(&deque, |_| Vec::new(), 2), [1, 2]);
        });
    }

    /// If the owner believes that more tasks are left, it takes a task without a check. The owner
    /// must then see that a thief has taken the older task.
    #[test]
    fn a_thief_and_the_owner_see_each_other_at_the_last_task() {
        loom::model(|| {
            let deque = Arc::new(Deque::new(1));
            assert!(deque.push(1) && deque.push(2));
            let theirs = Arc::clone(&deque);
            let thief = thread::spawn(move || [theirs.steal(), theirs.steal()]);
            let mut all: Vec<u64> = deque.take().into_iter().collect();
            all.extend(thief.join().expect("it does not panic").into_iter().flatten());
            all.extend(std::iter::from_fn(|| deque.take()));
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
        });
    }

    /// A new task is stored into the slot of a task that a thief is about to read.
    #[test]
    fn a_thief_does_not_take_a_task_from_a_place_that_was_used_again() {
        loom::model(|| {
            let deque = Arc::new(Deque::new(0));
            assert!(deque.push(1));
            let owner = |deque: &Deque| {
                let first = deque.take();
                assert!(deque.push(2) || first.is_none());
                first.into_iter().collect()
            };
            let all = taken(&deque, owner, 1);
            assert!(all == [1, 2] || all == [1], "{all:?}");
        });
    }

    /// A thread that takes a task sees the earlier writes of the thread that made the task.
    #[test]
    fn a_thief_sees_what_the_maker_of_its_task_did() {
        use loom::sync::atomic::{AtomicU64, Ordering};
        loom::model(|| {
            let (deque, data) = (Arc::new(Deque::new(1)), Arc::new(AtomicU64::new(0)));
            let (theirs, seen) = (Arc::clone(&deque), Arc::clone(&data));
            let thief = thread::spawn(move || {
                if theirs.steal().is_some() {
                    assert_eq!(seen.load(Ordering::Relaxed), 7);
                }
            });
            data.store(7, Ordering::Relaxed);
            assert!(deque.push(1));
            thief.join().expect("it does not panic");
        });
    }
}
