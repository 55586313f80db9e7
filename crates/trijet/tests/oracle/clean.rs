//! Runs the checker on the ledger of a program that is ordered.

use crate::switches::{Switch, on};
use trijet::check::{CheckOptions, Finding, FindingClass, Threads, check_with};
use trijet::trace::Op;

/// The options of the checker. It knows as much as the judge about the start and the end of
/// threads: nothing, or that one thread starts all phases.
pub(crate) fn options() -> CheckOptions {
    let threads = if on(Switch::Apart) { Threads::Apart } else { Threads::OneStartsAll };
    CheckOptions::new().threads(threads)
}

/// Demands that the checker finds nothing in the ledger of a program that is ordered.
pub(crate) fn finds_nothing(ops: &[Op]) -> Result<(), String> {
    let options = options();
    let verdict = check_with(ops, options);
    // Programs wait for events before their first record, and use one event in several threads. The
    // checker may remark only on these.
    let is_usual = |found: &&Finding| {
        found.class == FindingClass::WaitUnrecorded || found.class.code() == "SYNC/EVENT-UNORDERED"
    };
    let remarks = verdict.findings.iter().filter(|found| !is_usual(found));
    if remarks.count() > 0 {
        return Err(format!("the checker finds what the judge does not:\n{verdict}"));
    }
    Ok(())
}
