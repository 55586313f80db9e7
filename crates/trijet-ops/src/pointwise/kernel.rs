//! The declarations of the kernels of `pointwise.cu`.

use super::params::{
    AffineParams, ClipParams, ConvertParams, FieldParams, RescaleParams, SwapParams,
    ThresholdParams,
};
use super::twin;
use crate::call::{Checked, bytes_moved, bytes_of, line};
use trijet::kernels::{ArgBlock, Code, KernelSpec, Shape, Tile, Twin};
use trijet::{Kernel, LaunchConfig, Result};

/// The device code, generated from `pointwise.cu`.
const PTX: &str = include_str!("pointwise.ptx");

/// The number of bytes of the output that a call of a twin computes. A multiple of the size of
/// every element.
const TILE_BYTES: u64 = 64 * 1024;

const fn spec(
    name: &'static str,
    shape: fn(&ArgBlock) -> Result<LaunchConfig>,
    check: fn(&ArgBlock) -> Checked,
    run: fn(&mut Tile<'_>),
) -> KernelSpec {
    let twin = Twin { tile_elements: |_| TILE_BYTES, run, cost: bytes_moved };
    KernelSpec::new(name, Code::ptx(PTX), Shape::Computed(shape)).check(check).twin(twin)
}

/// Checks that the first and the last span have the same number of elements, of these sizes.
fn equal_elements(args: &ArgBlock, x_bytes: u64, y_bytes: u64) -> Checked {
    let spans = args.spans();
    let (x, y) = (spans[0].bytes(), spans[spans.len() - 1].bytes());
    let is_whole = x.is_multiple_of(x_bytes) && y.is_multiple_of(y_bytes);
    if is_whole && x / x_bytes == y / y_bytes {
        return Ok(());
    }
    Err(format!(
        "spans of {x} and {y} bytes do not have the same number of elements of {x_bytes} and \
         {y_bytes} bytes"
    ))
}

/// The check of kernels whose arguments start with the type of x and the type of y.
fn check_two_types(args: &ArgBlock) -> Checked {
    equal_elements(args, bytes_of(args, 0)?, bytes_of(args, 1)?)
}

/// The check of kernels whose first argument is the type of x and of y.
fn check_one_type(args: &ArgBlock) -> Checked {
    let bytes = bytes_of(args, 0)?;
    equal_elements(args, bytes, bytes)
}

fn check_swap(args: &ArgBlock) -> Checked {
    match args.scalar::<u32>(0) {
        bytes @ (1 | 2 | 4 | 8) => equal_elements(args, bytes.into(), bytes.into()),
        other => Err(format!("elements of {other} bytes; the sizes are 1, 2, 4 and 8")),
    }
}

fn check_threshold(args: &ArgBlock) -> Checked {
    for index in [2, 3] {
        let value = args.scalar::<u32>(index);
        if value > 255 {
            return Err(format!("the value {value} of the output is more than 255"));
        }
    }
    equal_elements(args, bytes_of(args, 0)?, 1)
}

fn check_field(args: &ArgBlock) -> Checked {
    let area = args.scalar::<u64>(3);
    for image in &args.spans()[1..3] {
        if area == 0 || ![0, area].contains(&image.elements) {
            let cause = format!("an image of {} pixels, and not {area}", image.elements);
            return Err(cause);
        }
    }
    check_two_types(args)
}

/// One thread for each element of the output, whose size is in elements of `bytes` bytes.
fn threads(args: &ArgBlock, bytes: u64) -> Result<LaunchConfig> {
    let spans = args.spans();
    Ok(line(spans[spans.len() - 1].bytes() / bytes.max(1)))
}

fn shape_of_first(args: &ArgBlock) -> Result<LaunchConfig> {
    threads(args, bytes_of(args, 0).unwrap_or(1))
}

fn shape_of_second(args: &ArgBlock) -> Result<LaunchConfig> {
    threads(args, bytes_of(args, 1).unwrap_or(1))
}

/// One thread for each run of eight elements, `RUN` in `pointwise.cu`.
fn shape_of_runs(args: &ArgBlock) -> Result<LaunchConfig> {
    let spans = args.spans();
    let elements = spans[spans.len() - 1].bytes() / bytes_of(args, 1).unwrap_or(1);
    Ok(line(elements.div_ceil(8)))
}

fn shape_of_swap(args: &ArgBlock) -> Result<LaunchConfig> {
    threads(args, args.scalar::<u32>(0).into())
}

fn shape_of_bytes(args: &ArgBlock) -> Result<LaunchConfig> {
    threads(args, 1)
}

/// `y[i]` is `x[i]` as an element of another type.
pub(super) static CONVERT: Kernel<ConvertParams> =
    // SAFETY: `convert` takes (u32, u32, const u8*, u64, u8*, u64), and accesses the elements that
    // both spans have whole, in units of 16 bytes only where both addresses are aligned for them.
    // The check refuses an unknown type.
    unsafe { Kernel::declare(spec("convert", shape_of_runs, check_two_types, twin::convert)) };

/// `y[i]` is `x[i]` with its bytes in the other order.
pub(super) static SWAP: Kernel<SwapParams> =
    // SAFETY: `swap` takes (u32, const u8*, u64, u8*, u64), and accesses the whole elements of the
    // shorter span. The check refuses a size that the kernel would take for 8 bytes.
    unsafe { Kernel::declare(spec("swap", shape_of_swap, check_swap, twin::swap)) };

/// `y[i] = scale * x[i] + offset`
pub(super) static AFFINE: Kernel<AffineParams> =
    // SAFETY: `affine` takes (u32, double, double, const u8*, u64, u8*, u64), and accesses the
    // whole elements of the shorter span.
    unsafe { Kernel::declare(spec("affine", shape_of_first, check_one_type, twin::affine)) };

/// `y[i]` is `x[i]`, mapped from one range to another.
pub(super) static RESCALE: Kernel<RescaleParams> =
    // SAFETY: `rescale` takes (u32, u32, double, double, double, double, const u8*, u64, u8*, u64),
    // and accesses elements below the smaller of both numbers of elements.
    unsafe {
        Kernel::declare(spec("rescale", shape_of_second, check_two_types, twin::rescale))
    };

/// `y[i]` is `x[i]`, held to a range.
pub(super) static CLIP: Kernel<ClipParams> =
    // SAFETY: `clip` takes (u32, u64, u64, const u8*, u64, u8*, u64), and never leaves the shorter
    // span.
    unsafe { Kernel::declare(spec("clip", shape_of_first, check_one_type, twin::clip)) };

/// `y[i]` is a byte that states whether `x[i]` is above a value.
pub(super) static THRESHOLD: Kernel<ThresholdParams> =
    // SAFETY: `threshold` takes (u32, u64, u32, u32, const u8*, u64, u8*, u64). It writes a byte of
    // y for each whole element of x, and stops at the end of y.
    unsafe {
        Kernel::declare(spec("threshold", shape_of_bytes, check_threshold, twin::threshold))
    };

/// `y[i] = scale * (x[i] - dark[p]) / (flat[p] - dark[p])`, where `p` is the pixel of `x[i]`.
pub(super) static FIELD: Kernel<FieldParams> =
    // SAFETY: `field` takes (u32, u32, u64, u64, double, const u8*, u64, const double*, u64, const
    // double*, u64, u8*, u64). It reads an image only if the image has `area` pixels, at an index
    // below `area`.
    unsafe { Kernel::declare(spec("field", shape_of_second, check_field, twin::field)) };
