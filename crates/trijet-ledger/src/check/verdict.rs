//! The result of a check.
#![forbid(unsafe_code)]

use super::hazard::{Finding, Severity};
use super::options::Assume;

/// The result of a check. Its text has the reports of the findings and one line of summary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// The findings: errors before warnings, and each group in the order of the calls that revealed
    /// them.
    pub findings: Vec<Finding>,
    /// The number of findings that were not kept.
    pub more: u64,
    /// The number of entries that were checked.
    pub ops: u64,
    /// The number of declared accesses that were checked.
    pub accesses: u64,
    /// The number of operations without declared accesses, which may have used any memory.
    pub undeclared: u64,
    /// The number of operations after the operation that lost the context.
    pub poisoned: u64,
    /// The edges that the checker relied on.
    pub assume: Assume,
}

impl Verdict {
    /// Whether there are no errors. Warnings do not count.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let errors = self.findings.iter().filter(|f| f.class.severity() == Severity::Error);
        errors.count() == 0
    }
}
