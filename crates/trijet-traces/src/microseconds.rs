//! Times as Kineto writes them: microseconds, as decimal numbers. A number of 64 bits in floating
//! point does not have all digits of the time since 1970.

/// The nanoseconds of a decimal number of microseconds, without what is less than one. `None` for
/// another text, and beyond 64 bits.
pub(crate) fn nanoseconds(text: &str) -> Option<i64> {
    // A tool that rewrites the file may write the number with an exponent.
    if text.contains(['e', 'E']) {
        let micros: f64 = text.parse().ok()?;
        let nanos = micros * 1e3;
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
        return (nanos.abs() < 9e18).then_some(nanos as i64);
    }
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    let whole: i64 = whole.parse().ok()?;
    let part: i64 = part.parse().ok()?;
    whole.checked_mul(1000)?.checked_add(part)?.checked_mul(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_digits_of_a_time_count() {
        assert_eq!(nanoseconds("1707417525512110"), Some(1_707_417_525_512_110_000));
        assert_eq!(nanoseconds("701805173347.222"), Some(701_805_173_347_222));
        assert_eq!(nanoseconds("0.0625"), Some(62));
        assert_eq!(nanoseconds("-1.5"), Some(-1500));
        assert_eq!(nanoseconds("1.5e3"), Some(1_500_000));
        for wrong in ["", ".", ".5", "x", "1.x", "\"1\"", "null", "1e99", "99999999999999999999"] {
            assert_eq!(nanoseconds(wrong), None, "{wrong}");
        }
    }
}
