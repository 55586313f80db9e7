//! The checker: it searches a traced run for conflicts that no documented CUDA edge orders.
//!
//! The checker reads the trace of a run (`Device::start_trace`, `Device::take_trace`) and
//! recomputes the order from the driver's calls in the trace: streams, events, the legacy stream,
//! waits of host threads, and the guarantees of the return of a synchronous copy. Two declared
//! accesses to the same bytes, with at least one write, are a finding **iff** the laws allow a
//! schedule that swaps them. One run is enough, because the order of streams follows from the calls
//! and not from their timing. Every verdict states its limits: the number of operations that
//! declared no accesses, and that the checker does not look inside kernels.
//!
//! Host threads are ordered in two ways. A thread follows what it waited for (law A11). The use of
//! memory that the library orders also orders threads, because Rust passes such memory from call to
//! call (law A44). The first call of a thread follows nothing by itself. [`Threads::OneStartsAll`]
//! is for programs in which one thread starts and joins all others, and makes no calls in between.
//! Two threads that use one event need an order between their calls (law A45). A `Signal` puts a
//! hand-over into the trace, from thread to thread, or to and from a host function. A wait for a
//! signal that nothing can set is a deadlock.
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
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod checker;
pub(crate) mod coded;
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
pub use checker::DISCARD;
pub use hazard::{Conflict, Finding, FindingClass, Party, Severity, Witness};
pub use names::Names;
pub use options::{Assume, CheckOptions, Threads};
pub use verdict::Verdict;

use crate::base::ledger::Op;
use order::EntryOrder;
use std::collections::BTreeSet;

/// Checks a whole trace with the default options.
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
    check_with(ops, CheckOptions::default())
}

/// Maximum number of conflicts that get a witness. Each witness costs a pass over the trace.
const WITNESSES_MAX: usize = 8;

/// Checks a whole trace. The first eight conflicts get a [`Witness`]. A [`Checker`] makes no
/// witnesses, because it does not keep the whole trace.
#[must_use]
pub fn check_with(ops: &[Op], options: CheckOptions) -> Verdict {
    let (assume, threads, mut left) = (options.assume, options.threads, WITNESSES_MAX);
    let (checker, known_doubtful) = checked(ops, &options);
    let mut verdict = checker.finish();
    for finding in &mut verdict.findings {
        if left > 0 && finding.conflict.is_some() {
            left -= 1;
            let mut order = EntryOrder::new(assume, threads);
            order.search_doubtful_waits(known_doubtful.clone());
            finding.witness = witness::replay(ops, finding, order);
        }
    }
    verdict
}

/// A checker that has read the whole trace, and the entries of the doubtful waits. A wait is
/// doubtful if another thread records its event later, with no order between the two calls (law
/// A45). The order that such a wait adds holds in this run only. Without that order, more waits may
/// be doubtful, so the search repeats until it finds no new doubtful wait.
fn checked(ops: &[Op], options: &CheckOptions) -> (Checker, BTreeSet<u64>) {
    let mut known_doubtful = BTreeSet::new();
    loop {
        let mut checker = Checker::new(options.clone());
        checker.search_doubtful_waits(known_doubtful.clone());
        ops.iter().for_each(|op| checker.push(op));
        // Every pass except the last finds a new doubtful wait, so the loop ends.
        if checker.doubtful_waits().len() == known_doubtful.len() {
            return (checker, known_doubtful);
        }
        known_doubtful.clone_from(checker.doubtful_waits());
    }
}
