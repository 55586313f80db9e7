//! The checker on the record of a program that is ordered.

use crate::switches::{Switch, on};
use trijet::check::{Class, Finding, Options, Threads, check_with};
use trijet::trace::Op;

/// How the checker is asked. It knows what the judge knows: nothing of how threads start and end,
/// or as much as the record of a program shows whose phases are started by one thread.
pub(crate) fn options() -> Options {
    let threads = if on(Switch::Apart) { Threads::Apart } else { Threads::OneStartsAll };
    Options { threads, ..Options::default() }
}

/// The checker finds nothing in the record of a program that is ordered.
pub(crate) fn finds_nothing(ops: &[Op]) -> Result<(), String> {
    let options = options();
    let verdict = check_with(ops, options);
    // Programs wait for events before their first record, and use one event in several threads;
    // nothing else is remarked on.
    let is_usual = |found: &&Finding| {
        found.class == Class::WaitUnrecorded || found.class.code() == "SYNC/EVENT-UNORDERED"
    };
    let remarks = verdict.findings.iter().filter(|found| !is_usual(found));
    if remarks.count() > 0 {
        return Err(format!("the checker finds what the judge does not:\n{verdict}"));
    }
    Ok(())
}
