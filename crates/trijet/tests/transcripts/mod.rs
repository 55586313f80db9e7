//! Transcripts of the conformance suite, and their comparison.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The transcript of a real GPU.
///
/// # Panics
/// If none is recorded.
pub(crate) fn golden() -> Transcript {
    let golden = Transcript::parse(include_str!("../golden/h200-driver-580.txt"));
    let how = "TRIJET_GOLDEN=FILE cargo test --test gpu writes one on a machine with a GPU";
    assert!(!golden.sequences.is_empty(), "no golden transcript is recorded; {how}");
    golden
}

/// A parsed transcript.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// `# key: value` at the top.
    header: BTreeMap<String, String>,
    sequences: Vec<Sequence>,
}

#[derive(Debug)]
struct Sequence {
    name: String,
    /// The reason why it was not run.
    skipped: Option<String>,
    /// The calls with their answers.
    calls: Vec<(String, String)>,
}

impl Transcript {
    pub(crate) fn parse(text: &str) -> Self {
        let mut this = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(entry) = line.strip_prefix("# ") {
                let (key, value) = entry.split_once(": ").unwrap_or((entry, ""));
                this.header.insert(key.to_owned(), value.to_owned());
            } else if let Some(name) = line.strip_prefix("== ") {
                let (name, skipped, calls) = (name.to_owned(), None, Vec::new());
                this.sequences.push(Sequence { name, skipped, calls });
            } else {
                let sequence = this.sequences.last_mut().expect("a name comes first");
                match (line.strip_prefix("skipped: "), line.rsplit_once(" -> ")) {
                    (Some(why), _) => sequence.skipped = Some(why.to_owned()),
                    (None, Some((call, answer))) => {
                        sequence.calls.push((call.to_owned(), answer.to_owned()));
                    }
                    // The run was cut off in this call.
                    (None, None) => sequence.calls.push((line.to_owned(), "nothing".to_owned())),
                }
            }
        }
        this
    }

    /// The number of devices.
    pub(crate) fn devices(&self) -> u32 {
        let count = self.header.get("devices").expect("the header says how many devices");
        count.parse().expect("the header gives a number of devices")
    }
}

/// The result of a comparison of two transcripts.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Sequences that differ, with the calls that do.
    pub(crate) differences: Vec<String>,
    /// Sequences that agree.
    pub(crate) equal: usize,
    /// Sequences that one of the two runs left out.
    pub(crate) skipped: Vec<String>,
}

impl Comparison {
    /// Fails with all differences, after printing what was not compared.
    pub(crate) fn demand_none(&self, who: &str) {
        let mut text = String::new();
        for skipped in &self.skipped {
            writeln!(text, "not compared: {skipped}").expect("a string takes all of it");
        }
        for difference in &self.differences {
            writeln!(text, "{difference}").expect("a string takes all of it");
        }
        println!("{who}: {} sequences equal, {} skipped", self.equal, self.skipped.len());
        println!("{text}");
        let count = self.differences.len();
        assert!(count == 0, "{who}: {count} sequences differ from the golden transcript\n{text}");
    }
}

/// Whether an answer is as the golden one, or both are among the legal ones of `call`.
fn agree(call: &str, golden: &str, found: &str) -> bool {
    match call.split_once(" may ") {
        Some((_, legal)) => {
            let legal = |answer| legal.split('|').any(|one| one == answer);
            legal(golden) && legal(found)
        }
        None => golden == found,
    }
}

fn difference(golden: &Sequence, found: &Sequence) -> Option<String> {
    let same_calls = golden.calls.len() == found.calls.len()
        && golden.calls.iter().zip(&found.calls).all(|(a, b)| a.0 == b.0);
    if !same_calls {
        let cause = "the calls differ: the golden transcript is out of date, or a run was cut off";
        return Some(format!("== {}\n  {cause}", golden.name));
    }
    let mut text = format!("== {}\n", golden.name);
    let mut differ = false;
    for ((call, expected), (_, answer)) in golden.calls.iter().zip(&found.calls) {
        if agree(call, expected, answer) {
            writeln!(text, "    {call} -> {answer}").expect("a string takes all of it");
        } else {
            differ = true;
            writeln!(text, "  - {call} -> {expected}\n  + {call} -> {answer}")
                .expect("a string takes all of it");
        }
    }
    differ.then_some(text)
}

/// Compares call by call. Sequences are matched by name.
pub(crate) fn compare(golden: &Transcript, found: &Transcript) -> Comparison {
    let mut comparison = Comparison::default();
    let mut left: BTreeMap<&str, &Sequence> =
        found.sequences.iter().map(|sequence| (sequence.name.as_str(), sequence)).collect();
    for expected in &golden.sequences {
        let Some(answered) = left.remove(expected.name.as_str()) else {
            comparison.differences.push(format!("== {}\n  it was not run", expected.name));
            continue;
        };
        let skipped = [("golden", &expected.skipped), ("here", &answered.skipped)];
        if let Some((who, Some(why))) = skipped.into_iter().find(|(_, why)| why.is_some()) {
            comparison.skipped.push(format!("{} ({who}: {why})", expected.name));
        } else if let Some(text) = difference(expected, answered) {
            comparison.differences.push(text);
        } else {
            comparison.equal += 1;
        }
    }
    for name in left.into_keys() {
        comparison.differences.push(format!("== {name}\n  the golden transcript lacks it"));
    }
    comparison
}
