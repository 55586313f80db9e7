//! The graphs of regions. The operations of a region are recorded each time. If the operations
//! differ from an earlier region only in values, the graph of the earlier region is changed in
//! place. Otherwise a new graph is made.
#![forbid(unsafe_code)]

use super::declared::StreamBody;
use super::region::{Member, RegionIssue};
use crate::base::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, Recording, Renewed};
use crate::log::calling;
use crate::memory::Uses;
use crate::stream::{Device, Stream};
use std::collections::VecDeque;

/// Maximum number of graphs that are kept. If there are more, the least recently used graph is
/// dropped.
const KEPT: usize = 16;

/// The outcome of a task of a region.
pub(super) enum RegionOutcome {
    Returned(Result<()>),
    /// The function did not run. The result is `Err` with the reason. The result is `Ok` if the
    /// reason is that an earlier task of the region has no result.
    Skipped(StreamBody, Result<()>),
}

/// The graphs of regions, each with the key of its region (`RegionIssue::key`). The last graph was
/// used most recently.
#[derive(Debug, Default)]
pub(super) struct Templates(VecDeque<(u64, Template)>);

/// A graph, and the recording from which it is made.
#[derive(Debug)]
struct Template {
    recording: Recording,
    /// One stream for each task, so that tasks are ordered only by their uses of memory.
    streams: Vec<Stream>,
    graph: Option<Graph>,
}

impl Templates {
    /// Records the tasks of a region, and launches their graph. `run` calls the function of a task.
    pub(super) fn launch(
        &mut self,
        device: &Device,
        issue: RegionIssue,
        run: &dyn Fn(StreamBody, &Stream) -> Result<()>,
    ) -> (Vec<RegionOutcome>, Result<Renewed>) {
        let known = self.0.iter().position(|(key, _)| *key == issue.key);
        let (key, mut template) = match known.and_then(|at| self.0.remove(at)) {
            Some(found) => found,
            None => (issue.key, Template::new(device)),
        };
        let (outcomes, launched) = template.launch(issue, run);
        if launched.is_ok() {
            self.0.push_back((key, template));
            if self.0.len() > KEPT {
                self.0.pop_front();
            }
        }
        (outcomes, launched)
    }
}

impl Template {
    fn new(device: &Device) -> Self {
        let recording = Recording::continuing(device, None, true);
        Self { recording, streams: Vec::new(), graph: None }
    }

    fn launch(
        &mut self,
        issue: RegionIssue,
        run: &dyn Fn(StreamBody, &Stream) -> Result<()>,
    ) -> (Vec<RegionOutcome>, Result<Renewed>) {
        let RegionIssue { members, data, place, stream, .. } = issue;
        let mut outcomes = Vec::with_capacity(members.len());
        if let Err(error) = self.open_streams(members.len()) {
            let fail = |member: Member| RegionOutcome::Skipped(member.body, Err(error.again()));
            return (members.into_iter().map(fail).collect(), Err(error));
        }
        let Self { recording, streams, graph } = self;
        let record = || {
            let mut views = data.iter().map(|one| one.datum.read_all(place));
            let named = views.try_for_each(|view| recording.argument(&view));
            record(members, streams, named, run, &mut outcomes);
        };
        let made = match graph {
            None => {
                recording.discard();
                record();
                recording.graph().map(|made| {
                    *graph = Some(made);
                    Renewed::Anew
                })
            }
            Some(graph) => recording.renew(graph, record),
        };
        let launched = made.and_then(|launched| {
            let arguments = data.iter().fold(Uses::new(), |all, one| {
                if one.writes {
                    all.write(one.datum.write_all(place))
                } else {
                    all.read(one.datum.read_all(place))
                }
            });
            match graph {
                Some(graph) => stream.launch_graph(graph, arguments).map(|()| launched),
                None => Ok(launched),
            }
        });
        (outcomes, launched)
    }

    fn open_streams(&mut self, count: usize) -> Result<()> {
        while self.streams.len() < count {
            self.streams.push(self.recording.stream()?);
        }
        Ok(())
    }
}

/// Runs the function of each task, on the stream of the task.
fn record(
    members: Vec<Member>,
    streams: &[Stream],
    named: Result<()>,
    run: &dyn Fn(StreamBody, &Stream) -> Result<()>,
    outcomes: &mut Vec<RegionOutcome>,
) {
    for (member, stream) in members.into_iter().zip(streams) {
        let Member { body, reads, .. } = member;
        let failed = |at: &usize| !matches!(outcomes[*at], RegionOutcome::Returned(Ok(())));
        outcomes.push(match &named {
            Err(error) => RegionOutcome::Skipped(body, Err(error.again())),
            Ok(()) if reads.iter().any(failed) => RegionOutcome::Skipped(body, Ok(())),
            Ok(()) => {
                RegionOutcome::Returned(calling::recorded(|| run(body, stream)).map_err(explained))
            }
        });
    }
}

/// If the error is about an operation that a graph cannot have, adds to its text that the task is
/// in a region.
fn explained(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported | ErrorKind::Capturing => error.context(
            "the task is in a region, whose operations become a graph; submit it outside of the region",
        ),
        _ => error,
    }
}
