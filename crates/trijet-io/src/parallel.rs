//! Shares the parts of a read among the threads of `rayon`.
//!
//! The thread that reads waits and does no part itself. A thread of a pool that waits takes other
//! work meanwhile, such as the parts of the next read, and a complete read would wait for this
//! work. Parts are done in the order in which the reads ask for them, so the first of several reads
//! at once ends first.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};
use trijet::{Error, Result};

/// Calls `work` for each part, and waits until all parts are done. Returns the error of the first
/// part that failed.
pub(crate) fn each_part<P: Send>(
    parts: impl IntoIterator<Item = P>,
    work: impl Fn(P) -> Result<()> + Sync,
) -> Result<()> {
    let failed = FirstError::default();
    rayon::in_place_scope_fifo(|scope| {
        for (number, part) in parts.into_iter().enumerate() {
            let (work, failed) = (&work, &failed);
            scope
                .spawn_fifo(move |_| work(part).unwrap_or_else(|error| failed.keep(number, error)));
        }
    });
    failed.into_result()
}

/// The error of the first part that failed, and the number of this part.
#[derive(Debug, Default)]
struct FirstError(Mutex<Option<(usize, Error)>>);

impl FirstError {
    /// Keeps the error of the part with this number, unless an earlier part failed.
    fn keep(&self, number: usize, error: Error) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(first, _)| number < *first) {
            *kept = Some((number, error));
        }
    }

    fn into_result(self) -> Result<()> {
        let kept = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        kept.map_or(Ok(()), |(_, error)| Err(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use trijet::ErrorKind;

    #[test]
    fn every_part_is_done_and_the_error_of_the_first_is_returned() {
        for failing in [&[][..], &[3], &[70, 12, 13]] {
            let done = AtomicUsize::new(0);
            let result = each_part(0..100, |number| {
                done.fetch_add(1, Ordering::Relaxed);
                let error = || Error::new(ErrorKind::Io, "read", format!("part {number}."));
                if failing.contains(&number) { Err(error()) } else { Ok(()) }
            });
            assert_eq!(done.into_inner(), 100);
            let first = failing.iter().min().map(|number| format!("part {number}."));
            let found = result.err().map(|error| error.to_string());
            assert_eq!(found.is_some(), first.is_some());
            assert!(found.unwrap_or_default().contains(&first.unwrap_or_default()));
        }
    }

    #[test]
    fn a_panic_of_a_part_reaches_the_thread_that_reads() {
        let read = || {
            each_part(0..4, |number| {
                assert_ne!(number, 2, "on purpose");
                Ok(())
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
        each_part(0..4, |_| Ok(())).expect("the threads go on");
    }

    /// Reads at once do not wait for each other: each part of one read waits for a whole read by
    /// another thread.
    #[test]
    fn a_read_does_not_wait_for_the_parts_of_another() {
        if rayon::current_num_threads() < 2 {
            return;
        }
        let (begun, is_begun) = std::sync::mpsc::sync_channel(1);
        let (ended, is_ended) = std::sync::mpsc::sync_channel(1);
        let is_ended = Mutex::new(is_ended);
        std::thread::scope(|scope| {
            let long = scope.spawn(|| {
                each_part([()], |()| {
                    begun.send(()).expect("the other thread waits");
                    let is_ended = is_ended.lock().unwrap();
                    is_ended.recv().expect("the other thread reads");
                    Ok(())
                })
            });
            is_begun.recv().expect("the first thread reads");
            each_part(0..50, |_| Ok(())).unwrap();
            ended.send(()).unwrap();
            long.join().unwrap().unwrap();
        });
    }
}
