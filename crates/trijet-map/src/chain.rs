//! The operations of a job. Each operation is a stage of the same pipeline.
#![forbid(unsafe_code)]

use crate::image_file::load_image;
use crate::user_kernel::{KernelFile, UserKernel};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use trijet::pipeline::Layout;
use trijet::{Device, Error, ErrorKind, Pipeline, Result};
use trijet_io::{Array, ByteOrder, Dtype, Input, shown};
use trijet_ops::{Operation, OperationText, RowsOfCall, Swap, Typed};

/// One operation of a job, before the type of its elements is known.
#[derive(Debug, Clone)]
pub enum Step {
    /// An operation that is written as a text.
    Named(OperationText),
    /// A kernel of the user.
    Kernel(KernelFile),
    /// An operation of the program.
    Own(Arc<dyn Operation>),
}

impl Step {
    /// The files that the operation reads: a kernel, or images.
    #[must_use]
    pub fn files(&self) -> Vec<&Path> {
        match self {
            Self::Named(text) => text.files().into_iter().map(Path::new).collect(),
            Self::Kernel(kernel) => vec![&kernel.file],
            Self::Own(_) => Vec::new(),
        }
    }
}

/// The array that the first operation of a job reads.
#[derive(Debug, Clone)]
pub struct Origin<'a> {
    /// The name of the array in messages.
    pub name: String,
    /// The whole array.
    pub array: &'a Array,
    /// The number of indices of the first axis that are processed.
    pub processed: u64,
    /// The byte order of the elements.
    pub byte_order: ByteOrder,
    /// Whether the last axis has the colours of a pixel.
    pub has_colours: bool,
}

impl<'a> Origin<'a> {
    /// The array of an input.
    #[must_use]
    pub fn of(input: &'a Input) -> Self {
        Self {
            name: shown(input.path()).to_string(),
            array: input.array(),
            processed: input.part().shape()[0],
            byte_order: input.byte_order(),
            has_colours: input.annotations().has_colours,
        }
    }

    /// An array in memory: all of it is processed, and its elements are little-endian numbers.
    #[must_use]
    pub fn in_memory(name: &str, array: &'a Array) -> Self {
        let processed = array.shape().first().copied().unwrap_or(1);
        let (byte_order, has_colours) = (ByteOrder::Little, false);
        Self { name: name.to_owned(), array, processed, byte_order, has_colours }
    }
}

/// One operation, with the array that it reads and the array that it makes.
#[derive(Debug)]
struct ChainStep {
    operation: OwnOperation,
    /// The operation in reports and in the journal. `None` for an operation that belongs to the
    /// input.
    words: Option<String>,
    x: Typed,
    /// The number of rows of `x`.
    x_rows: u64,
    y: Array,
}

/// An operation by its origin.
#[derive(Debug)]
enum OwnOperation {
    Named(Box<dyn Operation>),
    User(Box<UserKernel>),
    Program(Arc<dyn Operation>),
}

impl OwnOperation {
    fn get(&self) -> &dyn Operation {
        match self {
            Self::Named(operation) => &**operation,
            Self::User(kernel) => &**kernel,
            Self::Program(operation) => &**operation,
        }
    }
}

/// The operations, in the order in which they are applied.
#[derive(Debug)]
pub struct Chain {
    steps: Vec<ChainStep>,
    input: Array,
    /// The number of indices of the first axis of the input that are processed.
    processed: u64,
    /// Whether the first operation swaps the bytes of the elements, for an input in big-endian
    /// order.
    swaps: bool,
}

fn refused(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "map", cause)
}

impl Chain {
    /// The operations of `steps` over the array of `origin`. If its elements are big-endian, the
    /// first operation swaps their bytes, and the run reads the input
    /// [as it is stored](Self::reads_as_stored).
    ///
    /// # Errors
    /// `InvalidValue` for an operation that cannot be applied to the array before it. `Io` for a
    /// file of an operation that cannot be read. `Compile` for a kernel that does not compile.
    pub fn new(steps: &[Step], origin: &Origin<'_>) -> Result<Self> {
        let (input, processed) = (origin.array.clone(), origin.processed);
        let mut chain = Self { steps: Vec::new(), input, processed, swaps: false };
        if origin.byte_order == ByteOrder::Big {
            chain.swaps = true;
            chain.add(OwnOperation::Named(Box::new(Swap)), None, origin)?;
        }
        for step in steps {
            let (operation, words) = operation_of(step, chain.output().dtype())?;
            chain.add(operation, Some(words), origin)?;
        }
        Ok(chain)
    }

    /// Appends an operation.
    fn add(
        &mut self,
        operation: OwnOperation,
        words: Option<String>,
        origin: &Origin<'_>,
    ) -> Result<()> {
        let array = self.output();
        let x = Typed::new(array.dtype(), array.shape().to_vec());
        let x_rows = array.layout().rows;
        let y = operation.get().output(&x);
        let y = y.map_err(|error| error.context(origin.name.clone()))?;
        if origin.has_colours && !is_pointwise(operation.get(), &x, &y, x_rows) {
            let (name, words) = (&origin.name, words.unwrap_or_default());
            let cause = format!(
                "{name}: the last axis has the colours of a pixel, and `{words}` would take them \
                 for the pixels of a row; write each colour to a file of its own"
            );
            return Err(refused(cause));
        }
        let y = Array::new(y.dtype, y.shape)?;
        self.steps.push(ChainStep { operation, words, x, x_rows, y });
        Ok(())
    }

    /// Whether the input is to be read in the byte order of its file.
    #[must_use]
    pub fn reads_as_stored(&self) -> bool {
        self.swaps
    }

    /// The array that the operations make.
    #[must_use]
    pub fn output(&self) -> &Array {
        self.steps.last().map_or(&self.input, |step| &step.y)
    }

    /// The array that the operations make of the part of the input that is processed.
    ///
    /// # Errors
    /// `InvalidValue` for a slice, if an operation changes the number of images.
    pub fn output_of_part(&self) -> Result<Array> {
        let (whole, output) = (self.input.shape().first().copied(), self.output());
        let Some(whole) = whole.filter(|whole| *whole != self.processed) else {
            return Ok(output.clone());
        };
        let keeps = |array: &Array| array.shape().first() == Some(&whole);
        if !self.steps.iter().all(|step| keeps(&step.y)) {
            let cause = "--slice cannot be used with an operation that changes the length of the \
                         first axis; write the slice to a file first";
            return Err(refused(cause.to_owned()));
        }
        let mut shape = output.shape().to_vec();
        shape[0] = self.processed;
        Array::new(output.dtype(), shape)
    }

    /// A description of everything that determines the bytes of the result.
    #[must_use]
    pub fn description(&self) -> String {
        let all: Vec<&str> = self.steps.iter().filter_map(|step| step.words.as_deref()).collect();
        all.join(", then ")
    }

    /// Loads the kernels, so that their errors are reported before anything is written.
    ///
    /// # Errors
    /// `NoDevice` for a kernel of the user on a host device. Errors of the driver.
    pub fn load(&self, device: &Device) -> Result<()> {
        self.steps.iter().try_for_each(|step| step.operation.get().load(device, &step.x))
    }

    /// For a host without a GPU: the result of the check of each kernel of the user, one kernel per
    /// line. `None` if a kernel could not be checked, or if there is no kernel of the user.
    #[must_use]
    pub fn needs_gpu(&self) -> Option<String> {
        let kernel = |step: &'_ ChainStep| match &step.operation {
            OwnOperation::User(kernel) => Some((kernel.is_checked(), kernel.needs_gpu())),
            OwnOperation::Named(_) | OwnOperation::Program(_) => None,
        };
        let kernels: Vec<(bool, String)> = self.steps.iter().filter_map(kernel).collect();
        let is_all = !kernels.is_empty() && kernels.iter().all(|(is_checked, _)| *is_checked);
        let lines: Vec<String> = kernels.into_iter().map(|(_, words)| words).collect();
        is_all.then(|| lines.join("\n"))
    }

    /// The rows of the input that these rows of the result need.
    #[must_use]
    pub fn input_rows(&self, rows: Range<u64>) -> Range<u64> {
        let needed = |rows, step: &ChainStep| {
            let Range { start, end } = step.operation.get().input_rows(&step.x, rows);
            let all = step.x_rows;
            start.min(all)..end.min(all)
        };
        self.steps.iter().rev().fold(rows, needed)
    }

    /// Whether each image of the result depends only on the image of the input with the same
    /// number. An image is an index of the first axis.
    #[must_use]
    pub fn is_per_image(&self) -> bool {
        let (images, output) = (self.input.shape()[0], self.output());
        if output.shape()[0] != images {
            return false;
        }
        let per_image = |array: &Array| array.layout().rows.checked_div(images).unwrap_or(0);
        let (height_in, height_out) = (per_image(&self.input), per_image(output));
        (0..images).all(|image| {
            let needed = self.input_rows(image * height_out..(image + 1) * height_out);
            image * height_in <= needed.start && needed.end <= (image + 1) * height_in
        })
    }

    /// The number of rows of the result at whose multiples chunks start, because the output can
    /// only write such chunks: a multiple of the granule `written` of the output, and of the
    /// granule of the last operation.
    #[must_use]
    pub fn granule(&self, written: u64) -> u64 {
        least_common_multiple(written, self.last_granule())
    }

    /// The granule of the last operation.
    fn last_granule(&self) -> u64 {
        self.steps.last().map_or(1, |step| step.operation.get().granule(&step.x))
    }

    /// Appends the operations to a pipeline, whose results have chunks of whole granules of
    /// `granule` rows.
    pub fn stages<'a>(&'a self, mut pipeline: Pipeline<'a>, granule: u64) -> Pipeline<'a> {
        for (place, step) in self.steps.iter().enumerate() {
            let operation = step.operation.get();
            let is_last = place + 1 == self.steps.len();
            let granule = if is_last { granule } else { operation.granule(&step.x) };
            let output = step.y.layout();
            let output = Layout::rows(output.rows, output.row_bytes).granule(granule);
            pipeline = pipeline
                .stage::<u8, u8>(move |s, x, y| {
                    let rows = RowsOfCall { x: s.x_rows(), y: s.y_rows() };
                    operation.enqueue(s, &step.x, &rows, x, y)
                })
                .output_rows(output, move |rows| operation.input_rows(&step.x, rows));
        }
        pipeline
    }
}

/// Whether each row of the result depends only on the row with the same number.
fn is_pointwise(operation: &dyn Operation, x: &Typed, y: &Typed, rows: u64) -> bool {
    let own = |row: u64| operation.input_rows(x, row..row + 1) == (row..row + 1);
    x.shape == y.shape && [0, rows / 2, rows.saturating_sub(1)].into_iter().all(own)
}

/// The operation of a step over elements of the type `dtype`, and its words in reports and in the
/// journal.
fn operation_of(step: &Step, dtype: Dtype) -> Result<(OwnOperation, String)> {
    match step {
        Step::Named(text) => {
            let operation = text.build(&|name| load_image(Path::new(name)))?;
            let words = match text.files().is_empty() {
                true => text.words(),
                // The images are a part of the operation, and their names are not.
                false => format!("{}: {}", text.words(), operation.description()),
            };
            Ok((OwnOperation::Named(operation), words))
        }
        Step::Kernel(kernel) => {
            let kernel = UserKernel::read(kernel, dtype)?;
            let words = kernel.description();
            Ok((OwnOperation::User(Box::new(kernel)), words))
        }
        Step::Own(operation) => {
            let words = operation.description();
            Ok((OwnOperation::Program(Arc::clone(operation)), words))
        }
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut larger, mut smaller) = (a.max(1), b.max(1));
    while smaller > 0 {
        (larger, smaller) = (smaller, larger % smaller);
    }
    (a.max(1) / larger).saturating_mul(b.max(1))
}
