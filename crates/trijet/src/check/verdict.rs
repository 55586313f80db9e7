//! The result of a check.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::hazard::{Finding, Severity};
use super::options::Assume;

/// The result of a check. Prints as its reports and one line of summary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// What was found: errors before warnings, each in the order of the calls that showed it.
    pub findings: Vec<Finding>,
    /// Findings beyond those that are kept.
    pub more: u64,
    /// Records that were looked at.
    pub ops: u64,
    /// Declared accesses that were looked at.
    pub accesses: u64,
    /// Operations that may have touched anything.
    pub undeclared: u64,
    /// Operations after one that took the context with it.
    pub poisoned: u64,
    /// Which edges counted.
    pub assume: Assume,
}

impl Verdict {
    /// Whether nothing is wrong. Warnings do not count.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let errors = self.findings.iter().filter(|f| f.class.severity() == Severity::Error);
        errors.count() == 0
    }
}
