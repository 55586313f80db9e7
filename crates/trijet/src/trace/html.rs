//! A run as one page of HTML that needs nothing else: no network, no server, no other file.
//!
//! The page is read from the top: the verdict, a bar per engine, the largest losses, remarks, the
//! timeline, hazards, and where all this comes from. All but the timeline is plain markup and works
//! without a script. Every figure is the summary's, which a terminal prints too; only what drawing
//! needs is computed here. Text is escaped, wherever it comes from, and equal pages give equal bytes.
#![forbid(unsafe_code)]

mod bars;
mod data;
mod hazards;
mod sections;
mod still;

use crate::base::dag::Node;
use crate::base::ledger::Op;
use crate::trace::bubble::Cause;
use crate::trace::critical::Category;
use crate::trace::summary::Summary;
use std::borrow::Cow;

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
/// In this order they make one script.
const SCRIPTS: [&str; 4] = [
    include_str!("html/data.js"),
    include_str!("html/draw.js"),
    include_str!("html/words.js"),
    include_str!("html/page.js"),
];

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

impl Page<'_> {
    /// The page.
    ///
    /// # Panics
    /// When the summary or a finding names an operation that the record does not have.
    #[must_use]
    pub fn render(&self) -> String {
        let known = |index: usize| index < self.ops.len();
        let notes =
            self.hazards.iter().flat_map(|note| note.first.into_iter().chain([note.second]));
        let named = self.summary.iter().flat_map(named_by).chain(notes);
        assert!({ named }.all(known), "an operation is not in the record");
        let mut page = String::new();
        let mut rest = PAGE;
        while let Some((before, marked)) = rest.split_once("{{") {
            let (name, after) = marked.split_once("}}").expect("the page closes its marks");
            page.push_str(before);
            page.push_str(&self.part(name));
            rest = after;
        }
        page.push_str(rest);
        page
    }

    fn part(&self, name: &str) -> String {
        match name {
            "title" => escaped(&self.title),
            "style" => STYLE.to_owned(),
            "verdict" => sections::verdict(self),
            "engines" => bars::engines(self),
            "losses" => sections::losses(self),
            "warnings" => sections::warnings(self),
            "still" => still::picture(self),
            "hazards" => hazards::list(self),
            "provenance" => sections::provenance(self),
            "data" => data::json(self),
            "script" => format!("(() => {{\n'use strict';\n{}}})();\n", SCRIPTS.concat()),
            other => unreachable!("the page has no part {other}"),
        }
    }
}

/// Every record that a summary names.
fn named_by(summary: &Summary) -> Vec<usize> {
    let gaps = summary.gaps.iter().filter_map(|gap| gap.op);
    let losses = summary.losses.iter().flat_map(|loss| loss.ops.iter().copied());
    let lints = summary.lints.iter().flat_map(|lint| lint.ops.iter().copied());
    let path = summary.critical.nodes().into_iter().map(Node::op);
    let last_slack = summary.slack.len().checked_sub(1);
    gaps.chain(losses).chain(lints).chain(path).chain(last_slack).collect()
}

/// Text that may stand between tags and in quoted attributes.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML has no way to write these.
            '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// How a time looks: a class of `page.css`, which `draw.js` knows too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Busy,
    Exposed,
    Fill,
    Drain,
    Waiting,
    Host,
    Launch,
    Other,
}

impl Look {
    fn of(cause: Cause) -> Self {
        match cause {
            Cause::Fill => Self::Fill,
            Cause::Drain => Self::Drain,
            Cause::HostLate(_) => Self::Host,
            Cause::Dependency(_) => Self::Waiting,
            Cause::Launch => Self::Launch,
            Cause::Resource | Cause::Unknown => Self::Other,
        }
    }

    fn of_path(category: Category) -> Self {
        match category {
            Category::Engine(_) => Self::Busy,
            Category::Enqueue
            | Category::Sync
            | Category::Alloc
            | Category::Copy
            | Category::Load
            | Category::User => Self::Host,
            Category::Launch => Self::Launch,
            Category::Unknown => Self::Other,
            Category::Start => Self::Fill,
            Category::Tail => Self::Drain,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Exposed => "exposed",
            Self::Fill => "fill",
            Self::Drain => "drain",
            Self::Waiting => "waiting",
            Self::Host => "host",
            Self::Launch => "launch",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests;
