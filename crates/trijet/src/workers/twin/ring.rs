//! A bounded queue that all workers share. To push a task, a worker first reserves room in the
//! counter `used`. To pop a task, a worker first reserves a task in the counter `items`. The worker
//! then gets a ticket, and the ticket selects a slot. The worker may have to wait for another
//! worker that has an earlier ticket for the same slot. `ring_push` and `ring_pop` of
//! `scheduler.cuh` do the same on a GPU.
#![forbid(unsafe_code)]
#![expect(clippy::cast_possible_truncation, reason = "a place is masked to the length of a ring")]

#[cfg(all(loom, test))]
use loom::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    thread::yield_now,
};
#[cfg(not(all(loom, test)))]
use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    thread::yield_now,
};

/// A queue whose capacity is a power of two.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The number of slots that have a task or are reserved for a task.
    used: AtomicU64,
    /// The number of tasks that were pushed, minus the number of tasks that workers reserved to
    /// take.
    items: AtomicI64,
    head: AtomicU64,
    tail: AtomicU64,
    slots: Box<[RingSlot]>,
}

#[derive(Debug)]
struct RingSlot {
    /// Twice the number of tasks that were taken from the slot, plus 1 while the slot has a task.
    round: AtomicU64,
    task: AtomicU64,
}

impl Ring {
    /// A queue with room for `1 << bits` tasks.
    pub(crate) fn new(bits: u32) -> Self {
        let new = |_| RingSlot { round: AtomicU64::new(0), task: AtomicU64::new(0) };
        Self {
            used: AtomicU64::new(0),
            items: AtomicI64::new(0),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            slots: (0..1_u64 << bits).map(new).collect(),
        }
    }

    /// The slot of a ticket, and a value of the field `round`. The slot is free for this ticket
    /// when `round` has this value.
    fn slot(&self, ticket: u64) -> (&RingSlot, u64) {
        let len = self.slots.len();
        (&self.slots[ticket as usize & (len - 1)], ticket / len as u64 * 2)
    }

    /// Whether the queue has tasks, as far as this thread can see.
    pub(crate) fn has_tasks(&self) -> bool {
        self.items.load(Ordering::Relaxed) > 0
    }

    /// Adds a task. Returns false if there is no room.
    pub(crate) fn push(&self, task: u64) -> bool {
        if self.used.fetch_add(1, Ordering::Relaxed) >= self.slots.len() as u64 {
            self.used.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let (slot, free) = self.slot(self.tail.fetch_add(1, Ordering::Relaxed));
        while slot.round.load(Ordering::Acquire) != free {
            yield_now();
        }
        slot.task.store(task, Ordering::Relaxed);
        // Release: the worker that takes the task sees all earlier writes of the worker that made
        // the task.
        slot.round.store(free + 1, Ordering::Release);
        self.items.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes a task; `None` if there is none.
    pub(crate) fn pop(&self) -> Option<u64> {
        if !self.has_tasks() {
            return None;
        }
        if self.items.fetch_sub(1, Ordering::Relaxed) <= 0 {
            self.items.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let (slot, free) = self.slot(self.head.fetch_add(1, Ordering::Relaxed));
        while slot.round.load(Ordering::Acquire) != free + 1 {
            yield_now();
        }
        let task = slot.task.load(Ordering::Relaxed);
        // Release: the task is read before another task is stored into the slot.
        slot.round.store(free + 2, Ordering::Release);
        self.used.fetch_sub(1, Ordering::Relaxed);
        Some(task)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Ring;

    #[test]
    fn tasks_leave_in_the_order_in_which_they_came() {
        let ring = Ring::new(2);
        assert_eq!(ring.pop(), None);
        for round in 0..5 {
            assert!((0..4).all(|task| ring.push(10 * round + task)));
            assert!(!ring.push(9), "it is full");
            assert!((0..4).all(|task| ring.pop() == Some(10 * round + task)));
            assert_eq!((ring.pop(), ring.has_tasks()), (None, false));
        }
    }
}

#[cfg(all(test, loom))]
mod every_order {
    use super::Ring;
    use loom::sync::Arc;
    use loom::thread;

    fn drained(ring: &Ring, mut all: Vec<u64>) -> Vec<u64> {
        all.extend(std::iter::from_fn(|| ring.pop()));
        all.sort_unstable();
        all
    }

    #[test]
    fn a_task_is_taken_once() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(1));
            let (pusher, popper) = (Arc::clone(&ring), Arc::clone(&ring));
            let pushed = thread::spawn(move || assert!(pusher.push(1)));
            let popped = thread::spawn(move || popper.pop());
            assert!(ring.push(2));
            pushed.join().expect("it does not panic");
            let all = popped.join().expect("it does not panic").into_iter().collect();
            assert_eq!(drained(&ring, all), [1, 2]);
        });
    }

    #[test]
    fn one_of_two_workers_gets_the_only_task_and_the_other_one_goes_on() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(1));
            assert!(ring.push(1));
            let theirs = Arc::clone(&ring);
            let other = thread::spawn(move || theirs.pop());
            let mine = ring.pop();
            let theirs = other.join().expect("it does not panic");
            assert_eq!(drained(&ring, mine.into_iter().chain(theirs).collect()), [1]);
        });
    }

    /// The slot is used again while another worker may still be reading it.
    #[test]
    fn a_slot_is_used_again_after_its_task_was_read() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(0));
            assert!(ring.push(1));
            let popper = Arc::clone(&ring);
            let popped = thread::spawn(move || popper.pop());
            let mut expected = vec![1];
            expected.extend(ring.push(2).then_some(2));
            let all = popped.join().expect("it does not panic").into_iter().collect();
            assert_eq!(drained(&ring, all), expected);
        });
    }

    #[test]
    fn a_worker_sees_what_the_maker_of_its_task_did() {
        use loom::sync::atomic::{AtomicU64, Ordering};
        loom::model(|| {
            let (ring, data) = (Arc::new(Ring::new(0)), Arc::new(AtomicU64::new(0)));
            let (theirs, seen) = (Arc::clone(&ring), Arc::clone(&data));
            let worker = thread::spawn(move || {
                if theirs.pop().is_some() {
                    assert_eq!(seen.load(Ordering::Relaxed), 7);
                }
            });
            data.store(7, Ordering::Relaxed);
            assert!(ring.push(1));
            worker.join().expect("it does not panic");
        });
    }
}
