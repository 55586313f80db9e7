//! The values of elements, decoded and encoded in other ways than the operations do.

use std::sync::LazyLock;
use trijet::Dtype;

/// The real types of arrays.
pub(crate) const REAL: [Dtype; 12] = [
    Dtype::U8,
    Dtype::I8,
    Dtype::U16,
    Dtype::I16,
    Dtype::U32,
    Dtype::I32,
    Dtype::U64,
    Dtype::I64,
    Dtype::F16,
    Dtype::BF16,
    Dtype::F32,
    Dtype::F64,
];

/// The value of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Whole(i128),
    Real(f64),
}

impl Value {
    /// The value in `f64`, rounded to nearest.
    pub(crate) fn real(self) -> f64 {
        match self {
            Self::Whole(v) => v as f64,
            Self::Real(v) => v,
        }
    }

    /// Whether the value is above `bound`.
    pub(crate) fn is_above(self, bound: f64) -> bool {
        match self {
            Self::Real(v) => v > bound,
            // The cast of an infinity gives a limit of `i128`.
            Self::Whole(v) => v > bound.floor() as i128,
        }
    }
}

/// The number of bits of an integer type, and whether it is signed.
fn integer(dtype: Dtype) -> Option<(u32, bool)> {
    let name = dtype.name();
    let bits = name[1..].parse().ok()?;
    match &name[..1] {
        "u" => Some((bits, false)),
        "i" => Some((bits, true)),
        _ => None,
    }
}

/// The smallest and the largest integer of a type.
pub(crate) fn limits(dtype: Dtype) -> Option<(i128, i128)> {
    let (bits, is_signed) = integer(dtype)?;
    let half = 1_i128 << (bits - 1);
    Some(if is_signed { (-half, half - 1) } else { (0, 2 * half - 1) })
}

/// The values of a float of 16 bits from its number of bits of the fraction, in order of its bits.
fn table(fraction_bits: u32) -> Vec<f64> {
    let exponent_bits = 15 - fraction_bits;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let step = |exponent: i32| 2_f64.powi(exponent - bias - i32::try_from(fraction_bits).unwrap());
    (0..1_u32 << 15)
        .map(|bits| {
            let (exponent, fraction) = (bits >> fraction_bits, bits % (1 << fraction_bits));
            let (least, most) = (exponent == 0, exponent == (1 << exponent_bits) - 1);
            match (least, most) {
                (true, _) => f64::from(fraction) * step(1),
                (_, true) if fraction == 0 => f64::INFINITY,
                (_, true) => f64::NAN,
                _ => {
                    let whole = f64::from(fraction + (1 << fraction_bits));
                    whole * step(i32::try_from(exponent).unwrap())
                }
            }
        })
        .collect()
}

static F16: LazyLock<Vec<f64>> = LazyLock::new(|| table(10));
static BF16: LazyLock<Vec<f64>> = LazyLock::new(|| table(7));

/// The bits of the entry of a table that is nearest to a value.
fn in_table(table: &[f64], value: Value) -> u16 {
    let sign = match value {
        Value::Whole(v) if v < 0 => 0x8000,
        Value::Real(v) if v.is_sign_negative() => 0x8000,
        _ => 0,
    };
    let size = match value {
        Value::Whole(v) => Value::Whole(v.abs()),
        Value::Real(v) if v.is_nan() => return 0x7fff,
        Value::Real(v) => Value::Real(v.abs()),
    };
    let finite = table.partition_point(|v| *v < f64::INFINITY);
    // The first entry above the value. Beyond the last finite entry, the step stays the same.
    let next = table[finite - 1] * 2.0 - table[finite - 2];
    let entry = |at: usize| if at == finite { next } else { table[at] };
    let above = table[..finite].partition_point(|entry| !less(size, *entry));
    if above == finite && !less(size, next) {
        return sign | u16::try_from(finite).unwrap();
    }
    let (low, high) = (above - 1, above);
    let middle = f64::midpoint(entry(low), entry(high));
    let is_low = less(size, middle) || (!size.is_above(middle) && low % 2 == 0);
    sign | u16::try_from(if is_low { low } else { high }).unwrap()
}

/// Whether a value that is not negative is less than a finite number.
fn less(value: Value, than: f64) -> bool {
    match value {
        Value::Real(v) => v < than,
        Value::Whole(v) => v < than.ceil() as i128,
    }
}

/// The integer nearest to a value, ties to even.
fn nearest(v: f64) -> i128 {
    let floor = v.floor();
    let is_odd = floor % 2.0 != 0.0;
    let up = v - floor > 0.5 || (v - floor == 0.5 && is_odd);
    if v.is_nan() { 0 } else { (floor as i128).saturating_add(i128::from(up)) }
}

/// The bytes of the element that is nearest to a value.
pub(crate) fn encode(dtype: Dtype, value: Value) -> Vec<u8> {
    if let Some((least, most)) = limits(dtype) {
        let whole = match value {
            Value::Whole(v) => v,
            Value::Real(v) => nearest(v),
        };
        let bytes = usize::try_from(dtype.bytes()).unwrap();
        return whole.clamp(least, most).to_le_bytes()[..bytes].to_vec();
    }
    match (dtype, value) {
        (Dtype::F16, value) => in_table(&F16, value).to_le_bytes().to_vec(),
        (Dtype::BF16, value) => in_table(&BF16, value).to_le_bytes().to_vec(),
        (Dtype::F32, Value::Real(v)) if v.is_nan() => 0x7fff_ffff_u32.to_le_bytes().to_vec(),
        (Dtype::F32, Value::Real(v)) => (v as f32).to_le_bytes().to_vec(),
        (Dtype::F32, Value::Whole(v)) => (v as f32).to_le_bytes().to_vec(),
        (_, Value::Real(v)) if v.is_nan() => (u64::MAX / 2).to_le_bytes().to_vec(),
        (_, value) => value.real().to_le_bytes().to_vec(),
    }
}

/// The value of one element.
fn decode_one(dtype: Dtype, bytes: &[u8]) -> Value {
    let word = bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    if let Some((bits, is_signed)) = integer(dtype) {
        let whole = i128::from(word);
        let is_negative = is_signed && word >> (bits - 1) == 1;
        return Value::Whole(if is_negative { whole - (1 << bits) } else { whole });
    }
    let of_table = |table: &[f64]| {
        let size = table[usize::try_from(word & 0x7fff).unwrap()];
        if word >> 15 == 1 { -size } else { size }
    };
    Value::Real(match dtype {
        Dtype::F16 => of_table(&F16),
        Dtype::BF16 => of_table(&BF16),
        Dtype::F32 => f32::from_bits(u32::try_from(word).unwrap()).into(),
        _ => f64::from_bits(word),
    })
}

/// The values of elements.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<Value> {
    let size = usize::try_from(dtype.bytes()).unwrap();
    bytes.chunks_exact(size).map(|bytes| decode_one(dtype, bytes)).collect()
}

#[test]
fn the_tables_are_the_formats() {
    assert_eq!((F16[1], F16[0x3c00], F16[0x7bff]), (2_f64.powi(-24), 1.0, 65504.0));
    assert_eq!((BF16[1], BF16[0x3f80]), (2_f64.powi(-133), 1.0));
    assert_eq!(encode(Dtype::F16, Value::Real(65520.0)), 0x7c00_u16.to_le_bytes());
    assert_eq!(encode(Dtype::F16, Value::Real(65519.9)), 0x7bff_u16.to_le_bytes());
    assert_eq!(encode(Dtype::F16, Value::Whole(2049)), 0x6800_u16.to_le_bytes());
    assert_eq!(encode(Dtype::U8, Value::Real(2.5)), [2]);
}
