//! The declarations of the kernels of `shape.cu` and `project.cu`.

use super::how::Projection;
use super::params::{BinParams, BinPlan, CropParams, CropPlan, ProjectParams, ProjectPlan};
use super::twin;
use crate::call::{Checked, THREADS, bytes_moved, bytes_of, line};
use trijet::kernels::{ArgBlock, Code, KernelSpec, Shape, Twin};
use trijet::{Kernel, LaunchConfig, Result};

/// The device code, generated from `shape.cu`.
const PTX: &str = include_str!("shape.ptx");

/// The device code, generated from `project.cu`. It is not a part of `shape.ptx`, because a driver
/// compiles it longer than the others.
const PROJECT_PTX: &str = include_str!("project.ptx");

/// The number of bytes of the output that a call of a twin computes. A multiple of the size of
/// every element.
const TILE_BYTES: u64 = 16 * 1024;

/// Maximum number of blocks of a projection. A GPU runs fewer at once.
const PROJECT_BLOCKS_MAX: u64 = 4096;

/// Refuses divisors of the kernels that are 0.
fn check_divisors(divisors: &[u64]) -> Checked {
    if divisors.contains(&0) { Err("a length of the plan is 0".to_owned()) } else { Ok(()) }
}

fn check_crop(args: &ArgBlock) -> Checked {
    let (bytes, plan) = (args.scalar::<u32>(0), args.scalar::<CropPlan>(1));
    if ![1, 2, 4, 8].contains(&bytes) {
        return Err(format!("units of {bytes} bytes; the sizes are 1, 2, 4 and 8"));
    }
    check_divisors(&[plan.out_width, plan.out_height])
}

fn check_bin(args: &ArgBlock) -> Checked {
    bytes_of(args, 0)?;
    bytes_of(args, 1)?;
    let plan = args.scalar::<BinPlan>(3);
    let BinPlan { images, rows, columns, depth, height, width, .. } = plan;
    check_divisors(&[images, rows, columns])?;
    check_divisors(&[depth / images, height / rows, width / columns])
}

fn check_project(args: &ArgBlock) -> Checked {
    bytes_of(args, 0)?;
    bytes_of(args, 1)?;
    let (how, plan) = (args.scalar::<u32>(2), args.scalar::<ProjectPlan>(3));
    if Projection::numbered(how).is_none() {
        return Err(format!("{how} is not the number of a projection"));
    }
    check_divisors(&[plan.count, plan.inner])
}

/// One thread for each element of the output, whose size is in elements of `bytes` bytes.
fn threads(args: &ArgBlock, bytes: u64) -> Result<LaunchConfig> {
    Ok(line(args.spans()[1].bytes() / bytes.max(1)))
}

/// One thread for every eight units, `IN_FLIGHT` in `shape.cu`. The last blocks have none where the
/// kernel copies larger units.
fn shape_of_units(args: &ArgBlock) -> Result<LaunchConfig> {
    let units = args.spans()[1].bytes() / u64::from(args.scalar::<u32>(0).max(1));
    Ok(line(units.div_ceil(8)))
}

fn shape_of_elements(args: &ArgBlock) -> Result<LaunchConfig> {
    threads(args, bytes_of(args, 1).unwrap_or(1))
}

/// A block for up to 32 elements of the output beside each other, which share their elements of the
/// input among the threads of the block. A block may take many such groups.
fn shape_of_projection(args: &ArgBlock) -> Result<LaunchConfig> {
    let outputs = args.spans()[1].bytes() / bytes_of(args, 1).unwrap_or(1);
    let ProjectPlan { inner, .. } = args.scalar(3);
    let blocks = outputs.div_ceil(inner.clamp(1, 32)).min(PROJECT_BLOCKS_MAX);
    Ok(line(blocks * THREADS))
}

macro_rules! spec {
    ($name:literal, $ptx:ident, $shape:ident, $check:ident, $run:ident) => {
        KernelSpec::new($name, Code::ptx($ptx), Shape::Computed($shape)).check($check).twin(Twin {
            tile_elements: |_| TILE_BYTES,
            run: twin::$run,
            cost: bytes_moved,
        })
    };
}

/// Copies a part of each image.
pub(super) static CROP: Kernel<CropParams> =
    // SAFETY: `crop` takes (u32, CropPlan, const u8*, u64, u8*, u64). It chooses units for which
    // both addresses are aligned, holds each index of x to the last unit of x, and stores no unit
    // beyond the last whole unit of y.
    unsafe { Kernel::declare(spec!("crop", PTX, shape_of_units, check_crop, crop)) };

/// Reduces the elements of windows that do not overlap.
pub(super) static BIN: Kernel<BinParams> =
    // SAFETY: `bin` takes (u32, u32, u32, BinPlan, const u8*, u64, u8*, u64). Whatever the plan is,
    // an index of x is held to its elements, and each thread writes its own elements of y.
    unsafe { Kernel::declare(spec!("bin", PTX, shape_of_elements, check_bin, bin)) };

/// Reduces the elements along an axis.
pub(super) static PROJECT: Kernel<ProjectParams> =
    // SAFETY: `project` takes (u32, u32, u32, ProjectPlan, const u8*, u64, u8*, u64). It reads x
    // below `x_len / bytes_of(from)` elements, in units of 16 bytes only where x is aligned for
    // them, and writes y below `y_len / bytes_of(to)`.
    unsafe {
        Kernel::declare(spec!("project", PROJECT_PTX, shape_of_projection, check_project, project))
    };
