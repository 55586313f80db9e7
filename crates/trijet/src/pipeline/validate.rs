//! The first step of a run: checks that the parts of a pipeline fit together.
#![forbid(unsafe_code)]

use super::builder::{Input, Output, Pipeline, Settings};
use super::layout::Layout;
use super::stage::{Stage, Stages};
use crate::base::error::{Error, ErrorKind, Result};
use crate::stream::Device;

/// A pipeline whose parts fit together.
pub(super) struct Job<'a> {
    pub(super) device: Device,
    pub(super) input: Input<'a>,
    pub(super) layout: Layout,
    pub(super) stages: Stages<'a>,
    pub(super) output: Output<'a>,
    pub(super) settings: Settings<'a>,
}

fn invalid(cause: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidValue, "pipeline", cause)
}

impl<'a> Job<'a> {
    pub(super) fn validate(pipeline: Pipeline<'a>) -> Result<Self> {
        let layout = pipeline.layout()?;
        let Pipeline { device, input, stages, output, settings } = pipeline;
        let stages = check_stages(layout, stages)?;
        if stages.stages.is_empty() && settings.plan.halo > 0 {
            return Err(invalid("a halo without a stage that reads it"));
        }
        let (Some(input), Some(output)) = (input, output) else {
            return Err(invalid("it has no source or no sink"));
        };
        if let Output::Pinned(target) = &output {
            let results = Layout { row_bytes: stages.row_out(), ..layout }.bytes()?;
            if target.len() < results {
                return Err(invalid(format!("results of {results} B into {} B", target.len())));
            }
        }
        Ok(Self { device, input, layout, stages, output, settings })
    }
}

/// Follows the size of a row through the stages.
fn check_stages(layout: Layout, stages: Vec<Stage<'_>>) -> Result<Stages<'_>> {
    let mut row_bytes = vec![layout.row_bytes];
    for (index, stage) in stages.iter().enumerate() {
        let bytes = row_bytes[index];
        if !bytes.is_multiple_of(stage.element_in) {
            return Err(invalid(format!(
                "rows of {bytes} bytes do not hold whole elements of {} bytes (stage {index})",
                stage.element_in
            )));
        }
        let out = (bytes / stage.element_in).checked_mul(stage.element_out);
        row_bytes.push(out.filter(|_| stage.element_out > 0).ok_or_else(|| {
            invalid(format!(
                "rows of {bytes} bytes cannot become elements of {} bytes (stage {index})",
                stage.element_out
            ))
        })?);
    }
    Ok(Stages { stages, row_bytes })
}
