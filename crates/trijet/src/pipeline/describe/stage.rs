//! Stages: the kernels of a pipeline, and the rows between them.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::panic::called;
use crate::memory::ElementKind;
use crate::memory::{Element, View, ViewMut};
use crate::pipeline::plan::Chunk;
use crate::pipeline::plan::reach::{Reach, StageRows};
use crate::stream::Stream;
use std::ops::{Deref, Range};
use std::panic::Location;

/// The context of a call of a stage: the stream on which the stage enqueues, the chunk of the call,
/// and the rows of `x` and of `y`. The context dereferences to the stream.
#[derive(Debug)]
pub struct StageCx<'a> {
    pub(in crate::pipeline) stream: &'a Stream,
    pub(in crate::pipeline) chunk: &'a Chunk,
    pub(in crate::pipeline) x_rows: Range<u64>,
    pub(in crate::pipeline) y_rows: Range<u64>,
}

impl StageCx<'_> {
    /// The chunk. Before the first chunk, a stage is called with an empty chunk, which loads its
    /// kernels (law [A42](crate::laws#a42)).
    #[must_use]
    pub fn chunk(&self) -> &Chunk {
        self.chunk
    }

    /// The rows that `x` has. Row 0 is the first row of all data.
    #[must_use]
    pub fn x_rows(&self) -> Range<u64> {
        self.x_rows.clone()
    }

    /// The rows that `y` has. Row 0 is the first row of all rows that the stage writes.
    #[must_use]
    pub fn y_rows(&self) -> Range<u64> {
        self.y_rows.clone()
    }
}

impl Deref for StageCx<'_> {
    type Target = Stream;
    fn deref(&self) -> &Stream {
        self.stream
    }
}

type StageFn<'a> = Box<dyn Fn(&StageCx<'_>, View<'_, u8>, ViewMut<'_, u8>) -> Result<()> + 'a>;

/// A stage, and the types of the elements that it reads and writes.
pub(in crate::pipeline) struct Stage<'a> {
    pub(in crate::pipeline) run: StageFn<'a>,
    pub(super) takes: ElementKind,
    pub(super) gives: ElementKind,
    /// The rows that the stage writes, and the rows of its input that they need.
    pub(super) rows: StageRows<'a>,
    /// The source line of the program that added the stage.
    pub(in crate::pipeline) site: &'static Location<'static>,
}

impl<'a> Stage<'a> {
    #[track_caller]
    pub(super) fn new<T: Element, U: Element>(
        run: impl Fn(&StageCx<'_>, View<'_, T>, ViewMut<'_, U>) -> Result<()> + 'a,
    ) -> Self {
        let run: StageFn<'a> = Box::new(move |cx, x, y| {
            called("stage", || run(cx, View::from_bytes(&x), ViewMut::from_bytes(y)))
        });
        let (takes, gives) = (ElementKind::of::<T>(), ElementKind::of::<U>());
        let rows = StageRows::Same { halo: 0 };
        Self { run, takes, gives, rows, site: Location::caller() }
    }
}

/// The stages of a pipeline. Their points are numbered like the buffers of a slot: point 0 is the
/// input, and point n is the output of stage n - 1.
pub(in crate::pipeline) struct Stages<'a> {
    pub(in crate::pipeline) stages: Vec<Stage<'a>>,
    /// The number of bytes of a row at each point.
    pub(in crate::pipeline) row_bytes: Vec<u64>,
    pub(in crate::pipeline) reach: Reach<'a>,
}

impl Stages<'_> {
    /// The rows of a chunk at a point: point 0 is the input, and point n is the output of stage n -
    /// 1.
    pub(in crate::pipeline) fn rows(&self, place: usize, chunk: &Chunk) -> Range<u64> {
        self.reach.rows_at(place, &chunk.rows)
    }

    /// The number of bytes of the rows `rows` at the point `place`.
    pub(in crate::pipeline) fn bytes(&self, place: usize, rows: &Range<u64>) -> u64 {
        (rows.end - rows.start).saturating_mul(self.row_bytes[place])
    }

    /// The number of bytes of a row of the input.
    pub(in crate::pipeline) fn row_in(&self) -> u64 {
        self.row_bytes[0]
    }

    /// The number of bytes of a row of the results.
    pub(in crate::pipeline) fn row_out(&self) -> u64 {
        self.row_bytes[self.stages.len()]
    }
}
