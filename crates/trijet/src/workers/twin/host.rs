//! The requests of the host to a run on a host device, the answers of the run, and the report of
//! its end. On a GPU, these are words in host memory that the program and the kernel access. A twin
//! cannot access this memory, because the program may access it at the same time. So the twin and
//! the program use the table of this module.
#![forbid(unsafe_code)]

use crate::workers::end::EndReport;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// For one run: whether the host has asked the run to end, the answers, and the report of the end.
#[derive(Debug, Default)]
struct Told {
    is_asked: bool,
    answers: Vec<u64>,
    report: Option<EndReport>,
}

/// The requests and the answers of each run. The key is the address of the host words of the run.
static RUNS: Mutex<BTreeMap<u64, Told>> = Mutex::new(BTreeMap::new());

fn runs() -> MutexGuard<'static, BTreeMap<u64, Told>> {
    RUNS.lock().expect("no thread panicked while it held this lock")
}

/// Asks the run to end.
pub(in crate::workers) fn ask(run: u64) {
    runs().entry(run).or_default().is_asked = true;
}

/// Forgets the run.
pub(in crate::workers) fn forget(run: u64) {
    runs().remove(&run);
}

/// Returns the answers of the run since the last call.
pub(in crate::workers) fn answers(run: u64) -> Vec<u64> {
    std::mem::take(&mut runs().entry(run).or_default().answers)
}

/// The report of the end; `None` if the run has not ended or ran on a GPU.
pub(in crate::workers) fn report(run: u64) -> Option<EndReport> {
    runs().get(&run)?.report
}

/// Sets the report of the end.
pub(super) fn ended(run: u64, report: EndReport) {
    runs().entry(run).or_default().report = Some(report);
}

/// Whether the host has asked the run to end.
pub(super) fn is_asked(run: u64) -> bool {
    runs().get(&run).is_some_and(|told| told.is_asked)
}

/// Adds an answer.
pub(super) fn answer(run: u64, value: u64) {
    runs().entry(run).or_default().answers.push(value);
}
