//! The operations of `trijet map`, as stages of a pipeline.
#![forbid(unsafe_code)]

use super::user_kernel::UserKernel;
use crate::steps::{KernelStep, Step};
use std::path::Path;
use trijet::kernels::median::{Edges, MedianPixel, RADIUS_MAX, Rows, Window, load, median};
use trijet::kernels::{AFFINE_F32, AFFINE_U8, AFFINE_U16};
use trijet::pipeline::{Layout, StageCx};
use trijet::{Device, Element, Error, ErrorKind, Pipeline, Result, View, ViewMut};
use trijet_io::{Array, Dtype, shown};

/// An operation over the rows of an array.
#[derive(Debug)]
pub(super) enum Operation {
    Median { window: Window, width: u32, height: u32 },
    Affine { scale: f32, offset: f32 },
    User { kernel: Box<UserKernel>, halo: Option<u64>, row_len: u64 },
}

fn refused(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "map", cause)
}

/// The median filter over the images of an array.
fn median_of(array: &Array, window: Window) -> Result<Operation> {
    let radius = window.radius;
    if array.dtype() == Dtype::F32 {
        return Err(refused("the median filter needs u8 or u16, but the input is f32".to_owned()));
    }
    if !(1..=RADIUS_MAX).contains(&radius) {
        return Err(refused(format!("radius {radius} is out of range: 1 to {RADIUS_MAX}")));
    }
    let Some((width, height, _)) = array.image() else {
        return Err(refused(format!("{array} is not an image or a stack of images")));
    };
    let side = |pixels: u64| {
        u32::try_from(pixels).map_err(|_| {
            refused(format!("a side has {pixels} pixels; at most 2^32 - 1 are supported"))
        })
    };
    // Images without pixels are never launched, but their kernel is loaded, which needs at least
    // one pixel.
    let (width, height) = (side(width)?.max(1), side(height)?.max(1));
    Ok(Operation::Median { window, width, height })
}

impl Operation {
    /// The operation of `step` over `array`, which is the array of the file `input`.
    pub(super) fn new(step: &Step, array: &Array, input: &Path) -> Result<Self> {
        match step {
            Step::Median(window) => {
                median_of(array, *window).map_err(|error| error.context(shown(input).to_string()))
            }
            Step::Affine { scale, offset } => Ok(Self::Affine { scale: *scale, offset: *offset }),
            Step::Kernel(KernelStep { file, entry, args, halo }) => {
                let kernel = Box::new(UserKernel::read(file, entry, args, array.dtype())?);
                let row_len = array.layout().row_bytes / array.dtype().bytes();
                Ok(Self::User { kernel, halo: *halo, row_len })
            }
        }
    }

    /// A description of everything that determines the bytes of the result.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Median { window: Window { radius, edges: Edges::Nearest }, .. } => {
                format!("median radius={radius}")
            }
            Self::Median { window: Window { radius, edges }, .. } => {
                format!("median radius={radius} edges={edges}")
            }
            Self::Affine { scale, offset } => format!("affine scale={scale} offset={offset}"),
            Self::User { kernel, halo, .. } => match halo {
                Some(rows) => format!("{} halo={rows}", kernel.description),
                None => kernel.description.clone(),
            },
        }
    }

    /// Loads the kernel, so that its errors are reported before anything is written.
    pub(super) fn load(&self, device: &Device, dtype: Dtype) -> Result<()> {
        match (self, dtype) {
            (Self::Median { window, .. }, Dtype::U8) => load::<u8>(device, window.radius),
            (Self::Median { window, .. }, _) => load::<u16>(device, window.radius),
            (Self::Affine { .. }, Dtype::U8) => device.load(&AFFINE_U8),
            (Self::Affine { .. }, Dtype::U16) => device.load(&AFFINE_U16),
            (Self::Affine { .. }, _) => device.load(&AFFINE_F32),
            (Self::User { kernel, halo, .. }, _) => kernel.load(device, dtype, halo.is_some()),
        }
    }

    /// The kernel of the user.
    pub(super) fn user_kernel(&self) -> Option<&UserKernel> {
        match self {
            Self::User { kernel, .. } => Some(kernel),
            Self::Median { .. } | Self::Affine { .. } => None,
        }
    }

    /// The number of rows that the operation reads before the rows that it writes. The operation
    /// reads the same number of rows after them. The number is 0 for a median whose chunks are
    /// whole images.
    pub(super) fn halo(&self, layout: Layout) -> u64 {
        match self {
            Self::Median { height, .. } if layout.granule.is_multiple_of(u64::from(*height)) => 0,
            // At an edge, the window contains rows from the opposite edge of its image.
            Self::Median { window: Window { edges: Edges::Wrap, .. }, height, .. } => {
                u64::from(*height) - 1
            }
            Self::Median { window, .. } => u64::from(window.radius),
            Self::Affine { .. } => 0,
            Self::User { halo, .. } => halo.unwrap_or(0),
        }
    }

    /// Appends the operation to a pipeline.
    pub(super) fn stage<'a>(
        &'a self,
        pipeline: Pipeline<'a>,
        dtype: Dtype,
        layout: Layout,
    ) -> Pipeline<'a> {
        let pipeline = match dtype {
            Dtype::U8 => pipeline.stage::<u8, u8>(|s, x, y| match self {
                Self::Affine { scale, offset } => s.launch(&AFFINE_U8, (*scale, *offset, x, y)),
                _ => self.run(s, x, y),
            }),
            Dtype::U16 => pipeline.stage::<u16, u16>(|s, x, y| match self {
                Self::Affine { scale, offset } => s.launch(&AFFINE_U16, (*scale, *offset, x, y)),
                _ => self.run(s, x, y),
            }),
            // The remaining element type of files is f32. For any other type, the pipeline refuses
            // this stage.
            _ => pipeline.stage::<f32, f32>(|s, x, y| match self {
                Self::Affine { scale, offset } => s.launch(&AFFINE_F32, (*scale, *offset, x, y)),
                _ => self.user(s, x, y),
            }),
        };
        pipeline.halo(self.halo(layout))
    }

    fn run<T: MedianPixel>(
        &self,
        s: &StageCx<'_>,
        x: View<'_, T>,
        y: ViewMut<'_, T>,
    ) -> Result<()> {
        let Self::Median { window, width, height } = *self else { return self.user(s, x, y) };
        let (first_out, first_in) = (s.y_rows().start, s.x_rows().start);
        median(s, x, y, Rows { width, height, first_out, first_in }, window)
    }

    fn user<T: Element>(&self, s: &StageCx<'_>, x: View<'_, T>, y: ViewMut<'_, T>) -> Result<()> {
        let Self::User { kernel, halo, row_len } = self else {
            return Err(refused("the median filter needs u8 or u16".to_owned()));
        };
        let before = s.y_rows().start - s.x_rows().start;
        kernel.launch(s, x, y, halo.map(|_| (*row_len, before)))
    }
}
