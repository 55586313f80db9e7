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
    choice("events", kinds::CUDA_EVENT, "events", false),
    choice("memory", kinds::MEMORY2, "allocations", true),
    choice("environment", kinds::ENVIRONMENT, "environment", false),
    choice(GRAPHS, kinds::GRAPH_TRACE, "launches of graphs", false),
];

const fn choice(
    word: &'static str,
    kind: u32,
    name: &'static str,
    is_default: bool,
) -> RecordChoice {
    RecordChoice { word, kind, name, is_default }
}

/// The word that chooses launches of graphs as a whole.
const GRAPHS: &str = "graphs";

/// The value of [`RECORD`] for these words, or for the default, and for graphs as nodes or as whole
/// launches. `None` if this is the default.
///
/// # Errors
/// A word that names no record; the error is the reason.
pub fn value_of(words: Option<&[String]>, graphs: &str) -> Result<Option<String>, String> {
    let allowed = || CHOICES.iter().filter(|one| one.word != GRAPHS);
    let is_launch = match graphs {
        "nodes" => false,
        "launch" => true,
        other => return Err(format!("graphs is {other}, and may be nodes or launch")),
    };
    if let Some(other) =
        words.into_iter().flatten().find(|word| allowed().all(|one| one.word != **word))
    {
        let all: Vec<&str> = allowed().map(|one| one.word).collect();
        return Err(format!("record has {other}, and may have {}", all.join(", ")));
    }
    if words.is_none() && !is_launch {
        return Ok(None);
    }
    let mut chosen: Vec<&str> = match words {
        Some(words) => words.iter().map(String::as_str).collect(),
        None => allowed().filter(|one| one.is_default).map(|one| one.word).collect(),
    };
    chosen.extend(is_launch.then_some(GRAPHS));
    Ok(Some(chosen.join(",")))
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
        assert_eq!(words(None), ["ranges", "memory"]);
        assert_eq!(words(Some("environment,memory")), ["memory", "environment"]);
        assert_eq!(words(Some("graphs,others,")), ["graphs"]);
        assert_eq!(words(Some("")), [""; 0]);
    }

    #[test]
    fn words_become_a_value_that_chooses_them() {
        let of = |words: &[&str], graphs: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            value_of(Some(&words), graphs)
        };
        assert_eq!(value_of(None, "nodes"), Ok(None));
        assert_eq!(words(value_of(None, "launch").unwrap().as_deref()).len(), 3);
        let value = of(&["events"], "launch").unwrap();
        assert_eq!(words(value.as_deref()), ["events", "graphs"]);
        assert_eq!(words(of(&[], "nodes").unwrap().as_deref()), [""; 0]);
        assert!(of(&["events", "clocks"], "nodes").unwrap_err().contains("clocks"));
        assert!(of(&["graphs"], "nodes").is_err());
        assert!(value_of(None, "edges").unwrap_err().contains("edges"));
    }

    #[test]
    fn records_that_were_left_out_are_named() {
        assert_eq!(left_out(None), None);
        assert_eq!(left_out(Some("memory,environment,ranges")), None);
        let words = left_out(Some("events,graphs")).unwrap();
        assert_eq!(words, "left out by choice: named ranges, allocations");
    }
}
