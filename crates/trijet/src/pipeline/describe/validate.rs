//! The first step of a run: checks that the parts of a pipeline fit together.
#![forbid(unsafe_code)]

use super::builder::{Input, Output, Pipeline, PipelineSettings, invalid};
use super::sharing::Sharing;
use super::stage::{Stage, Stages};
use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::ElementKind;
use crate::pipeline::plan::layout::Layout;
use crate::pipeline::plan::reach::Reach;
use crate::pipeline::plan::schedule::{Schedule, StageId};
use crate::stream::Device;

/// A pipeline whose parts fit together. Its stages (`'s`) may live longer than its data (`'a`).
pub(in crate::pipeline) struct Job<'a, 's> {
    pub(in crate::pipeline) device: Device,
    pub(in crate::pipeline) input: Input<'a>,
    pub(in crate::pipeline) layout: Layout,
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
        let layout = input.layout()?;
        let Pipeline { device, stages, settings, .. } = pipeline;
        let (stages, results) = check_stages(layout, stages)?;
        match &output {
            Output::Sink(sink) => sink.check(results)?,
            Output::Pinned { target, element } => {
                check_pinned(results, target.len() as u64, *element)?
            }
        }
        Ok(Self { device, input, layout, stages, output, settings })
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
        let elements = layout.row_bytes / stage.takes.bytes;
        let bytes = elements.checked_mul(stage.gives.bytes).filter(|bytes| *bytes > 0);
        layout.row_bytes = bytes.ok_or_else(|| {
            let gives = stage.gives;
            refused(format!(
                "rows cannot have {elements} elements of {gives} ({} bytes)",
                gives.bytes
            ))
        })?;
        layout.element = Some(stage.gives);
        row_bytes.push(layout.row_bytes);
    }
    let reach = Reach::new(input, stages.iter().map(|stage| stage.halo));
    Ok((Stages { stages, row_bytes, reach }, layout))
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
