//! The operations of a run of `trijet map`. Each operation is a stage of the same pipeline.
#![forbid(unsafe_code)]

use super::operation::Operation;
use crate::steps::RunSteps;
use std::path::Path;
use trijet::pipeline::Layout;
use trijet::{Device, Pipeline, Result};
use trijet_io::{Array, Dtype};

/// The operations, in the order in which they are applied. The input and every result have the same
/// element type.
#[derive(Debug)]
pub(super) struct Chain {
    operations: Vec<Operation>,
    dtype: Dtype,
}

impl Chain {
    /// The operations of `steps` over `array`, which is the array of the file `input`.
    pub(super) fn new(steps: &RunSteps, array: &Array, input: &Path) -> Result<Self> {
        let operations = steps.iter().map(|step| Operation::new(step, array, input));
        Ok(Self { operations: operations.collect::<Result<_>>()?, dtype: array.dtype() })
    }

    /// A description of everything that determines the bytes of the result.
    pub(super) fn description(&self) -> String {
        let all: Vec<String> = self.operations.iter().map(Operation::description).collect();
        all.join(", then ")
    }

    /// Loads the kernels, so that their errors are reported before anything is written.
    pub(super) fn load(&self, device: &Device) -> Result<()> {
        self.operations.iter().try_for_each(|operation| operation.load(device, self.dtype))
    }

    /// For a host without a GPU: the result of the check of each kernel of the user, one kernel per
    /// line. `None` if a kernel could not be checked, or if there is no kernel of the user.
    pub(super) fn needs_gpu(&self) -> Option<String> {
        let kernels: Vec<_> = self.operations.iter().filter_map(Operation::user_kernel).collect();
        let is_all = !kernels.is_empty() && kernels.iter().all(|kernel| kernel.is_checked());
        let lines: Vec<String> = kernels.iter().map(|kernel| kernel.needs_gpu()).collect();
        is_all.then(|| lines.join("\n"))
    }

    /// The number of rows of the input that a chunk needs before its first row. The chunk needs the
    /// same number of rows after its last row.
    pub(super) fn reach(&self, layout: Layout) -> u64 {
        layout.reach(self.operations.iter().map(|operation| operation.halo(layout)))
    }

    /// Appends the operations to a pipeline.
    pub(super) fn stages<'a>(&'a self, pipeline: Pipeline<'a>, layout: Layout) -> Pipeline<'a> {
        let stage =
            |pipeline, operation: &'a Operation| operation.stage(pipeline, self.dtype, layout);
        self.operations.iter().fold(pipeline, stage)
    }
}
