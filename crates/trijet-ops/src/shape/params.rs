//! The parameters of the kernels of `shape.cu` and `project.cu`.
#![forbid(unsafe_code)]

use std::ops::Range;
use trijet::bytemuck::{Pod, Zeroable};
use trijet::kernels::{Read, Write};

/// `(bytes, plan, x, y)`
pub(super) type CropParams = (u32, CropPlan, Read<u8>, Write<u8>);
/// `(from, to, is_mean, plan, x, y)`
pub(super) type BinParams = (u32, u32, u32, BinPlan, Read<u8>, Write<u8>);
/// `(from, to, how, plan, x, y)`
pub(super) type ProjectParams = (u32, u32, u32, ProjectPlan, Read<u8>, Write<u8>);

/// The part of each image that [`Crop`](super::Crop) keeps. Columns are in units of at most 8
/// bytes.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[bytemuck(crate = "trijet::bytemuck")]
#[repr(C)]
pub(super) struct CropPlan {
    pub(super) top: u64,
    pub(super) left: u64,
    pub(super) height: u64,
    pub(super) width: u64,
    pub(super) out_height: u64,
    pub(super) out_width: u64,
    pub(super) first_in: u64,
    pub(super) first_out: u64,
}

impl CropPlan {
    /// The row of the whole input that a row of the whole output has.
    pub(super) fn row_in(&self, row: u64) -> u64 {
        let (image, row) = (row / self.out_height, row % self.out_height);
        image * self.height + self.top + row
    }
}

/// The windows of [`Bin`](super::Bin): the factors of the images, rows and columns, the number of
/// images of the last axis of images, and the sizes of an image.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[bytemuck(crate = "trijet::bytemuck")]
#[repr(C)]
pub(super) struct BinPlan {
    pub(super) images: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) depth: u64,
    pub(super) height: u64,
    pub(super) width: u64,
    pub(super) first_in: u64,
    pub(super) first_out: u64,
}

impl BinPlan {
    /// The number of elements of a window.
    pub(super) fn count(&self) -> u64 {
        self.images * self.rows * self.columns
    }

    /// The first image and the first row of the windows of a row of the whole output.
    pub(super) fn start(&self, row: u64) -> [u64; 2] {
        let (out_depth, out_height) = (self.depth / self.images, self.height / self.rows);
        let (image, row) = (row / out_height, row % out_height);
        let (outer, image) = (image / out_depth, image % out_depth);
        [outer * self.depth + image * self.images, row * self.rows]
    }

    /// The rows of the whole input that rows of the whole output need. `y` is not empty.
    pub(super) fn rows_in(&self, y: Range<u64>) -> Range<u64> {
        let [[image, row], [last_image, last_row]] =
            [y.start, y.end - 1].map(|row| self.start(row));
        let last = (last_image + self.images - 1) * self.height + last_row + self.rows;
        image * self.height + row..last
    }
}

/// The axis that [`Project`](super::Project) reduces: the input is `[.., count, inner]` elements,
/// and the output is `[.., inner]`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[bytemuck(crate = "trijet::bytemuck")]
#[repr(C)]
pub(super) struct ProjectPlan {
    pub(super) count: u64,
    pub(super) inner: u64,
    /// The index of the first element of the input of a call, in the whole input.
    pub(super) first_in: u64,
    /// The index of the first element of the output of a call, in the whole output.
    pub(super) first_out: u64,
}

impl ProjectPlan {
    /// The index in the whole input of the first element that an element of the whole output needs.
    pub(super) fn start(&self, element: u64) -> u64 {
        element / self.inner * self.count * self.inner + element % self.inner
    }

    /// The elements of the whole input that elements of the whole output need. `y` is not empty.
    pub(super) fn elements_in(&self, y: Range<u64>) -> Range<u64> {
        self.start(y.start)..self.start(y.end - 1) + (self.count - 1) * self.inner + 1
    }
}
