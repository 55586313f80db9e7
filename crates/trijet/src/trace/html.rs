//! A run as one page of HTML that needs nothing else: no network, no server, no other file.
//!
//! The page is read from the top: the verdict, a bar per engine, the largest losses, the timeline,
//! hazards, and where all this comes from. All but the timeline is plain markup and works without a
//! script. What the page says is given from outside; only what drawing needs is computed here. Text
//! is escaped, wherever it comes from, and equal pages give equal bytes.
#![forbid(unsafe_code)]

mod data;
mod sections;
mod still;

use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op};
use crate::base::units::Nanos;
use std::ops::Range;

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
/// In this order they make one script.
const SCRIPTS: [&str; 4] = [
    include_str!("html/data.js"),
    include_str!("html/draw.js"),
    include_str!("html/words.js"),
    include_str!("html/page.js"),
];

/// How an engine spent the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// The engine's name.
    pub name: String,
    /// What it did, and how long: `busy`, `exposed`, or idle and why. Names that contain a word for
    /// a cause (fill, drain, waiting, host, launch) are drawn like the gaps of that cause.
    pub parts: Vec<(String, Nanos)>,
}

/// Time that the run could have saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// How much.
    pub lost: Nanos,
    /// Why.
    pub cause: String,
    /// What to do about it.
    pub fix: String,
    /// Where to look, in nanoseconds on the record's clock.
    pub window: Range<u64>,
}

/// A finding about two operations without order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HazardNote {
    /// The finding, in full.
    pub text: String,
    /// The index of the first operation.
    pub first: usize,
    /// The index of the second one, which the missing edge would lead to.
    pub second: usize,
}

/// A time in which an engine did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Whose engine.
    pub device: DeviceId,
    /// Which.
    pub engine: Engine,
    /// When, in nanoseconds on the record's clock.
    pub window: Range<u64>,
    /// Why, in the words of [`Bar::parts`].
    pub cause: String,
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
    /// The run in a sentence.
    pub verdict: String,
    /// A bar for each engine.
    pub engines: Vec<Bar>,
    /// Which of them limits the run.
    pub limiting: Option<usize>,
    /// The losses, the largest first; the page shows three.
    pub losses: Vec<Loss>,
    /// Idle times of engines, to be tinted by cause. They do not overlap in an engine.
    pub gaps: Vec<Gap>,
    /// Findings; `None` when nobody looked for any.
    pub hazards: Option<Vec<HazardNote>>,
    /// Where it comes from: names and values.
    pub provenance: Vec<(String, String)>,
    /// The operations of the critical path, by index.
    pub critical: Vec<usize>,
    /// The record.
    pub ops: &'a [Op],
}

impl Page<'_> {
    /// The page.
    ///
    /// # Panics
    /// When the critical path or a hazard names an operation that the record does not have.
    #[must_use]
    pub fn render(&self) -> String {
        let pairs = self.hazards.iter().flatten().flat_map(|note| [note.first, note.second]);
        let mut named = self.critical.iter().copied().chain(pairs);
        assert!(named.all(|index| index < self.ops.len()), "an operation is not in the record");
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
            "engines" => sections::engines(self),
            "losses" => sections::losses(self),
            "still" => still::picture(self),
            "hazards" => sections::hazards(self),
            "provenance" => sections::provenance(self),
            "data" => data::json(self),
            "script" => format!("(() => {{\n'use strict';\n{}}})();\n", SCRIPTS.concat()),
            other => unreachable!("the page has no part {other}"),
        }
    }
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

/// Classes of time, the numbers of which the script knows: `page.css` and `draw.js`.
const CAUSES: [(&str, &str); 7] = [
    ("busy", "busy"),
    ("expos", "exposed"),
    ("fill", "fill"),
    ("drain", "drain"),
    ("wait", "waiting"),
    ("host", "host"),
    ("launch", "launch"),
];

/// The class of a cause, by the first word that it contains; the last is for all others.
fn cause(words: &str) -> usize {
    let words = words.to_lowercase();
    if words.contains("depend") {
        return 4;
    }
    CAUSES.iter().position(|(word, _)| words.contains(word)).unwrap_or(CAUSES.len())
}

/// The name of a class.
fn cause_class(class: usize) -> &'static str {
    CAUSES.get(class).map_or("other", |(_, name)| name)
}

#[cfg(test)]
mod tests;
