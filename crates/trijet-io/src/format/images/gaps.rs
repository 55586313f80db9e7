//! Numbers that are missing in a numbered sequence of files.
//!
//! Two file names belong to one sequence if they differ in one number only. The step of a sequence
//! is the greatest common divisor of the differences between its numbers. If more numbers are
//! missing than there are files, the numbers are probably times or identifiers, and no gaps are
//! reported.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// A number in a file name, and the number of its digits.
#[derive(Debug, Clone, Copy)]
struct Number {
    value: u64,
    digits: usize,
}

/// A file name: its numbers, and the texts before, between and after the numbers.
#[derive(Debug, Clone)]
struct Name {
    texts: Vec<String>,
    numbers: Vec<Number>,
}

impl Name {
    /// Parses a file name. `None` if the name is not UTF-8, or if one of its numbers is too large.
    fn of(name: &OsString) -> Option<Self> {
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        let mut rest = name.to_str()?;
        while let Some(at) = rest.find(|one: char| one.is_ascii_digit()) {
            let (text, from) = rest.split_at(at);
            let digits = from.find(|one: char| !one.is_ascii_digit()).unwrap_or(from.len());
            let (number, after) = from.split_at(digits);
            texts.push(text.to_owned());
            numbers.push(Number { value: number.parse().ok()?, digits });
            rest = after;
        }
        texts.push(rest.to_owned());
        Some(Self { texts, numbers })
    }

    /// The name, with the number at index `position` replaced by `number`.
    fn with(&self, position: usize, number: Number) -> String {
        let mut name = String::new();
        for (at, text) in self.texts.iter().enumerate() {
            name.push_str(text);
            if let Some(own) = self.numbers.get(at) {
                let Number { value, digits } = if at == position { number } else { *own };
                name.push_str(&format!("{value:0digits$}"));
            }
        }
        name
    }
}

/// The names that are missing between the first and the last name of each sequence.
pub(super) fn missing(names: &[OsString]) -> Vec<String> {
    let mut alike: BTreeMap<Vec<String>, Vec<Name>> = BTreeMap::new();
    for name in names.iter().filter_map(Name::of) {
        alike.entry(name.texts.clone()).or_default().push(name);
    }
    alike.into_values().flat_map(missing_among).collect()
}

/// The missing names of a group of `names` that differ only in their numbers. If the names differ
/// in several numbers, the last of these numbers counts the files of a sequence.
fn missing_among(names: Vec<Name>) -> Vec<String> {
    let Some(first) = names.first().cloned() else { return Vec::new() };
    let differs = |place: &usize| {
        names.iter().any(|name| name.numbers[*place].value != first.numbers[*place].value)
    };
    let Some(place) = (0..first.numbers.len()).rev().find(differs) else { return Vec::new() };
    let mut sequences: BTreeMap<Vec<u64>, Vec<Name>> = BTreeMap::new();
    for name in names {
        let mut others: Vec<u64> = name.numbers.iter().map(|number| number.value).collect();
        others.remove(place);
        sequences.entry(others).or_default().push(name);
    }
    sequences.into_values().flat_map(|names| gaps(names, place)).collect()
}

/// The names that are missing in one sequence. `place` is the index of the number that counts the
/// files.
fn gaps(mut names: Vec<Name>, place: usize) -> Vec<String> {
    names.sort_by_key(|name| name.numbers[place].value);
    names.dedup_by_key(|name| name.numbers[place].value);
    let value = |name: &Name| name.numbers[place].value;
    let pairs = || names.iter().zip(names.iter().skip(1));
    let step = pairs().fold(0, |step, (one, next)| common_divisor(step, value(next) - value(one)));
    let missing = |(one, next): (&Name, &Name)| (value(next) - value(one)) / step.max(1) - 1;
    if pairs().map(missing).fold(0, u64::saturating_add) > names.len() as u64 {
        return Vec::new();
    }
    let between = |(one, next): (&Name, &Name)| {
        let (first, last, one) = (value(one), value(next), one.clone());
        let digits = one.numbers[place].digits;
        let steps = (1..(last - first) / step.max(1)).map(move |count| first + count * step);
        steps.map(move |value| one.with(place, Number { value, digits })).collect::<Vec<_>>()
    };
    pairs().flat_map(between).collect()
}

fn common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<String> {
        missing(&names.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_number_between_two_others_is_missing() {
        assert_eq!(of(&["s1.png", "s2.png", "s4.png"]), ["s3.png"]);
        assert_eq!(of(&["s008.png", "s009.png", "s011.png"]), ["s010.png"]);
        assert_eq!(of(&["s10.png", "s20.png", "s40.png", "s50.png"]), ["s30.png"]);
        assert_eq!(of(&["z1_c1.png", "z1_c2.png", "z1_c4.png", "z2_c1.png"]), ["z1_c3.png"]);
        assert_eq!(of(&["t1_16bit.png", "t2_16bit.png", "t4_16bit.png"]), ["t3_16bit.png"]);
    }

    #[test]
    fn numbers_that_are_no_sequence_have_no_gaps() {
        for names in [
            &["a.png", "b.png"][..],
            &["1.png"],
            &["1.png", "3.png"],
            &["1.png", "01.png", "2.png"],
            &["17000.png", "17123.png", "17124.png"],
            &["0.png", "18446744073709551615.png"],
            &["0.png", "1.png", "18446744073709551615.png"],
            &["99999999999999999999999.png", "1.png"],
            &[],
        ] {
            assert!(of(names).is_empty(), "{names:?}: {:?}", of(names));
        }
    }
}
