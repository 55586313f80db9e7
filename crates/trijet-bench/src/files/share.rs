//! Work on the pieces of a file, shared among threads.
#![forbid(unsafe_code)]

use std::io::{Error, Result};
use std::sync::Mutex;
use std::thread;

/// Calls `work` for each item, on `threads` threads, each with its own buffer. Returns the results
/// in the order of the items.
///
/// # Errors
/// The first error of a thread.
pub(super) fn each<I: Send, T: Send>(
    threads: usize,
    items: impl Iterator<Item = I> + Send,
    work: impl Fn(&mut Vec<u8>, I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let items = Mutex::new(items.enumerate());
    // The lock is poisoned if a thread has panicked. The join of that thread reports the panic.
    let next = || items.lock().ok()?.next();
    let one = || -> Result<Vec<(usize, T)>> {
        let (mut buffer, mut done) = (Vec::new(), Vec::new());
        while let Some((number, item)) = next() {
            done.push((number, work(&mut buffer, item)?));
        }
        Ok(done)
    };
    let mut all = Vec::new();
    thread::scope(|scope| -> Result<()> {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        for thread in running {
            all.extend(thread.join().map_err(|_| Error::other("a thread panicked"))??);
        }
        Ok(())
    })?;
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items_and_an_error_is_returned() {
        for threads in [1, 3] {
            let doubled = each(threads, 0..100, |_, item| Ok(2 * item));
            assert!(doubled.is_ok_and(|all| all.into_iter().eq((0..100).map(|item| 2 * item))));
            let failed = each(threads, 0..100, |_, item| match item {
                70 => Err(Error::other("item 70")),
                _ => Ok(()),
            });
            assert_eq!(failed.unwrap_err().to_string(), "item 70");
        }
    }
}
