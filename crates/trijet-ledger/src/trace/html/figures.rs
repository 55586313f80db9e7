//! The figures of a page about a traced program: bars, findings and tables. The caller computes
//! them.
#![forbid(unsafe_code)]

use super::look::Look;
use crate::base::units::Nanos;
use std::ops::Range;

/// How a part of a bar looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartLook {
    /// Work of an engine.
    Busy,
    /// Work of an engine while no other engine works.
    Exposed,
    /// Idle, while the host waited.
    Waiting,
    /// Idle, while the host did something else.
    Host,
    /// Idle, for another reason.
    Other,
}

/// A part of a bar.
#[derive(Debug, Clone)]
pub struct BarPart {
    /// How the part looks.
    pub look: PartLook,
    /// The meaning of the part.
    pub label: String,
    /// The length of the part.
    pub time: Nanos,
}

/// A bar: a time and its parts.
#[derive(Debug, Clone)]
pub struct Bar {
    /// The name of the bar.
    pub name: String,
    /// Whether this engine limits the run.
    pub limits: bool,
    /// The parts, which sum to the whole.
    pub parts: Vec<BarPart>,
}

/// A finding.
#[derive(Debug, Clone)]
pub struct Note {
    /// The cost of the finding.
    pub cost: Nanos,
    /// The name of the rule.
    pub key: String,
    /// The finding in words.
    pub text: String,
    /// The remedy, in words.
    pub fix: String,
    /// The times at which to look, on the clock of the timeline.
    pub places: Vec<Range<u64>>,
}

/// A table. The first column is a text, the others are numbers.
#[derive(Debug, Clone, Default)]
pub struct FigureTable {
    /// The names of the columns.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// The figures of a device of a process, or of a process without a device.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Sentences below the heading.
    pub lines: Vec<String>,
    /// A bar for each engine.
    pub bars: Vec<Bar>,
    /// The findings, the most costly first.
    pub notes: Vec<Note>,
    /// The kernels.
    pub table: FigureTable,
}

impl PartLook {
    pub(super) fn look(self) -> Look {
        match self {
            Self::Busy => Look::Busy,
            Self::Exposed => Look::Exposed,
            Self::Waiting => Look::Waiting,
            Self::Host => Look::Host,
            Self::Other => Look::Other,
        }
    }
}
