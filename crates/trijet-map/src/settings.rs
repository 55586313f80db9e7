//! The settings of the pipelines of a job.
#![forbid(unsafe_code)]

use trijet::{Bytes, Pipeline};

/// The settings of the pipelines of a job that its caller may choose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// The size of a chunk. `None` for a size that the run chooses.
    pub chunk: Option<Bytes>,
    /// The number of chunks in flight. `None` for the number of the pipeline.
    pub depth: Option<usize>,
    /// Maximum host memory of the process. `None` for most of the available memory.
    pub memory: Option<Bytes>,
    /// Whether the source keeps the rows of a chunk, as a stream does.
    pub keeps_rows: bool,
}

impl Settings {
    /// Applies the settings to a pipeline. `memory` is the host memory for its chunks; `None` if no
    /// limit is known.
    pub fn apply<'a>(self, mut pipeline: Pipeline<'a>, memory: Option<Bytes>) -> Pipeline<'a> {
        if let Some(memory) = memory {
            pipeline = pipeline.host_memory(memory);
        }
        if let Some(chunk) = self.chunk {
            pipeline = pipeline.chunk(chunk);
        }
        if let Some(depth) = self.depth {
            pipeline = pipeline.depth(depth);
        }
        pipeline
    }
}
