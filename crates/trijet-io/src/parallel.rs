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
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};
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
            match failing.iter().min() {
                None => result.unwrap(),
                Some(first) => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains(&format!("part {first}.")), "{error}");
                }
            }
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

    /// Two threads do the parts of a read. The first one is free before the read has ended, and
    /// takes a part of another read. The read ends although this part has not ended: the part waits
    /// for it.
    #[test]
    fn a_read_does_not_wait_for_the_parts_of_another() {
        if rayon::current_num_threads() < 2 {
            println!("left out: one processor does one part at a time");
            return;
        }
        let both = Barrier::new(2);
        let [(free, is_free), (taken, is_taken), (ended, is_ended)] = [(); 3].map(|()| channel());
        let (is_taken, is_ended) = (Mutex::new(is_taken), Mutex::new(is_ended));
        let wait = |signal: &Mutex<Receiver<()>>| signal.lock().unwrap().recv().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let part = |number| {
                    both.wait();
                    match number {
                        0 => free.send(()).unwrap(),
                        _ => wait(&is_taken),
                    }
                    Ok(())
                };
                each_part([0, 1], part).unwrap();
                ended.send(()).unwrap();
            });
            is_free.recv().unwrap();
            let part = |number| {
                if number == 0 {
                    taken.send(()).unwrap();
                    wait(&is_ended);
                }
                Ok(())
            };
            each_part([0, 1], part).unwrap();
        });
    }
}
