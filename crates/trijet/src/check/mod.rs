//! The checker: whether every conflict of a recorded run is ordered by a documented CUDA edge.
//!
//! It reads the records of a run (`Device::start_trace`, `Device::take_trace`) and recomputes the order
//! from the driver's calls that they show: streams, events, the legacy stream, what host threads
//! waited for, and what synchronous copies mean at their return. Two declared accesses to the same
//! bytes, one of which writes, are a finding **iff** some schedule that the laws allow takes them in
//! the other order. One run is enough: the order of streams follows from the calls, not from
//! timing. What stays open is said with every verdict: accesses that were not declared, and what
//! happens inside kernels.
//!
//! Order among host threads is known by what each of them waited for (law A11), and by who uses
//! memory that the library orders: Rust hands it over from call to call (law A44). A thread's first
//! call follows nothing by itself. [`Threads::OneStartsAll`] is for programs whose threads are started
//! and joined by one that is silent meanwhile. Two threads that use one event need an order between
//! their calls (law A45). A [`Signal`](crate::Signal) puts a hand-over into the record, between
//! threads and with host functions; a wait for one that nothing can answer is a deadlock.
//!
//! ```
//! use trijet::check::check;
//! use trijet::testing::MIX;
//! use trijet::{Device, Select};
//! let device = Device::open(Select::Host(0))?;
//! let (a, b) = (device.stream()?, device.stream()?);
//! device.start_trace(&a)?;
//! let (mut x, mut y) = (a.alloc::<u64>(64)?, b.alloc::<u64>(64)?);
//! a.fill_bytes(&mut x, 1)?;
//! b.fill_bytes(&mut y, 2)?;
//! b.launch(&MIX, (3, &x, &mut y))?; // the wait for `a` is inserted
//! device.synchronize()?;
//! let verdict = check(&device.take_trace()?.ops);
//! assert!(verdict.is_clean(), "{verdict}");
//! # Ok::<(), trijet::Error>(())
//! ```
//!
//! Imports: `base`.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod checker;
mod deadlock;
mod event;
mod explain;
mod fault;
mod hazard;
mod late;
pub mod lint;
mod names;
mod naming;
mod options;
mod order;
mod report;
mod shadow;
mod verdict;
mod witness;

pub use checker::Checker;
pub use hazard::{Class, Conflict, Finding, Party, Severity, Witness};
pub use names::Names;
pub use options::{Assume, Options, Threads};
pub use verdict::Verdict;

use crate::base::ledger::Op;
use order::Order;
use std::collections::BTreeSet;

/// Checks a whole record with the default options.
///
/// ```
/// let verdict = trijet::check::check(&[]);
/// assert_eq!(
///     verdict.to_string(),
///     "for the calls this run made and the accesses it declared, every conflict is ordered by a \
///      documented CUDA edge; 0 accesses undeclared; inside kernels not checked"
/// );
/// ```
#[must_use]
pub fn check(ops: &[Op]) -> Verdict {
    check_with(ops, Options::default())
}

/// Checks a whole record. The first findings get witnesses.
#[must_use]
pub fn check_with(ops: &[Op], options: Options) -> Verdict {
    let (assume, threads, mut left) = (options.assume, options.threads, options.witnesses_max);
    let (checker, known_doubtful) = checked(ops, &options);
    let mut verdict = checker.finish();
    for finding in &mut verdict.findings {
        if left > 0 && finding.conflict.is_some() {
            left -= 1;
            let mut order = Order::new(assume, threads);
            order.search_doubtful_waits(known_doubtful.clone());
            finding.witness = witness::replay(ops, finding, order);
        }
    }
    verdict
}

/// A checker that has seen all of the record, and the waits that it did not count: those of which a
/// record of the event that comes later makes a matter of chance what they stand for (law A45). Without
/// them there may be more, so that it looks until there are none.
fn checked(ops: &[Op], options: &Options) -> (Checker, BTreeSet<u64>) {
    let mut known_doubtful = BTreeSet::new();
    loop {
        let mut checker = Checker::new(options.clone());
        checker.search_doubtful_waits(known_doubtful.clone());
        ops.iter().for_each(|op| checker.push(op));
        // Each pass adds one at least.
        if checker.doubtful_waits().len() == known_doubtful.len() {
            return (checker, known_doubtful);
        }
        known_doubtful.clone_from(checker.doubtful_waits());
    }
}
