//! The values of options, and their parsers.
#![forbid(unsafe_code)]

use clap::ValueEnum;
use std::ops::Range;
use std::str::FromStr;
use trijet::kernels::median::{Edges, RADIUS_MAX};
use trijet::{Bytes, Nanos};
use trijet_tools::command::device::DeviceName;

/// The length of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportLength {
    /// The elapsed time, what limits, and what to do.
    Short,
    /// Every figure of the run.
    Full,
}

/// The length of the report of `trijet map`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MapReport {
    /// Nothing on standard output, if all went well. Warnings, errors and progress are printed.
    None,
    /// How long it took, what limits, and what to do.
    Short,
    /// Every figure of the run.
    Full,
}

/// The devices of `trijet map`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapDevice {
    One(DeviceName),
    /// Every GPU of the host.
    All,
}

impl FromStr for MapDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let one = text.parse().map(Self::One);
        one.map_err(|_| format!("unknown device `{text}`: use auto, all, cuda:N or host"))
    }
}

/// The unit of a number of bytes, in upper or lower case: MiB and M are 2^20 bytes, MB is 10^6.
fn unit_of_bytes(unit: &str) -> Result<u128, String> {
    let unit = unit.to_ascii_lowercase();
    let letters = ["k", "m", "g", "t"];
    let power = letters.iter().zip(1..).find(|(letter, _)| unit.starts_with(**letter));
    match (power, unit.get(1..).unwrap_or("")) {
        (Some((_, power)), "" | "ib") => Ok(1024_u128.pow(power)),
        (Some((_, power)), "b") => Ok(1000_u128.pow(power)),
        (None, "") if unit.is_empty() || unit == "b" => Ok(1),
        _ => {
            Err(format!("unknown unit `{unit}`: use B, KiB, MiB, GiB or TiB, or KB, MB, GB or TB"))
        }
    }
}

/// Parses a number of bytes with an optional unit, including the form in which the command prints
/// sizes: 4194304, 64KiB, 1.5MiB, "1.50 MiB".
pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = unit_of_bytes(&text[digits.len()..])?;
    let wrong = || format!("`{text}` is not a number of bytes");
    let (whole, part) = digits.trim_end().split_once('.').unwrap_or((digits.trim_end(), "0"));
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| !digits.starts_with('+'));
    let (Some(whole), Some(parts), 1..=9) = (number(whole), number(part), part.len()) else {
        return Err(wrong());
    };
    let scale = 10_u128.pow(u32::try_from(part.len()).map_err(|_| wrong())?);
    let parts = u128::from(parts) * unit / scale;
    match u64::try_from(u128::from(whole) * unit + parts) {
        Ok(bytes) if bytes > 0 => Ok(Bytes(bytes)),
        _ => Err(format!("`{text}` is out of range: 1 B to 2^64 - 1 B")),
    }
}

/// Minimum limit of host memory. The program without any chunks already uses more.
const MEMORY_MIN: Bytes = Bytes(1 << 20);

/// Parses a limit of host memory.
pub(crate) fn memory(text: &str) -> Result<Bytes, String> {
    match bytes(text)? {
        few if few < MEMORY_MIN => Err(format!(
            "{few} is less than the program itself uses; write the number with a unit, as in 16GiB"
        )),
        enough => Ok(enough),
    }
}

/// Parses the length of a header, which may be 0.
pub(crate) fn header(text: &str) -> Result<Bytes, String> {
    if text == "0" { Ok(Bytes(0)) } else { bytes(text) }
}

/// A part of the first axis of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    first: u64,
    /// The index after the last index of the part. `None` for the end of the axis.
    end: Option<u64>,
}

impl Slice {
    /// The indices of this part, in an axis of the given length.
    pub(crate) fn of(self, length: u64) -> Range<u64> {
        self.first..self.end.unwrap_or(length)
    }
}

/// Parses a slice as numpy writes it: `10:20`, `10:` or `:20`.
pub(crate) fn slice(text: &str) -> Result<Slice, String> {
    let wrong = || {
        format!(
            "`{text}` is not a slice: write it like 10:20, 10: or :20, counted from 0 without the last"
        )
    };
    let (first, end) = text.split_once(':').ok_or_else(wrong)?;
    let is_number = |text: &str| text.bytes().all(|one| one.is_ascii_digit());
    let number = |text: &str| text.parse().ok().filter(|_| is_number(text)).ok_or_else(wrong);
    let first = if first.is_empty() { 0 } else { number(first)? };
    let end = if end.is_empty() { None } else { Some(number(end)?) };
    match end {
        Some(end) if end <= first => Err(format!("the slice `{text}` is empty")),
        _ => Ok(Slice { first, end }),
    }
}

/// Parses a number that is neither infinite nor NaN.
pub(crate) fn finite(text: &str) -> Result<f32, String> {
    let number: f32 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if number.is_finite() { Ok(number) } else { Err(format!("`{text}` is not a finite number")) }
}

/// Parses the radius of the median filter.
pub(crate) fn radius(text: &str) -> Result<u32, String> {
    let radius: u32 = text.parse().map_err(|_| format!("`{text}` is not a radius"))?;
    if (1..=RADIUS_MAX).contains(&radius) {
        return Ok(radius);
    }
    Err(format!("radius {radius} is out of range: 1 to {RADIUS_MAX}"))
}

/// The pixels that the median filter assumes beyond the edges of an image, by the names of SciPy.
/// `abcd` is a row of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EdgesName {
    /// aaa|abcd|ddd: the pixel at the edge, repeated.
    Nearest,
    /// cba|abcd|dcb: the image in reverse. This is SciPy's default.
    Reflect,
    /// dcb|abcd|cba: the image in reverse, without the pixel at the edge.
    Mirror,
    /// 000|abcd|000: zeros.
    Constant,
    /// bcd|abcd|abc: the other side of the image. Chunks are read with the whole images that they
    /// touch.
    Wrap,
}

impl From<EdgesName> for Edges {
    fn from(name: EdgesName) -> Self {
        match name {
            EdgesName::Nearest => Self::Nearest,
            EdgesName::Reflect => Self::Reflect,
            EdgesName::Mirror => Self::Mirror,
            EdgesName::Constant => Self::Constant,
            EdgesName::Wrap => Self::Wrap,
        }
    }
}

/// Parses a time with a unit: 12s, 1.5s, 500ms, 20us or 7ns.
pub(crate) fn time(text: &str) -> Result<Nanos, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return Err(format!("`{text}` is not a time: write it like 12s, 500ms, 20us or 7ns")),
    };
    let number = digits.trim().parse::<f64>().ok().filter(|number| *number >= 0.0);
    let number = number.ok_or_else(|| format!("`{digits}` is not a number of `{text}`"))?;
    Ok(Nanos::from_seconds(number * unit))
}

/// Parses a shape: `512x2048`, `512X2048` or `10,512,2048`.
pub(crate) fn shape(text: &str) -> Result<Shape, String> {
    let dimension = |part: &str| part.trim().parse::<u64>().map_err(|_| text.to_owned());
    text.split([',', 'x', 'X'])
        .map(dimension)
        .collect::<Result<_, _>>()
        .map(Shape)
        .map_err(|text| format!("`{text}` is not a shape: write it like 512x2048"))
}

/// The dimensions of an array, slowest first.
#[derive(Debug, Clone)]
pub(crate) struct Shape(pub(crate) Vec<u64>);
