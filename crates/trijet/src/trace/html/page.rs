//! What a page says.
#![forbid(unsafe_code)]

use crate::base::ledger::Op;
use crate::trace::summary::Summary;
use std::borrow::Cow;

/// A finding of the checker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HazardNote {
    /// The finding, in full.
    pub text: String,
    /// The index of the first operation, if there are two.
    pub first: Option<usize>,
    /// The index of the other one, which the missing edge would lead to.
    pub second: usize,
}

/// What a page says. Sections without content say that there is none.
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
    /// The figures; `None` when nobody computed them.
    pub summary: Option<Summary>,
    /// Findings, when somebody looked for any; how many of them are hazards says the summary.
    pub hazards: Vec<HazardNote>,
    /// Where it comes from: names and values.
    pub provenance: Vec<(String, String)>,
    /// The record, with the times that the summary is about.
    pub ops: Cow<'a, [Op]>,
}
