//! Units: bytes and nanoseconds, which print with a unit that fits their size.
#![forbid(unsafe_code)]

use std::fmt;

/// A number of bytes. Prints with a binary unit, such as `1.50 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The number as the length of a slice. A number above `usize::MAX`, which is longer than any
    /// memory, becomes `usize::MAX`.
    #[must_use]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A duration, or a moment on a clock, in nanoseconds. Prints with a unit, such as `1.23 ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The duration in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// A duration in seconds, rounded to nanoseconds. A negative number and NaN become 0.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "float casts saturate; 2^64 ns is 584 years"
    )]
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }
}

/// A rate with a decimal unit, such as `55.5 GB/s`, as rates of links are stated; `-` for a time of
/// 0.
///
/// ```
/// use trijet::{Bytes, Nanos};
/// use trijet::trace::rate;
/// assert_eq!(rate(Bytes(50_800_000_000), Nanos(1_000_000_000)), "50.8 GB/s");
/// ```
#[must_use]
pub fn rate(bytes: Bytes, time: Nanos) -> String {
    if time.0 == 0 {
        return "-".to_owned();
    }
    let per_second = bytes.0 as f64 / time.seconds();
    match per_second {
        r if r >= 999.5e9 => format!("{:.2} TB/s", r / 1e12),
        r if r >= 999.5e6 => format!("{:.1} GB/s", r / 1e9),
        r => format!("{:.1} MB/s", r / 1e6),
    }
}

/// `part` in percent of `whole`, rounded to tenths. A `whole` of 0 counts as 1 ns.
///
/// ```
/// use trijet::Nanos;
/// use trijet::trace::percent_of;
/// assert_eq!(percent_of(Nanos(295_320), Nanos(700_390)), "42.2 %");
/// ```
#[must_use]
pub fn percent_of(part: Nanos, whole: Nanos) -> String {
    let whole = u128::from(whole.0.max(1));
    let tenths = (u128::from(part.0) * 1000 + whole / 2) / whole;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// A number of things: `3 chunks`, but `1 chunk`. `what` is the singular, whose plural has an s.
///
/// ```
/// use trijet::trace::count;
/// assert_eq!([count(1, "chunk"), count(3, "chunk")], ["1 chunk", "3 chunks"]);
/// ```
#[must_use]
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0;
        let (value, unit) = match b {
            0..1024 => return f.pad(&format!("{b} B")),
            1024..0x10_0000 => (b as f64 / 1024.0, "KiB"),
            0x10_0000..0x4000_0000 => (b as f64 / f64::from(1 << 20), "MiB"),
            _ => (b as f64 / f64::from(1 << 30), "GiB"),
        };
        let digits = if value.fract() == 0.0 { 0 } else { 2 };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => f.pad(&format!("{:.2} us", ns / 1e3)),
            1_000_000..1_000_000_000 => f.pad(&format!("{:.2} ms", ns / 1e6)),
            _ => f.pad(&format!("{:.3} s", ns / 1e9)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_print_with_the_unit_that_fits() {
        assert_eq!(Bytes(1 << 20).to_string(), "1 MiB");
        assert_eq!(Bytes(3 << 29).to_string(), "1.50 GiB");
        assert_eq!(Nanos(21_090_000).to_string(), "21.09 ms");
        assert_eq!(Nanos::from_seconds(f64::NAN), Nanos(0));
        let shares =
            [(1, 3), (2, 3), (1, 2000), (1, 2001), (9995, 10_000), (u64::MAX, u64::MAX), (0, 0)];
        let shares = shares.map(|(part, whole)| percent_of(Nanos(part), Nanos(whole)));
        assert_eq!(shares, ["33.3 %", "66.7 %", "0.1 %", "0.0 %", "100.0 %", "100.0 %", "0.0 %"]);
    }
}
