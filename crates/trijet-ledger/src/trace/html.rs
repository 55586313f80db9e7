//! The page of a run: one file of HTML that needs no network, no server and no other file.
//!
//! From the top, the page shows the verdict, a bar per engine, the largest losses, the remarks, the
//! timeline, the hazards, and the provenance. All parts except the timeline are plain markup and
//! work without a script. The figures come from the summary, which a terminal prints too. This
//! module computes only the values that drawing needs. All text is escaped, and equal pages give
//! equal bytes.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

mod bars;
mod columns;
mod data;
mod figures;
mod frame;
mod hazards;
mod item;
mod look;
mod markup;
mod merge;
mod page;
mod program;
mod sections;
mod sheet;
mod still;

pub(crate) use columns::{ColumnCode, Columns};
pub(crate) use figures::{Bar, BarPart, FigureTable, Note, NoteLink, NoteName, Section};
pub use frame::SHARED_STYLE;
pub(crate) use frame::{UNPACK, with_parts};
pub(crate) use item::{DistinctWords, Item, NO_TRACK, Sheet, TimelineTrack, TrackKind};
pub(crate) use look::Look;
pub(crate) use markup::escaped;
pub use page::{HazardNote, Page};
pub(crate) use program::ProgramPage;

use crate::base::dag::DagNode;
use crate::trace::summary::Summary;
use frame::filled;

impl Page<'_> {
    /// The page as HTML.
    ///
    /// # Panics
    /// If the summary or a finding has an index without an operation.
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
            // Nothing was measured.
            "parts" if self.summary.is_none() => " class=\"few\"".to_owned(),
            "parts" => String::new(),
            "verdict" => sections::of_run(self),
            "ranks" => String::new(),
            "engines" => bars::engines(self),
            "lost" => "Largest losses of an engine of the device".to_owned(),
            "losses" => sections::losses(self),
            "more" => "Remarks".to_owned(),
            "remarks" => sections::remarks(self),
            "still" => still::picture(self),
            "hazards" => hazards::list(self),
            "provenance" => sections::provenance(&self.provenance),
            other => unreachable!("the page has no part {other}"),
        })
    }
}

/// The indices of all operations that a summary names.
fn named_by(summary: &Summary) -> Vec<usize> {
    let gaps = summary.gaps.iter().filter_map(|gap| gap.op);
    let losses = summary.losses.iter().flat_map(|loss| loss.ops.iter().copied());
    let lints = summary.lints.iter().flat_map(|lint| lint.ops.iter().copied());
    let path = summary.critical.nodes().into_iter().map(DagNode::op);
    let last_slack = summary.slack.len().checked_sub(1);
    gaps.chain(losses).chain(lints).chain(path).chain(last_slack).collect()
}

#[cfg(test)]
mod tests;
