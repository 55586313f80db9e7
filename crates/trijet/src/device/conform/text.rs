//! The syntax of sequences.
//!
//! ```text
//! = a query of an idle stream is ready (A9)
//! needs 2 devices
//! stream s on 1
//! query s
//! > query s
//! poll e may ok ready|ok not-ready
//! -- a remark
//! ```
//!
//! A sequence starts with its name. `needs` names a property that a driver must have for the
//! sequence. Consecutive lines that start with `>` run together on one other host thread, while the
//! first thread waits. `may` lists the legal answers, if there are several.
#![forbid(unsafe_code)]

use std::str::SplitAsciiWhitespace;

/// A property that a driver must have for a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requirement {
    /// This number of devices.
    Devices(u32),
    /// Two devices that can access each other's memory.
    Peers,
    /// A driver that compiles kernels from PTX.
    Ptx,
}

/// One sequence.
#[derive(Debug)]
pub(super) struct Sequence<'a> {
    pub(super) name: String,
    pub(super) needs: Vec<Requirement>,
    pub(super) lines: Vec<Line<'a>>,
}

/// One call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// The line of the transcript.
    pub(super) text: &'a str,
    /// The call alone, without `>` and `may`.
    pub(super) statement: &'a str,
    /// Whether the line starts with `>`, so that the call runs on another host thread.
    pub(super) on_thread: bool,
}

pub(super) fn parse<'a>(subject: &str, text: &'a str) -> Vec<Sequence<'a>> {
    let mut sequences: Vec<Sequence<'a>> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("--") {
            continue;
        }
        if let Some(name) = line.strip_prefix("= ") {
            let name = format!("{subject}: {name}");
            sequences.push(Sequence { name, needs: Vec::new(), lines: Vec::new() });
            continue;
        }
        let sequence = sequences.last_mut().expect("a text begins with the name of a sequence");
        if let Some(need) = line.strip_prefix("needs ") {
            sequence.needs.push(match need.strip_suffix(" devices").map(str::parse) {
                Some(Ok(count)) => Requirement::Devices(count),
                _ if need == "peers" => Requirement::Peers,
                _ => Requirement::Ptx,
            });
            continue;
        }
        let (on_thread, statement) = match line.strip_prefix("> ") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let statement = statement.split(" may ").next().unwrap_or(statement);
        sequence.lines.push(Line { text: line, statement, on_thread });
    }
    sequences
}

/// The words of a statement after its verb.
#[derive(Debug)]
pub(super) struct Words<'a>(SplitAsciiWhitespace<'a>);

/// The error of an invalid statement. A test checks that no sequence has an invalid statement.
#[derive(Debug)]
pub(super) struct Unclear;

impl<'a> Words<'a> {
    pub(super) fn of(statement: &'a str) -> Self {
        Self(statement.split_ascii_whitespace())
    }

    pub(super) fn word(&mut self) -> Result<&'a str, Unclear> {
        self.0.next().ok_or(Unclear)
    }

    pub(super) fn number(&mut self) -> Result<u64, Unclear> {
        number(self.word()?).ok_or(Unclear)
    }

    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Unclear> {
        T::try_from(self.number()?).map_err(|_| Unclear)
    }

    /// The remaining words, which are options. Each option starts with a keyword.
    pub(super) fn rest(&mut self) -> Vec<&'a str> {
        self.0.by_ref().collect()
    }
}

/// The number that a word means: `12`, `64k`, `3m`, `1g`, or `max`.
pub(super) fn number(word: &str) -> Option<u64> {
    if word == "max" {
        return Some(u64::MAX);
    }
    let (digits, shift) = match word.as_bytes().last()? {
        b'k' => (&word[..word.len() - 1], 10),
        b'm' => (&word[..word.len() - 1], 20),
        b'g' => (&word[..word.len() - 1], 30),
        _ => (word, 0),
    };
    digits.parse::<u64>().ok().map(|value| value << shift)
}

/// The word after the word `key` in `options`.
pub(super) fn option<'a>(options: &[&'a str], key: &str) -> Option<&'a str> {
    let at = options.iter().position(|word| *word == key)?;
    options.get(at + 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_its_author_meant_it() {
        let text = "= one (A1)\nneeds 2 devices\nneeds ptx\nneeds peers\n-- why\nquery s may ok a|ok b\n> sync s\n\
                    = two\nlog\n";
        let found = parse("x", text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "x: one (A1)");
        assert_eq!(found[0].needs, [Requirement::Devices(2), Requirement::Ptx, Requirement::Peers]);
        assert_eq!(found[0].lines[0].text, "query s may ok a|ok b");
        assert_eq!(found[0].lines[0].statement, "query s");
        assert!(found[0].lines[1].on_thread && !found[1].lines[0].on_thread);
        assert_eq!(found[0].lines[1].statement, "sync s");
    }

    #[test]
    fn numbers_have_binary_units() {
        let words = ["0", "64k", "3m", "1g", "max", "m", "1.5"];
        let values =
            [Some(0), Some(65536), Some(3 << 20), Some(1 << 30), Some(u64::MAX), None, None];
        assert_eq!(words.map(number), values);
    }
}
