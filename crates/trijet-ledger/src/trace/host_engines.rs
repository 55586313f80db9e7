//! The engines of the host in a job over files: the reader, the writer, and the synchronization of
//! the output with its disk. A trace has no operations for the work of these engines, so the job
//! supplies the times.
#![forbid(unsafe_code)]

use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::metrics::DeviceEngine;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// An engine of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostEngine {
    /// The threads that read the input.
    Reader,
    /// The threads that write the output.
    Writer,
    /// Synchronizing the output with its disk and renaming it, after the last row.
    Sync,
}

impl HostEngine {
    /// All engines, in the order in which data pass through them.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Writer, Self::Sync];

    /// The name: `reader`, `writer` or `sync`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for HostEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The busy times of an engine of the host, on the clock of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostWorked {
    /// The engine that these times belong to.
    pub engine: HostEngine,
    /// The times in which the engine worked.
    pub busy: Union,
    /// The times in which the engine worked while the enqueuing thread waited for it.
    pub waited_for: Union,
}

/// The figures of an engine of the host.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HostSummary {
    /// The engine that these figures belong to.
    pub engine: HostEngine,
    /// The time in which the engine worked.
    pub busy: Nanos,
    /// `busy` as a share of the window.
    pub share: f64,
    /// The time in which the engine worked and no other engine of the host or of a device did.
    pub exposed: Nanos,
    /// The times in which the engine worked.
    pub spans: Union,
}

impl fmt::Display for HostSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, busy, share, exposed, .. } = self;
        let share = share * 100.0;
        write!(f, "{engine:>15} {busy:>10} {share:>5.1} % {:>10} {exposed:>10}", "-")
    }
}

/// The figures of the engines of the host. `busy` has the busy times of the engines of devices.
pub(super) fn summaries(
    host: &[HostWorked],
    busy: &BTreeMap<DeviceEngine, Union>,
    window: &Range<u64>,
) -> Vec<HostSummary> {
    let figures = |one: &HostWorked| {
        let others = host.iter().filter(|other| other.engine != one.engine);
        let others = Union::all(others.map(|other| &other.busy).chain(busy.values()));
        let length = one.busy.length();
        HostSummary {
            engine: one.engine,
            busy: length,
            share: length.0 as f64 / (window.end - window.start).max(1) as f64,
            exposed: one.busy.minus(&others).length(),
            spans: one.busy.clone(),
        }
    };
    host.iter().map(figures).collect()
}
