//! The computations of the kernels of `pointwise.cu`, over slices.
#![forbid(unsafe_code)]

use super::params::{
    AffineParams, ClipParams, ConvertParams, FieldParams, RescaleParams, SwapParams,
    ThresholdParams,
};
use crate::elements::{
    Element, Reading, RealType, elements, read, single, with_element, write, write_whole,
};
use trijet::kernels::Tile;

/// Writes one element after another: the results of `map` for the elements of the input from index
/// `first / B::BYTES` on. `first` is the index of the first byte of `y` in the whole output.
fn map<A: Element, B: Element>(x: &[u8], first: usize, y: &mut [u8], map: impl Fn(A) -> B) {
    let start = (first / B::BYTES * A::BYTES).min(x.len());
    for (y, x) in y.chunks_exact_mut(B::BYTES).zip(elements::<A>(&x[start..])) {
        map(x).write(y);
    }
}

/// The number of elements of a block.
const BLOCK: usize = 256;

/// The input of [`blocks`].
struct Input<'a> {
    of: RealType,
    reading: Reading,
    x: &'a [u8],
}

/// Writes one block after another: the results of `change` for the values of the input, in place.
/// `change` gets the index of the first value in the whole output. `first` is the index of the
/// first byte of `y` in the whole output.
fn blocks(
    input: &Input<'_>,
    to: RealType,
    first: usize,
    y: &mut [u8],
    change: impl Fn(usize, &mut [f64]),
) {
    let Input { of: from, reading, x } = *input;
    let [from_bytes, to_bytes] = [from, to].map(RealType::size);
    let mut values = [0.0; BLOCK];
    let mut at = first / to_bytes;
    for y in y.chunks_mut(BLOCK * to_bytes) {
        let values = &mut values[..y.len() / to_bytes];
        read(from, reading, &x[at * from_bytes..], values);
        change(at, values);
        write(to, values, y);
        at += values.len();
    }
}

/// The twin of `convert`.
pub(super) fn convert(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (from, to, x, y) = tile.args::<ConvertParams>();
    let (from, to) = (RealType::known(from), RealType::known(to));
    if from == to {
        y.copy_from_slice(&x[first..][..y.len()]);
    } else if let (Some(_), Some(limits)) = (from.limits(), to.limits()) {
        let [least, most] = limits;
        let start = first / to.size() * from.size();
        with_element!(from, A => {
            for (y, x) in y.chunks_mut(BLOCK * to.size()).zip(x[start..].chunks(BLOCK * A::BYTES)) {
                let mut values = [0; BLOCK];
                let held = elements::<A>(x).map(|v| v.whole().clamp(least, most));
                values.iter_mut().zip(held).for_each(|(value, v)| *value = v);
                write_whole(to, &values, y);
            }
        });
    } else {
        let reading = if to == RealType::F64 { Reading::Nearest } else { Reading::Odd };
        blocks(&Input { of: from, reading, x }, to, first, y, |_, _| {});
    }
}

/// The twin of `swap`.
pub(super) fn swap(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (bytes, x, y) = tile.args::<SwapParams>();
    y.copy_from_slice(&x[first..][..y.len()]);
    match bytes {
        2 => y.chunks_exact_mut(2).for_each(<[u8]>::reverse),
        4 => y.chunks_exact_mut(4).for_each(<[u8]>::reverse),
        8 => y.chunks_exact_mut(8).for_each(<[u8]>::reverse),
        _ => {}
    }
}

/// The twin of `affine`.
pub(super) fn affine(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (of, scale, offset, x, y) = tile.args::<AffineParams>();
    let (short_scale, short_offset) = (single(scale), single(offset));
    with_element!(RealType::known(of), A => {
        if RealType::known(of).is_short() {
            map(x, first, y, |v: A| {
                A::nearest((short_scale * single(v.real()) + short_offset).into())
            });
        } else {
            map(x, first, y, |v: A| A::nearest(scale * v.real() + offset));
        }
    });
}

/// `v`, or the bound beyond which `v` is. NaN stays NaN.
fn held(v: f64, low: f64, high: f64) -> f64 {
    if v < low {
        low
    } else if v > high {
        high
    } else {
        v
    }
}

/// The twin of `rescale`.
pub(super) fn rescale(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (from, to, low, high, to_low, to_high, x, y) = tile.args::<RescaleParams>();
    let input = Input { of: RealType::known(from), reading: Reading::Nearest, x };
    blocks(&input, RealType::known(to), first, y, |_, values| {
        for v in values {
            *v = (held(*v, low, high) - low) / (high - low) * (to_high - to_low) + to_low;
        }
    });
}

/// The integer whose 64 bits, extended with the sign of the type, are `word`.
fn integer(of: RealType, word: u64) -> i128 {
    let is_signed = of.limits().is_some_and(|[least, _]| least < 0);
    if is_signed { word.cast_signed().into() } else { word.into() }
}

/// The twin of `clip`.
pub(super) fn clip(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (of, low, high, x, y) = tile.args::<ClipParams>();
    let real = RealType::known(of);
    with_element!(real, A => {
        if A::IS_INTEGER {
            let (low, high) = (integer(real, low), integer(real, high));
            map(x, first, y, |v: A| A::wrapped(v.whole().clamp(low, high.max(low))));
        } else {
            let (low, high) = (f64::from_bits(low), f64::from_bits(high));
            map(x, first, y, |v: A| A::nearest(held(v.real(), low, high)));
        }
    });
}

/// The twin of `threshold`.
#[expect(clippy::cast_possible_truncation, reason = "the check refuses values of more than a byte")]
pub(super) fn threshold(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (of, above, low, high, x, y) = tile.args::<ThresholdParams>();
    let (real, low, high) = (RealType::known(of), low as u8, high as u8);
    with_element!(real, A => {
        if A::IS_INTEGER {
            let above = integer(real, above);
            map(x, first, y, |v: A| if v.whole() > above { high } else { low });
        } else {
            let above = f64::from_bits(above);
            map(x, first, y, |v: A| if v.real() > above { high } else { low });
        }
    });
}

/// The twin of `field`.
pub(super) fn field(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (from, to, first_pixel, area, scale, x, dark, flat, y) = tile.args::<FieldParams>();
    let image = |all: &[f64], at: u64| all.get(usize::try_from(at).ok()?).copied();
    let input = Input { of: RealType::known(from), reading: Reading::Nearest, x };
    blocks(&input, RealType::known(to), first, y, |index, values| {
        let mut at = (first_pixel % area + index as u64) % area;
        for v in values {
            let offset = image(dark, at).unwrap_or(0.0);
            let lit = *v - offset;
            let divided = |flat: f64| {
                let divisor = flat - offset;
                if divisor == 0.0 { 0.0 } else { lit / divisor }
            };
            *v = scale * image(flat, at).map_or(lit, divided);
            at = if at + 1 == area { 0 } else { at + 1 };
        }
    });
}
