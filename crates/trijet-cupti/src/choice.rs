//! The records that the user of a trace chooses.

use crate::layout::kinds;

/// The environment variable with the words of the chosen records, separated by commas. Without it,
/// the records of [`CHOICES`] that are collected by default are collected.
pub const RECORD: &str = "TRIJET_RECORD";

/// A kind of record that the user may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordChoice {
    /// The word for the kind.
    pub word: &'static str,
    /// The kind: one of the constants in [`kinds`].
    pub kind: u32,
    /// The name of the kind for messages.
    pub name: &'static str,
    /// Whether the kind is collected without a choice.
    pub is_default: bool,
}

/// The kinds of records that the user may choose.
pub const CHOICES: [RecordChoice; 5] = [
    choice("ranges", kinds::MARKER, "named ranges", true),
    choice("events", kinds::CUDA_EVENT, "events", true),
    choice("memory", kinds::MEMORY2, "allocations", true),
    choice("environment", kinds::ENVIRONMENT, "environment", false),
    choice("graphs", kinds::GRAPH_TRACE, "launches of graphs", false),
];

const fn choice(
    word: &'static str,
    kind: u32,
    name: &'static str,
    is_default: bool,
) -> RecordChoice {
    RecordChoice { word, kind, name, is_default }
}

/// The chosen records, from the value of [`RECORD`]. Unknown words choose nothing.
pub(crate) fn chosen(value: Option<&str>) -> impl Iterator<Item = &'static RecordChoice> {
    CHOICES.iter().filter(move |one| match value {
        Some(words) => words.split(',').any(|word| word == one.word),
        None => one.is_default,
    })
}

/// The value of [`RECORD`] in the environment of this process.
pub(crate) fn value() -> Option<String> {
    std::env::var(RECORD).ok()
}

/// The note in the trace file about the records that are collected by default and that the user
/// has left out. `None` if there are none.
pub(crate) fn left_out(value: Option<&str>) -> Option<String> {
    let kept: Vec<u32> = chosen(value).map(|one| one.kind).collect();
    let left: Vec<&str> = CHOICES
        .iter()
        .filter(|one| one.is_default && !kept.contains(&one.kind))
        .map(|one| one.name)
        .collect();
    (!left.is_empty()).then(|| format!("left out by choice: {}", left.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(value: Option<&str>) -> Vec<&'static str> {
        chosen(value).map(|one| one.word).collect()
    }

    #[test]
    fn a_choice_replaces_the_default() {
        assert_eq!(words(None), ["ranges", "events", "memory"]);
        assert_eq!(words(Some("environment,memory")), ["memory", "environment"]);
        assert_eq!(words(Some("graphs,others,")), ["graphs"]);
        assert_eq!(words(Some("")), [""; 0]);
    }

    #[test]
    fn records_that_were_left_out_are_named() {
        assert_eq!(left_out(None), None);
        assert_eq!(left_out(Some("memory,environment,events,ranges")), None);
        let words = left_out(Some("events,graphs")).unwrap();
        assert_eq!(words, "left out by choice: named ranges, allocations");
    }
}
