//! The operations computed element by element, from their definitions.

use std::cmp::Ordering;
use trijet::Dtype;
use trijet::kernels::median::Edges;
use trijet_ops::Typed;

/// An array with the bytes of its elements.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) bytes: &'a [u8],
    volumes: usize,
    depth: usize,
    height: usize,
    width: usize,
}

/// A real number of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

/// The indices from `more` before the first to `more` after the last of `length`, as the
/// documentation of `scipy.ndimage` draws them. `None` stands for a zero.
pub(crate) fn continued(edges: Edges, length: usize, more: usize) -> Vec<Option<usize>> {
    let forth: Vec<usize> = (0..length).collect();
    let back: Vec<usize> = forth.iter().rev().copied().collect();
    let inner = back.get(1..length.max(2) - 1).unwrap_or_default();
    let period = match edges {
        Edges::Nearest | Edges::Constant => {
            let end = |index| if edges == Edges::Nearest { Some(index) } else { None };
            let mut line = vec![end(0); more];
            line.extend(forth.into_iter().map(Some));
            line.extend(vec![end(length - 1); more]);
            return line;
        }
        Edges::Reflect => [&forth[..], &back].concat(),
        Edges::Mirror => [&forth[..], inner].concat(),
        Edges::Wrap => forth,
    };
    let times = more.div_ceil(period.len());
    let endless = period.repeat(2 * times + length);
    endless[times * period.len() - more..][..2 * more + length].iter().copied().map(Some).collect()
}

impl<'a> Elements<'a> {
    pub(crate) fn new(array: &Typed, bytes: &'a [u8]) -> Self {
        let mut shape: Vec<usize> = array.shape.iter().map(|&axis| axis as usize).collect();
        if shape.len() == 1 {
            shape.push(1);
        }
        while shape.len() < 4 {
            shape.insert(0, 1);
        }
        let &[ref outer @ .., depth, height, width] = &shape[..] else { unreachable!() };
        let volumes = outer.iter().product();
        Self { dtype: array.dtype, bytes, volumes, depth, height, width }
    }

    fn size(&self) -> usize {
        self.dtype.bytes() as usize
    }

    /// Replaces every element by what `of` makes of the window around it.
    pub(crate) fn map_windows(
        &self,
        radius: [u32; 3],
        edges: Edges,
        of: impl Fn(&[&[u8]]) -> Vec<u8>,
    ) -> Vec<u8> {
        if self.bytes.is_empty() {
            return Vec::new();
        }
        let [rz, ry, rx] = radius.map(|r| r as usize);
        let zero = vec![0; self.size()];
        let images = continued(edges, self.depth, rz);
        let rows = continued(edges, self.height, ry);
        let columns = continued(edges, self.width, rx);
        let mut found = Vec::new();
        for volume in 0..self.volumes {
            for place in 0..self.depth * self.height * self.width {
                let (z, rest) =
                    (place / (self.height * self.width), place % (self.height * self.width));
                let (y, x) = (rest / self.width, rest % self.width);
                let mut window = Vec::new();
                for z in &images[z..z + 2 * rz + 1] {
                    for y in &rows[y..y + 2 * ry + 1] {
                        for x in &columns[x..x + 2 * rx + 1] {
                            window.push(match (z, y, x) {
                                (Some(z), Some(y), Some(x)) => self.element(volume, *z, *y, *x),
                                _ => &zero[..],
                            });
                        }
                    }
                }
                found.extend(of(&window));
            }
        }
        found
    }

    fn element(&self, volume: usize, z: usize, y: usize, x: usize) -> &'a [u8] {
        let index = ((volume * self.depth + z) * self.height + y) * self.width + x;
        &self.bytes[index * self.size()..][..self.size()]
    }

    /// The element of rank `rank` of a window.
    pub(crate) fn ranked(&self, window: &[&[u8]], rank: usize) -> Vec<u8> {
        let mut window = window.to_vec();
        window.sort_by(|a, b| order(self.dtype, a, b));
        canonical(self.dtype, window[rank])
    }
}

/// The value of an element.
pub(crate) fn number(dtype: Dtype, element: &[u8]) -> Number {
    let mut wide = [0; 16];
    wide[..element.len()].copy_from_slice(element);
    let bits = i128::from_le_bytes(wide);
    let shift = 128 - 8 * element.len() as u32;
    match dtype.name() {
        "f16" => Number::Float(small_float(bits as u64, 5, 10)),
        "bf16" => Number::Float(small_float(bits as u64, 8, 7)),
        "f32" => Number::Float(f64::from(f32::from_bits(bits as u32))),
        "f64" => Number::Float(f64::from_bits(bits as u64)),
        signed if signed.starts_with('i') => Number::Integer(bits << shift >> shift),
        _ => Number::Integer(bits),
    }
}

/// The value of a float with these numbers of bits.
fn small_float(bits: u64, exponent_bits: u32, fraction_bits: u32) -> f64 {
    let fraction = (bits & ((1 << fraction_bits) - 1)) as f64 / f64::from(1 << fraction_bits);
    let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let magnitude = if exponent == (1 << exponent_bits) - 1 {
        if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
    } else if exponent == 0 {
        fraction * f64::from(1 - bias).exp2()
    } else {
        (1.0 + fraction) * f64::from(exponent - bias).exp2()
    };
    if bits >> (exponent_bits + fraction_bits) & 1 == 1 { -magnitude } else { magnitude }
}

/// The order of the elements: NaN is above all numbers, and -0 below 0.
pub(crate) fn order(dtype: Dtype, a: &[u8], b: &[u8]) -> Ordering {
    match (number(dtype, a), number(dtype, b)) {
        (Number::Integer(a), Number::Integer(b)) => a.cmp(&b),
        (Number::Float(a), Number::Float(b)) => a.is_nan().cmp(&b.is_nan()).then(if a.is_nan() {
            Ordering::Equal
        } else {
            a.total_cmp(&b)
        }),
        _ => unreachable!("one array has one type"),
    }
}

/// The bytes of an element of the output: a NaN has all bits but the sign.
pub(crate) fn canonical(dtype: Dtype, element: &[u8]) -> Vec<u8> {
    let mut bytes = element.to_vec();
    if matches!(number(dtype, element), Number::Float(value) if value.is_nan()) {
        bytes.fill(0xff);
        if let Some(last) = bytes.last_mut() {
            *last = 0x7f;
        }
    }
    bytes
}

/// The value of an element as `f64`.
pub(crate) fn value(dtype: Dtype, element: &[u8]) -> f64 {
    match number(dtype, element) {
        Number::Integer(value) => value as f64,
        Number::Float(value) => value,
    }
}

/// The element with a value: integers drop the fraction, floats are the nearest ones.
pub(crate) fn cut(dtype: Dtype, value: f64) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    if !dtype.name().contains('f') {
        return (value as i128).to_le_bytes()[..size].to_vec();
    }
    if value.is_nan() {
        return canonical(dtype, &[vec![0xff; size - 1], vec![0x7f]].concat());
    }
    match dtype.name() {
        "f64" => value.to_le_bytes().to_vec(),
        "f32" => (value as f32).to_le_bytes().to_vec(),
        _ => {
            // The nearest of all non-negative floats; of two, the one with an even last bit. The
            // largest is infinity, which is as far away as the next power of two would be.
            let infinity = if dtype.name() == "f16" { 0x7c00_u16 } else { 0x7f80 };
            let of = |bits: u16| match number(dtype, &bits.to_le_bytes()) {
                Number::Float(size) if size.is_infinite() && dtype.name() == "f16" => 65536.0,
                Number::Float(size) if size.is_infinite() => 2.0_f64.powi(128),
                Number::Float(size) => size,
                Number::Integer(_) => unreachable!("a float"),
            };
            let size = value.abs().min(of(infinity));
            let (mut least, mut most) = (0, infinity);
            while most - least > 1 {
                let middle = least + (most - least) / 2;
                if of(middle) <= size { least = middle } else { most = middle }
            }
            let (down, up) = (size - of(least), of(most) - size);
            let is_up = up < down || (up == down && most % 2 == 0);
            let bits = if is_up { most } else { least };
            let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
            (sign | bits).to_le_bytes().to_vec()
        }
    }
}

/// The difference of two elements: integers wrap.
pub(crate) fn difference(dtype: Dtype, x: &[u8], y: &[u8]) -> Vec<u8> {
    match (number(dtype, x), number(dtype, y)) {
        (Number::Integer(x), Number::Integer(y)) => {
            (x - y).to_le_bytes()[..dtype.bytes() as usize].to_vec()
        }
        _ => cut(dtype, value(dtype, x) - value(dtype, y)),
    }
}
