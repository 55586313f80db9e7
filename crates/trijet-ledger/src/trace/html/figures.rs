//! The figures that pages draw: bars, lists of times with remedies, and tables.
#![forbid(unsafe_code)]

use super::look::Look;
use crate::base::units::Nanos;
use std::ops::Range;

/// A part of a bar.
#[derive(Debug, Clone)]
pub(crate) struct BarPart {
    /// The look of the part.
    pub(crate) look: Look,
    /// The meaning of the part.
    pub(crate) label: String,
    /// The length of the part.
    pub(crate) time: Nanos,
}

impl BarPart {
    pub(crate) fn new(look: Look, label: impl Into<String>, time: Nanos) -> Self {
        Self { look, label: label.into(), time }
    }
}

/// A bar: a time and its parts.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// The name of the bar.
    pub(crate) name: String,
    /// Whether the engine of the bar limits the run.
    pub(crate) limits: bool,
    /// The parts of the bar. Their lengths sum to the length of the bar.
    pub(crate) parts: Vec<BarPart>,
}

/// The words after the time of a [`Note`].
#[derive(Debug, Clone)]
pub(crate) enum NoteName {
    /// The name of a rule.
    Rule(&'static str),
    /// The share of the run that the time takes, as text.
    Share(String),
}

/// A link from a [`Note`] to a place of the timeline.
#[derive(Debug, Clone)]
pub(crate) struct NoteLink {
    /// The position in the timeline, as the script of the page reads it.
    pub(crate) target: String,
    /// The text of the link.
    pub(crate) words: String,
}

impl NoteLink {
    /// A link to a span of time.
    pub(crate) fn to_time(span: &Range<u64>, words: String) -> Self {
        Self { target: format!("#t={},{}", span.start, span.end), words }
    }
}

/// An entry of a list of times that a change would save. The entry is a loss or a remark.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    /// The time that the change would save, as text.
    pub(crate) cost: String,
    /// The words after that time.
    pub(crate) name: NoteName,
    /// The entry in words.
    pub(crate) text: String,
    /// The remedy in words; `None` if the reader cannot apply it.
    pub(crate) fix: Option<&'static str>,
    /// Links to places of the timeline.
    pub(crate) links: Vec<NoteLink>,
}

/// A table. The first column is a text, the others are numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct FigureTable {
    /// The names of the columns.
    pub(crate) head: Vec<String>,
    /// The rows of the table, from top to bottom.
    pub(crate) rows: Vec<Vec<String>>,
}

/// The figures of a device of a process, or of a process without a device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    /// The heading.
    pub(crate) title: String,
    /// Sentences below the heading.
    pub(crate) lines: Vec<String>,
    /// A bar for each engine.
    pub(crate) bars: Vec<Bar>,
    /// The remarks, the most costly first.
    pub(crate) notes: Vec<Note>,
    /// The table of the kernels.
    pub(crate) table: FigureTable,
}
