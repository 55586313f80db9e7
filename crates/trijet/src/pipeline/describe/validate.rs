//! The first step of a run: checks that the parts of a pipeline fit together.
#![forbid(unsafe_code)]

use super::builder::{Input, Output, Pipeline, PipelineSettings, invalid};
use super::sharing::Sharing;
use super::source::Blocks;
use super::stage::{Stage, Stages};
use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::ElementKind;
use crate::pipeline::plan::layout::Layout;
use crate::pipeline::plan::reach::{Reach, StageRows};
use crate::pipeline::plan::schedule::{Schedule, StageId};
use crate::pipeline::plan::step;
use crate::stream::Device;

/// A pipeline whose parts fit together. Its stages (`'s`) may live longer than its data (`'a`).
pub(in crate::pipeline) struct Job<'a, 's> {
    pub(in crate::pipeline) device: Device,
    pub(in crate::pipeline) input: Input<'a>,
    /// The layout by which the rows of the results are divided into chunks: see
    /// [`Reach::chunk_layout`].
    pub(in crate::pipeline) layout: Layout,
    /// The granule of the rows of the input.
    pub(in crate::pipeline) input_granule: u64,
    /// The blocks that the source decodes.
    pub(in crate::pipeline) blocks: Option<Blocks>,
    pub(in crate::pipeline) stages: Stages<'s>,
    pub(in crate::pipeline) output: Output<'a>,
    pub(in crate::pipeline) settings: PipelineSettings<'s>,
}

impl<'a> Job<'a, 'a> {
    pub(in crate::pipeline) fn validate(mut pipeline: Pipeline<'a>) -> Result<Self> {
        pipeline.check_calls()?;
        let Some(input) = pipeline.input.take() else {
            return Err(invalid("it has no source; call `source` or `pinned_source`"));
        };
        let Some(output) = pipeline.output.take() else {
            return Err(invalid("it has no sink; call `sink` or `pinned_sink`"));
        };
        Self::between(pipeline, input, output)
    }
}

impl<'a, 's> Job<'a, 's> {
    /// The job of a pipeline between `input` and `output`. The source and the sink of the pipeline
    /// itself are ignored.
    pub(in crate::pipeline) fn between(
        pipeline: Pipeline<'s>,
        input: Input<'a>,
        output: Output<'a>,
    ) -> Result<Self> {
        pipeline.check_calls()?;
        check_sharing(&pipeline.settings)?;
        let data = input.layout()?;
        let Pipeline { device, stages, mut settings, .. } = pipeline;
        let (stages, results) = check_stages(data, stages)?;
        let layout = stages.reach.chunk_layout(data)?;
        match &output {
            Output::Sink(sink) => sink.check(results)?,
            Output::Pinned { target, element } => {
                check_pinned(results, target.len() as u64, *element)?
            }
        }
        let (input_granule, blocks) = (data.granule, input.blocks());
        settings.plan.step = step(blocks.map(|blocks| blocks.rows), data, layout);
        Ok(Self { device, input, layout, input_granule, blocks, stages, output, settings })
    }
}

/// Refuses a value of [`Sharing`] that the schedule does not allow.
fn check_sharing(settings: &PipelineSettings<'_>) -> Result<()> {
    let (sharing, schedule) = (settings.sharing, settings.plan.schedule);
    let allows = match schedule {
        Schedule::OneStream | Schedule::SlotStreams => sharing == Sharing::Alone,
        Schedule::InPlace => sharing != Sharing::Bulk,
        Schedule::RoleStreams | Schedule::Tuned => true,
    };
    if allows {
        return Ok(());
    }
    Err(invalid(format!(
        "`Sharing::{sharing:?}` shares the streams of copies, which the schedule {schedule:?} does not \
         have; choose RoleStreams or Tuned"
    )))
}

/// Checks that each stage accepts the rows of the previous stage. Returns the stages, with the
/// bytes of a row before and after each stage, and the layout of the results.
fn check_stages(input: Layout, stages: Vec<Stage<'_>>) -> Result<(Stages<'_>, Layout)> {
    let mut layout = input;
    let mut row_bytes = vec![layout.row_bytes];
    for (index, stage) in stages.iter().enumerate() {
        let refused =
            |cause| Error::new(ErrorKind::InvalidValue, StageId::Kernels(index).to_string(), cause);
        layout.check_element(stage.takes).map_err(refused)?;
        layout = layout_after(stage, layout).map_err(refused)?;
        row_bytes.push(layout.row_bytes);
    }
    let reach = Reach::new(input, stages.iter().map(|stage| stage.rows.clone()))?;
    Ok((Stages { stages, row_bytes, reach }, layout))
}

/// The layout of the rows that a stage writes, if it reads rows of the layout `input`. An error has
/// the reason why there is no such layout.
fn layout_after(stage: &Stage<'_>, input: Layout) -> std::result::Result<Layout, String> {
    let gives = stage.gives;
    let mut layout = match &stage.rows {
        StageRows::Other { output, .. } => {
            output.bytes().map_err(|error| error.to_string())?;
            output.check_element(gives).map_err(|_| {
                let bytes = output.row_bytes;
                format!("output rows of {bytes} bytes are not whole elements of {gives}")
            })?;
            *output
        }
        StageRows::Same { .. } => {
            let elements = input.row_bytes / stage.takes.bytes;
            let bytes = elements.checked_mul(gives.bytes).filter(|bytes| *bytes > 0);
            let row_bytes = bytes.ok_or_else(|| {
                let bytes = gives.bytes;
                format!("rows cannot have {elements} elements of {gives} ({bytes} bytes)")
            })?;
            Layout { row_bytes, ..input }
        }
    };
    layout.element = Some(gives);
    Ok(layout)
}

/// Refuses page-locked memory that has another element type than the results or is too short for
/// the results.
fn check_pinned(results: Layout, held: u64, element: ElementKind) -> Result<()> {
    let refused = |cause| Error::new(ErrorKind::InvalidValue, "sink", cause);
    results.check_element(element).map_err(refused)?;
    let wanted = results.bytes()?;
    if held < wanted {
        return Err(refused(format!(
            "the results have {wanted} bytes, but the buffer has only {held} bytes"
        )));
    }
    Ok(())
}
