//! The runs of a prepared pipeline as launches of one graph.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::enqueue::submit;
use super::spans::Spans;
use super::streams::Streams;
use crate::base::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, Recording};
use crate::log::calling;
use crate::memory::{Uses, View, ViewMut};
use crate::pipeline::describe::replay::{Replay, Replayed};
use crate::pipeline::describe::sharing::Sharing;
use crate::pipeline::describe::stage::Stages;
use crate::pipeline::plan::schedule::{Schedule, turn};
use crate::stream::Device;

/// The minimum number of launches in a run for which a graph is worthwhile.
const LAUNCHES_MIN: usize = 8;
/// Maximum number of chunks of a recorded run. A recording keeps every operation. A run with more
/// chunks is so long that the host stays ahead of the device without a graph.
const CHUNKS_MAX: usize = 1024;
/// The minimum number of launches for each copy or fill. Copies cost the same in a graph and in a
/// stream.
const LAUNCHES_FOR_EACH: usize = 2;

/// The graph of a prepared pipeline, or the state without a graph.
pub(super) enum Replayer {
    /// No run was made yet. The first run is an ordinary run, and the second run is recorded.
    First,
    Second,
    Fixed(Graph),
    Patched {
        recorder: Box<Recorder>,
        graph: Graph,
    },
    Off(String),
}

/// The memory that a run uses in addition to the slots.
pub(super) struct Ends<'r, 'a> {
    pub(super) input: View<'a, u8>,
    pub(super) output: ViewMut<'a, u8>,
    /// Memory that the stages read in addition to their input.
    pub(super) reads: &'r [View<'r, u8>],
}

/// The reason why a run is not a launch of a graph.
pub(super) enum Stop {
    /// The run has failed with this error.
    Failed(Error),
    /// A graph is not possible for this reason. The run can be made without a graph.
    NoGraph(Error),
}

impl Stop {
    pub(super) fn into_error(self) -> Error {
        let (Self::Failed(error) | Self::NoGraph(error)) = self;
        error
    }
}

/// The reason to stop after an error of the graph. A run without a graph would return the same
/// error only if the device is lost.
fn of_graph(error: Error) -> Stop {
    if error.is_loss() { Stop::Failed(error) } else { Stop::NoGraph(error) }
}

/// Streams whose operations are recorded repeatedly.
pub(super) struct Recorder {
    recording: Recording,
    streams: Streams,
}

impl Recorder {
    /// Opens the streams. In an automatic replay, the streams refuse allocations: a stage might
    /// keep the allocated buffer and use it in a run without a graph.
    pub(super) fn new(
        device: &Device,
        sharing: Sharing,
        resources: &Resources,
        wish: Replay,
    ) -> Result<Self> {
        let urgent = device.info().priorities.1;
        let priority = (sharing == Sharing::Latency).then_some(urgent);
        let recording = Recording::continuing(device, priority, wish == Replay::Fixed);
        let streams = resources.streams.recorded(&recording)?;
        Ok(Self { recording, streams })
    }

    /// Records the operations of a run.
    fn record(
        &self,
        resources: &mut Resources,
        stages: &Stages<'_>,
        ends: &mut Ends<'_, '_>,
    ) -> std::result::Result<(), Stop> {
        let (g, Ends { input, output, reads }) = (&self.recording, ends);
        let Resources { plan, slots, .. } = resources;
        let mut buffers = slots.iter().flat_map(|slot| &slot.buffers);
        g.argument(input)
            .and_then(|()| g.argument(output))
            .and_then(|()| reads.iter().try_for_each(|view| g.argument(view)))
            .and_then(|()| buffers.try_for_each(|buffer| g.argument(buffer)))
            .map_err(of_graph)?;
        let spans = Spans(stages);
        let recorded = calling::recorded(|| {
            plan.chunks.iter().try_for_each(|chunk| {
                let slot = turn(chunk.index, slots.len());
                let x = input.slice(spans.input(chunk));
                let y = output.reborrow().slice(spans.output(chunk));
                submit(chunk, &self.streams, &mut slots[slot], stages, x, y)
            })
        });
        // If the recording has refused no operation, an ordinary run would return the same error.
        recorded.map_err(|error| {
            let is_refused = g.has_refused() || error.kind() == ErrorKind::Capturing;
            if is_refused { Stop::NoGraph(error) } else { Stop::Failed(error) }
        })
    }

    /// Records a run, and makes a graph of the recording. In an automatic replay, returns an error
    /// if a graph would save no time.
    pub(super) fn graph(
        &self,
        wish: Replay,
        resources: &mut Resources,
        stages: &Stages<'_>,
        ends: &mut Ends<'_, '_>,
    ) -> std::result::Result<Graph, Stop> {
        self.recording.discard();
        self.record(resources, stages, ends)?;
        if wish == Replay::Automatic {
            pays(self.recording.counts()).map_err(Stop::NoGraph)?;
        }
        self.recording.graph().map_err(of_graph)
    }
}

impl Replayer {
    /// The state before the first run.
    pub(super) fn new(wish: Replay, sharing: Sharing, schedule: Schedule) -> Self {
        match (wish, check(sharing, schedule)) {
            (Replay::Never, _) => Self::Off("`Replay::Never` was set".to_owned()),
            (Replay::Automatic | Replay::Fixed, Err(why)) => Self::Off(why.to_owned()),
            (Replay::Automatic | Replay::Fixed, Ok(())) => Self::First,
        }
    }

    pub(super) fn state(&self) -> Replayed {
        match self {
            Self::First | Self::Second => Replayed::Undecided,
            Self::Fixed(graph) | Self::Patched { graph, .. } => {
                Replayed::Yes { operations: graph.len() }
            }
            Self::Off(why) => Replayed::No(why.clone()),
        }
    }

    /// Makes a run as a launch of the graph, if there is a graph or this run can create one.
    /// Returns false if the caller has to make an ordinary run.
    pub(super) fn run(
        &mut self,
        device: &Device,
        sharing: Sharing,
        resources: &mut Resources,
        stages: &Stages<'_>,
        mut ends: Ends<'_, '_>,
    ) -> Result<bool> {
        let chunks = resources.plan.chunks.len();
        if matches!(self, Self::First) && chunks > CHUNKS_MAX {
            *self = Self::Off(format!(
                "a run has {chunks} chunks; a graph is used for at most {CHUNKS_MAX}"
            ));
        }
        let graph = match self {
            Self::Off(_) => return Ok(false),
            Self::First => {
                *self = Self::Second;
                return Ok(false);
            }
            Self::Fixed(graph) => Ok(graph),
            Self::Second | Self::Patched { .. } => {
                self.recorded(device, sharing, resources, stages, &mut ends)
            }
        };
        match graph.and_then(|graph| launch(graph, resources, ends)) {
            Ok(()) => Ok(true),
            Err(Stop::NoGraph(error)) if !matches!(self, Self::Fixed(_)) => {
                *self = Self::Off(error.to_string());
                Ok(false)
            }
            Err(stop) => Err(stop.into_error()),
        }
    }

    /// Records this run. Returns a new graph, or the existing graph with the parameters of this
    /// run.
    fn recorded(
        &mut self,
        device: &Device,
        sharing: Sharing,
        resources: &mut Resources,
        stages: &Stages<'_>,
        ends: &mut Ends<'_, '_>,
    ) -> std::result::Result<&mut Graph, Stop> {
        if let Self::Patched { recorder, graph } = self {
            let recorder = &**recorder;
            let record = || recorder.record(resources, stages, ends);
            recorder.recording.change(graph, record)?.map_err(of_graph)?;
        } else {
            let recorder =
                Recorder::new(device, sharing, resources, Replay::Automatic).map_err(of_graph)?;
            let recorder = Box::new(recorder);
            let graph = recorder.graph(Replay::Automatic, resources, stages, ends)?;
            *self = Self::Patched { recorder, graph };
        }
        match self {
            Self::Patched { graph, .. } => Ok(graph),
            Self::First | Self::Second | Self::Fixed(_) | Self::Off(_) => {
                unreachable!("the graph was made above")
            }
        }
    }
}

/// Returns the reason as an error if runs cannot be launches of a graph.
pub(super) fn check(sharing: Sharing, schedule: Schedule) -> std::result::Result<(), &'static str> {
    match (sharing, schedule) {
        (Sharing::Bulk, _) => Err("a bulk run waits between operations; a graph cannot wait"),
        (Sharing::Alone, _) | (Sharing::Latency, Schedule::InPlace) => Ok(()),
        (
            Sharing::Latency,
            Schedule::OneStream | Schedule::SlotStreams | Schedule::RoleStreams | Schedule::Tuned,
        ) => Err(
            "the copies of a graph do not go through the streams that runs with `Sharing::Latency` share; \
             choose the schedule InPlace, which has no copies",
        ),
    }
}

/// Returns an error if a run has too few launches for a graph to save time. `others` is the number
/// of copies and fills in the run.
fn pays((launches, others): (usize, usize)) -> Result<()> {
    if launches >= LAUNCHES_MIN && launches >= LAUNCHES_FOR_EACH * others {
        return Ok(());
    }
    let cause = format!(
        "a run has {launches} launches and {others} copies and fills; a graph needs at least \
         {LAUNCHES_MIN} launches, and {LAUNCHES_FOR_EACH} for each copy and fill"
    );
    Err(Error::new(ErrorKind::Unsupported, "replay", cause))
}

/// Launches the graph, and waits for it.
fn launch(
    graph: &mut Graph,
    resources: &mut Resources,
    ends: Ends<'_, '_>,
) -> std::result::Result<(), Stop> {
    let Resources { streams, slots, .. } = resources;
    let arguments = Uses::new().read(ends.input).write(ends.output);
    let arguments = ends.reads.iter().fold(arguments, |all, view| all.read(*view));
    let buffers = slots.iter_mut().flat_map(|slot| &mut slot.buffers);
    let arguments = buffers.fold(arguments, |all, buffer| all.write(buffer.view_mut()));
    streams.first().launch_graph(graph, arguments).map_err(|error| match error.kind() {
        // The launch was refused before any call of the driver, because an address modulo 256
        // differs from the address in the recording.
        ErrorKind::InvalidValue => Stop::NoGraph(error),
        _ => Stop::Failed(error),
    })?;
    streams.first().synchronize().map_err(Stop::Failed)
}
