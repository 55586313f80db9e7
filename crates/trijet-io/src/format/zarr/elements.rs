//! The element types of Zarr, and fill values.

use super::reason::{Checked, Reason};
use serde_json::Value;
use trijet::Dtype;

/// A row of the table of element types.
#[derive(Debug)]
struct TypeRow {
    /// The name in Zarr v3.
    name: &'static str,
    /// The code in Zarr v2 without the byte order.
    code: &'static str,
    /// The name of the [`Dtype`].
    dtype: &'static str,
    /// The size in bytes of the parts that have a byte order.
    part_bytes: usize,
}

const fn row(
    name: &'static str,
    code: &'static str,
    dtype: &'static str,
    part_bytes: usize,
) -> TypeRow {
    TypeRow { name, code, dtype, part_bytes }
}

const TYPES: [TypeRow; 15] = [
    // A boolean value is a byte with 0 or 1.
    row("bool", "b1", "u8", 1),
    row("uint8", "u1", "u8", 1),
    row("int8", "i1", "i8", 1),
    row("uint16", "u2", "u16", 2),
    row("int16", "i2", "i16", 2),
    row("uint32", "u4", "u32", 4),
    row("int32", "i4", "i32", 4),
    row("uint64", "u8", "u64", 8),
    row("int64", "i8", "i64", 8),
    row("float16", "f2", "f16", 2),
    // NumPy has no bf16. The package ml_dtypes writes the code `V2`.
    row("bfloat16", "V2", "bf16", 2),
    row("float32", "f4", "f32", 4),
    row("float64", "f8", "f64", 8),
    row("complex64", "c8", "c64", 4),
    row("complex128", "c16", "c128", 8),
];

/// The type of the elements of a stored array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredType {
    pub(super) dtype: Dtype,
    /// The size in bytes of the parts that have a byte order. A complex number has two parts.
    pub(super) part_bytes: usize,
    /// The name in Zarr v3.
    name: &'static str,
}

impl StoredType {
    /// The type with this name in Zarr v3.
    pub(super) fn of_name(name: &str) -> Checked<Self> {
        let found = TYPES.iter().find(|row| row.name == name);
        Self::of(found, name)
    }

    /// The type with this code in Zarr v2, such as `<u2`, and whether it is big-endian.
    pub(super) fn of_code(code: &str) -> Checked<(Self, bool)> {
        let rest = code.strip_prefix(['<', '>', '|']);
        // `|V2` is two bytes without a meaning.
        let is_of = |row: &&TypeRow| (Some(row.code) == rest && code != "|V2") || row.name == code;
        let found = TYPES.iter().find(is_of);
        Ok((Self::of(found, code)?, code.starts_with('>')))
    }

    /// The type of the numbers in the index of a shard.
    pub(super) fn of_number() -> Self {
        Self { dtype: Dtype::U64, part_bytes: 8, name: "uint64" }
    }

    fn of(found: Option<&TypeRow>, name: &str) -> Checked<Self> {
        let refused = || {
            let names = Dtype::ALL.map(Dtype::numpy_name).join(", ");
            Reason::Refused(format!("the elements have the type {name}; {names} are supported"))
        };
        let row = found.ok_or_else(refused)?;
        let dtype = Dtype::ALL.into_iter().find(|dtype| dtype.name() == row.dtype);
        let dtype = dtype.ok_or_else(refused)?;
        Ok(Self { dtype, part_bytes: row.part_bytes, name: row.name })
    }

    /// The bytes of an element with this fill value, in little-endian order. A fill value of `null`
    /// leaves the elements undefined; they are 0 here.
    pub(super) fn fill(self, value: &Value) -> Checked<Vec<u8>> {
        let parts = match value {
            Value::Array(parts) if self.is_complex() && parts.len() == 2 => parts.as_slice(),
            // A real number without an imaginary part.
            value => std::slice::from_ref(value),
        };
        let invalid = || {
            let text: String = value.to_string().chars().take(40).collect();
            Reason::Damaged(format!("the fill value {text} is not a {}", self.name))
        };
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend(self.part(part).ok_or_else(invalid)?);
        }
        bytes.resize(usize::try_from(self.dtype.bytes()).unwrap_or(0), 0);
        Ok(bytes)
    }

    fn is_complex(self) -> bool {
        self.part_bytes as u64 != self.dtype.bytes()
    }

    /// The little-endian bytes of a part of an element.
    fn part(self, value: &Value) -> Option<Vec<u8>> {
        let bytes = self.part_bytes;
        match value {
            Value::Null => return Some(vec![0; bytes]),
            Value::Bool(value) if self.name == "bool" => return Some(vec![u8::from(*value)]),
            // The bits of a number, such as a NaN with a payload.
            Value::String(text) if text.starts_with("0x") && self.is_float() => {
                let bits = u64::from_str_radix(&text[2..], 16).ok()?;
                let fits = bytes == 8 || bits >> (8 * bytes) == 0;
                return fits.then(|| bits.to_le_bytes()[..bytes].to_vec());
            }
            _ => {}
        }
        if !self.is_float() {
            return self.integer(value);
        }
        let number = match value {
            Value::String(text) => match text.as_str() {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                _ => return None,
            },
            value => value.as_f64()?,
        };
        Some(match (bytes, self.dtype.name()) {
            (2, "bf16") => narrow(number, 8, 7).to_le_bytes().to_vec(),
            (2, _) => narrow(number, 5, 10).to_le_bytes().to_vec(),
            #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is the value")]
            (4, _) => (number as f32).to_le_bytes().to_vec(),
            _ => number.to_le_bytes().to_vec(),
        })
    }

    fn is_float(self) -> bool {
        ["float", "bfloat", "complex"].iter().any(|start| self.name.starts_with(start))
    }

    /// The little-endian bytes of an integer, if the type has this number.
    fn integer(self, value: &Value) -> Option<Vec<u8>> {
        // Some writers state the fill value of integers as `0.0`.
        let number = match (value.as_i64(), value.as_u64(), value.as_f64()) {
            (Some(number), ..) => i128::from(number),
            (_, Some(number), _) => i128::from(number),
            (.., Some(0.0)) => 0,
            _ => return None,
        };
        let bits = 8 * self.dtype.bytes();
        let range = match (self.name, self.name.starts_with("int")) {
            ("bool", _) => 0..=1,
            (_, true) => -(1_i128 << (bits - 1))..=(1 << (bits - 1)) - 1,
            (_, false) => 0..=(1 << bits) - 1,
        };
        range.contains(&number).then(|| number.to_le_bytes()[..self.part_bytes].to_vec())
    }
}

/// The bits of the nearest number with a sign, `exponent` bits and `fraction` bits, as in IEEE 754.
/// Of two nearest numbers, the one with an even fraction.
fn narrow(number: f64, exponent: u32, fraction: u32) -> u16 {
    let sign = u16::from(number.is_sign_negative()) << 15;
    let infinity = ((1_u16 << exponent) - 1) << fraction;
    if number.is_nan() {
        return sign | infinity | 1 << (fraction - 1);
    }
    let bias = (1_i32 << (exponent - 1)) - 1;
    // The exponent of the smallest normal number is also the exponent of all subnormal numbers.
    let power = if number == 0.0 { 1 - bias } else { exponent_of(number).max(1 - bias) };
    let unit = 2_f64.powi(power - fraction.cast_signed());
    // A power of two divides without an error. The sum of both parts carries into the exponent.
    let units = (number.abs() / unit).round_ties_even();
    let low = f64::from((power + bias - 1) << fraction) + units;
    if !low.is_finite() || low >= f64::from(infinity) {
        return sign | infinity;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is an integer from 0 to the bits of infinity"
    )]
    let low = low as u16;
    sign | low
}

/// The exponent of a number that is not 0 and not NaN, as of a power of two.
fn exponent_of(number: f64) -> i32 {
    let bits = (number.to_bits() >> 52) & 0x7ff;
    i32::try_from(bits).unwrap_or(0) - 1023
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(name: &str, value: Value) -> Option<Vec<u8>> {
        StoredType::of_name(name).ok()?.fill(&value).ok()
    }

    #[test]
    fn a_fill_value_has_the_bytes_of_an_element() {
        assert_eq!(fill("uint16", json!(258)), Some(vec![2, 1]));
        assert_eq!(fill("uint8", json!(0.0)), Some(vec![0]));
        assert_eq!(fill("uint8", Value::Null), Some(vec![0]));
        assert_eq!(fill("bool", json!(true)), Some(vec![1]));
        assert_eq!(fill("float32", json!(1.5)), Some(1.5_f32.to_le_bytes().to_vec()));
        assert_eq!(fill("float32", json!("0x7fc00001")), Some(vec![1, 0, 0xc0, 0x7f]));
        assert_eq!(fill("float32", json!("Infinity")), Some(vec![0, 0, 0x80, 0x7f]));
        assert_eq!(fill("float32", json!("-Infinity")), Some(vec![0, 0, 0x80, 0xff]));
        let nan = fill("float32", json!("NaN")).unwrap();
        assert!(f32::from_le_bytes(nan.try_into().unwrap()).is_nan());
    }

    #[test]
    fn a_fill_value_of_another_type_is_refused() {
        for (name, value) in [
            ("uint8", json!(256)),
            ("uint8", json!(-1)),
            ("uint8", json!("0x10")),
            ("uint8", json!(true)),
            ("uint8", json!([1, 2])),
            ("uint16", json!(1.5)),
            ("bool", json!(2)),
            ("float32", json!("nan")),
            ("float32", json!("0x1_0000_0000")),
            ("float32", json!("0x100000000")),
            ("float32", json!({"a": 1})),
        ] {
            assert_eq!(fill(name, value.clone()), None, "{name} {value}");
        }
    }

    #[test]
    fn half_precision_is_rounded_to_the_nearest_number() {
        let half = |number| narrow(number, 5, 10);
        for (number, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (1e300, 0x7c00),
            (f64::INFINITY, 0x7c00),
            (f64::NEG_INFINITY, 0xfc00),
            (6.103_515_625e-5, 0x0400),
            (5.960_464_477_539_063e-8, 0x0001),
            (2.980_232_238_769_531_3e-8, 0x0000),
            (2.980_232_238_769_532e-8, 0x0001),
            (5e-324, 0),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (0.333_251_953_125, 0x3555),
        ] {
            assert_eq!(half(number), bits, "{number}");
        }
        assert_eq!(half(f64::NAN), 0x7e00);
    }

    /// The bits of an f32 that bf16 has as well are the upper half of its bits.
    #[test]
    fn bf16_has_the_upper_bits_of_f32() {
        for bits in (0..=u16::MAX).step_by(7) {
            let number = f32::from_bits(u32::from(bits) << 16);
            if !number.is_nan() {
                assert_eq!(narrow(f64::from(number), 8, 7), bits, "{number}");
            }
        }
    }
}
