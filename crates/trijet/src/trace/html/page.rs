//! The content of a timeline page: the summary, the findings, the operations and their origin.
#![forbid(unsafe_code)]

use crate::base::ledger::Op;
use crate::trace::summary::Summary;
use std::borrow::Cow;

/// A finding of the checker, as a page and a Perfetto trace show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HazardNote {
    /// The full report.
    pub text: String,
    /// The index of the first operation; `None` if the finding is about one operation.
    pub first: Option<usize>,
    /// The index of the second operation, or of the only one. The missing edge leads to it.
    pub second: usize,
}

/// The content of a page. A section without content says so.
///
/// ```
/// use trijet::trace::html::Page;
/// let page = Page { title: "a <run>".into(), ..Page::default() };
/// assert!(page.render().contains("<title>a &lt;run&gt;</title>"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Page<'a> {
    /// The title.
    pub title: String,
    /// The summary of the run; `None` if there is none.
    pub summary: Option<Summary>,
    /// What would make the run faster, and what it saves.
    pub advice: Vec<String>,
    /// The findings of the checker. The summary says how many of them are hazards, and whether the
    /// run was checked.
    pub hazards: Vec<HazardNote>,
    /// Names and values that say where the page comes from.
    pub provenance: Vec<(String, String)>,
    /// The operations of the trace, with the times that the summary is about.
    pub ops: Cow<'a, [Op]>,
}
