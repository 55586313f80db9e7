//! The page of a run: one file of HTML that needs no network, no server and no other file.
//!
//! From the top it shows the verdict, a bar per engine, the largest losses, the warnings, the
//! timeline, the hazards, and the provenance. All but the timeline is plain markup and works
//! without a script. The figures are those of the summary, which a terminal prints too; this module
//! computes only what drawing needs. All text is escaped, and equal pages give equal bytes.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

mod bars;
mod columns;
mod data;
mod hazards;
mod look;
mod markup;
mod merge;
mod page;
mod program;
mod sections;
mod sheet;
mod still;

pub use page::{HazardNote, Page};
pub use program::{Bar, Note, Part, PartLook, ProgramPage, Section, Table};
pub use sheet::{Item, NO_TRACK, Sheet, Track, TrackKind};

use crate::base::dag::Node;
use crate::trace::summary::Summary;
use markup::escaped;
use sheet::Data;
use std::borrow::Cow;

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
/// The parts of the script, in order.
const SCRIPTS: [&str; 6] = [
    "window.timelineReady = (async () => {\n'use strict';\n",
    include_str!("html/data.js"),
    include_str!("html/draw.js"),
    include_str!("html/words.js"),
    include_str!("html/page.js"),
    "})();\n",
];

impl Page<'_> {
    /// The page as HTML.
    ///
    /// # Panics
    /// If the summary or a finding has an index of no operation.
    #[must_use]
    pub fn render(&self) -> String {
        let known = |index: usize| index < self.ops.len();
        let notes =
            self.hazards.iter().flat_map(|note| note.first.into_iter().chain([note.second]));
        let named = self.summary.iter().flat_map(named_by).chain(notes);
        assert!(
            { named }.all(known),
            "the summary or a finding names an operation that the trace does not have"
        );
        let data = data::data(self);
        filled(&data, |name| match name {
            "title" => escaped(&self.title),
            "verdict" => sections::verdict(self),
            "engines" => bars::engines(self),
            "lost" => "Largest losses".to_owned(),
            "losses" => sections::losses(self),
            "remarks" => "Warnings".to_owned(),
            "warnings" => sections::warnings(self),
            "still" => still::picture(self),
            "hazards" => hazards::list(self),
            "provenance" => sections::provenance(&self.provenance),
            other => unreachable!("the page has no part {other}"),
        })
    }
}

/// The page with each mark replaced: by what all pages share, or by what `part` gives for its name.
fn filled(data: &Data, part: impl Fn(&str) -> String) -> String {
    let mut page = String::new();
    let mut rest = PAGE;
    while let Some((before, marked)) = rest.split_once("{{") {
        let (name, after) = marked.split_once("}}").expect("the page closes its marks");
        page.push_str(before);
        page.push_str(&shared(name, data).unwrap_or_else(|| signed(&part(name)).into()));
        rest = after;
    }
    page.push_str(rest);
    page
}

/// The text with the sign of microseconds, which a page can show and a terminal may not.
fn signed(text: &str) -> String {
    let mut signed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" us") {
        let (before, after) = (&rest[..at], &rest[at + 3..]);
        let is_time = before.ends_with(|c: char| c.is_ascii_digit())
            && !after.starts_with(|c: char| c.is_alphanumeric());
        signed.push_str(before);
        signed.push_str(if is_time { " \u{b5}s" } else { " us" });
        rest = after;
    }
    signed + rest
}

/// The parts that all pages share.
fn shared<'a>(name: &str, data: &'a Data) -> Option<Cow<'a, str>> {
    Some(match name {
        "style" => STYLE.into(),
        "note" => {
            let note = data.note.as_deref();
            note.map_or_else(String::new, |note| signed(&markup::none(&escaped(note)))).into()
        }
        "data" => data.json.as_str().into(),
        "columns" => data.columns.as_str().into(),
        "script" => SCRIPTS.concat().into(),
        _ => return None,
    })
}

/// The indices of all operations that a summary names.
fn named_by(summary: &Summary) -> Vec<usize> {
    let gaps = summary.gaps.iter().filter_map(|gap| gap.op);
    let losses = summary.losses.iter().flat_map(|loss| loss.ops.iter().copied());
    let lints = summary.lints.iter().flat_map(|lint| lint.ops.iter().copied());
    let path = summary.critical.nodes().into_iter().map(Node::op);
    let last_slack = summary.slack.len().checked_sub(1);
    gaps.chain(losses).chain(lints).chain(path).chain(last_slack).collect()
}

#[cfg(test)]
mod tests;
