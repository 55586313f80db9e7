//! A plan as one graph: recorded when a pipeline is prepared, launched in each of its runs.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::builder::{Input, Output, invalid};
use super::enqueue::submit;
use super::schedule::turn;
use super::spans::Spans;
use super::streams::Streams;
use super::validate::Job;
use crate::base::error::Result;
use crate::graph::{Arguments, Graph};
use crate::memory::{View, ViewMut};

/// Records the operations of a plan between the page-locked data of a job, which stand for those of each
/// run.
pub(super) fn record(job: &mut Job<'_, '_>, resources: &mut Resources) -> Result<Graph> {
    let Job { device, input, output, stages, .. } = job;
    let (Input::Pinned { bytes: input, .. }, Output::Pinned { target: output, .. }) =
        (input, output)
    else {
        return Err(invalid("only page-locked data can stand for those of a graph"));
    };
    device.record(|g| {
        let Resources { plan, slots, .. } = resources;
        g.argument(input)?;
        g.argument(output)?;
        slots.iter().flat_map(|slot| &slot.buffers).try_for_each(|buffer| g.argument(buffer))?;
        let streams = Streams::recorded(g, plan.schedule, (stages.stages.len(), slots.len()))?;
        let spans = Spans(stages);
        plan.chunks.iter().try_for_each(|chunk| {
            let slot = turn(chunk.index, slots.len());
            let y = output.reborrow().slice(spans.output(chunk));
            submit(chunk, &streams, &mut slots[slot], stages, input.slice(spans.input(chunk)), y)
        })
    })
}

/// Launches the graph, and waits for it.
pub(super) fn replay(
    graph: &mut Graph,
    resources: &mut Resources,
    input: View<'_, u8>,
    output: ViewMut<'_, u8>,
) -> Result<()> {
    let Resources { streams, slots, .. } = resources;
    let arguments = Arguments::new().read(input).write(output);
    let buffers = slots.iter_mut().flat_map(|slot| &mut slot.buffers);
    let arguments = buffers.fold(arguments, |all, buffer| all.write(buffer.view_mut()));
    streams.first().launch_graph(graph, arguments)?;
    streams.first().synchronize()
}
