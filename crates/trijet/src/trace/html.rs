//! The page of a run: one file of HTML that needs no network, no server and no other file.
//!
//! From the top it shows the verdict, a bar per engine, the largest losses, the warnings, the
//! timeline, the hazards, and the provenance. All but the timeline is plain markup and works
//! without a script. The figures are those of the summary, which a terminal prints too; this module
//! computes only what drawing needs. All text is escaped, and equal pages give equal bytes.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

mod bars;
mod data;
mod hazards;
mod look;
mod markup;
mod page;
mod sections;
mod still;

pub use page::{HazardNote, Page};

use crate::base::dag::Node;
use crate::trace::summary::Summary;
use markup::escaped;

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
/// The parts of the script, in order.
const SCRIPTS: [&str; 4] = [
    include_str!("html/data.js"),
    include_str!("html/draw.js"),
    include_str!("html/words.js"),
    include_str!("html/page.js"),
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
