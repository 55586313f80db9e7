//! The content of a timeline page: the summary, the findings, the operations and their origin.
#![forbid(unsafe_code)]

use crate::base::ledger::Op;
use crate::trace::summary::Summary;
use std::borrow::Cow;

/// A finding of the checker, as a page and a Perfetto trace show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HazardNote {
    /// The full report of the finding, as text.
    pub text: String,
    /// The index of the first operation in `Page::ops`; `None` if the finding is about one
    /// operation.
    pub first: Option<usize>,
    /// The index of the second operation, or of the only operation. The missing edge leads to this
    /// operation.
    pub second: usize,
}

/// The content of a page. Where a section has no content, the page states that.
///
/// ```
/// use trijet::trace::html::Page;
/// let page = Page { title: "a <run>".into(), ..Page::default() };
/// assert!(page.render().contains("<title>a &lt;run&gt;</title>"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Page<'a> {
    /// The title of the page.
    pub title: String,
    /// The summary of the run; `None` if there is none.
    pub summary: Option<Summary>,
    /// Changes that would make the run faster, and the time that each saves.
    pub advice: Vec<String>,
    /// The findings of the checker. The summary has the number of hazards, and states whether the
    /// run was checked.
    pub hazards: Vec<HazardNote>,
    /// The provenance of the page, as names and values.
    pub provenance: Vec<(String, String)>,
    /// The operations of the trace, with the times that the summary used.
    pub ops: Cow<'a, [Op]>,
    /// The number of each operation in its ledger, if the operations have the times of the calls
    /// that enqueued them, and not the times at which they ran.
    pub calls: Option<Vec<u64>>,
}

impl Page<'_> {
    /// The number of an operation in texts and links, by its index.
    pub(super) fn number_of(&self, index: usize) -> u64 {
        self.calls.as_ref().map_or(index as u64, |calls| calls[index])
    }
}
