//! The page of a traced program: its processes and devices. The caller computes the figures.
#![forbid(unsafe_code)]

use super::bars;
use super::figures::Section;
use super::frame::filled;
use super::item::{Sheet, TimelineTrack, TrackKind};
use super::markup::{escaped, figures, heading, none};
use super::sections;
use super::sheet::More;
use super::still;
use std::borrow::Cow;
use std::fmt::Write;

/// The page of a traced program.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramPage {
    /// The title of the page.
    pub(crate) title: String,
    /// The result in one sentence.
    pub(crate) verdict: String,
    /// Facts that the reader must know about the trace, for example that a part of it is missing.
    pub(crate) remarks: Vec<String>,
    /// The figures of the ranks of the program, if it has any.
    pub(crate) ranks: Vec<Section>,
    /// The figures of each device, and tables about processes.
    pub(crate) sections: Vec<Section>,
    /// The provenance of the page, as names and values.
    pub(crate) provenance: Vec<(String, String)>,
    /// The timeline. Its times begin near 0.
    pub(crate) timeline: Sheet,
    /// A sentence that states how to get a page with more detail. The page shows the sentence if
    /// operations were merged.
    pub(crate) detail: String,
}

impl ProgramPage {
    /// The page as HTML.
    pub(crate) fn render(&self) -> String {
        let members = Cow::Borrowed(",\"sites\":[],\"causes\":[],\"hazards\":[],\"byName\":true");
        let mut data = self.timeline.data(&More { members, ..More::default() });
        if let Some(note) = &mut data.note {
            *note = format!("{note}. {}", self.detail);
        }
        filled(&data, |name| match name {
            "title" => escaped(&self.title),
            "parts" => String::new(),
            "verdict" => sections::verdict(&self.verdict, self.remarks.iter().cloned()),
            "ranks" => self.ranks(),
            "engines" => self.engines(),
            "lost" => "Remarks by gain or cost (costs may overlap)".to_owned(),
            "losses" => self.habits(),
            "more" => "Kernels and named ranges".to_owned(),
            "remarks" => self.kernels(),
            "still" => still::of_sheet(&self.timeline),
            "hazards" => none(
                "This trace was not checked for hazards: it does not have the accesses of kernels.",
            ),
            "provenance" => sections::provenance(&self.provenance),
            other => unreachable!("the page has no part {other}"),
        })
    }

    fn ranks(&self) -> String {
        if self.ranks.is_empty() {
            return String::new();
        }
        let mut text =
            String::from("<section aria-labelledby=\"h-ranks\">\n<h2 id=\"h-ranks\">Ranks</h2>\n");
        for section in &self.ranks {
            text += &Self::figures(section);
            text += &Self::table(section);
        }
        text + "\n</section>\n"
    }

    /// The heading, the bars and the sentences of a section.
    fn figures(section: &Section) -> String {
        let mut text = heading(&section.title);
        if !section.bars.is_empty() {
            let bars: String = section.bars.iter().map(bars::drawn).collect();
            write!(text, "<div class=\"bars\">{bars}</div>").expect("writing to a string");
        }
        text + &figures(&section.lines)
    }

    fn table(section: &Section) -> String {
        let mut text = String::from("<div class=\"wide\"><table><thead><tr>");
        for cell in &section.table.head {
            write!(text, "<th>{}</th>", escaped(cell)).expect("writing to a string");
        }
        text.push_str("</tr></thead><tbody>");
        for row in &section.table.rows {
            text.push_str("<tr>");
            for cell in row {
                write!(text, "<td>{}</td>", escaped(cell)).expect("writing to a string");
            }
            text.push_str("</tr>");
        }
        text + "</tbody></table></div>"
    }

    fn engines(&self) -> String {
        let has_figures = |one: &&Section| !one.bars.is_empty() || !one.lines.is_empty();
        let text: String = self.sections.iter().filter(has_figures).map(Self::figures).collect();
        if text.is_empty() { none("No operation on a GPU was traced.") } else { text }
    }

    fn habits(&self) -> String {
        let mut text = String::new();
        for section in self.sections.iter().filter(|section| !section.notes.is_empty()) {
            text += &heading(&section.title);
            text += &sections::list(section.notes.iter().cloned());
        }
        if text.is_empty() { none("None was found.") } else { text }
    }

    fn kernels(&self) -> String {
        let mut text = String::new();
        for section in self.sections.iter().filter(|section| !section.table.rows.is_empty()) {
            text += &heading(&section.title);
            text += &Self::table(section);
        }
        if text.is_empty() { none("No kernel was traced.") } else { text }
    }
}

impl Sheet {
    /// The operations of each engine, for a picture: the name of the track, and the time and colour
    /// of each operation.
    pub(super) fn engines(&self) -> Vec<still::StillEngine> {
        let wanted = |track: &&TimelineTrack| track.kind == TrackKind::Engine;
        let mut rows: Vec<Option<usize>> = Vec::new();
        let mut engines: Vec<still::StillEngine> = Vec::new();
        for track in &self.tracks {
            rows.push(wanted(&track).then_some(engines.len()));
            if wanted(&track) {
                engines.push((format!("{} {}", track.group, track.name), Vec::new()));
            }
        }
        for item in &self.items {
            let track = usize::try_from(item.engine).unwrap_or(usize::MAX);
            let row = rows.get(track).copied().flatten();
            if let (Some(row), Some((begin, end))) = (row, item.work) {
                engines[row].1.push((begin, end, u64::from(item.label)));
            }
        }
        engines
    }
}
