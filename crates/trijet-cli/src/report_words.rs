//! The words of the reports, with their meaning and what to do about them.
#![forbid(unsafe_code)]

/// The text of docs/words.md, which has the table of words.
const WORDS: &str = include_str!("cmd/words.md");

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub(crate) name: &'static str,
    pub(crate) is: &'static str,
    pub(crate) to_do: &'static str,
}

pub(crate) fn words() -> impl Iterator<Item = Word> {
    WORDS.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let word = Word { name: cells.next()?, is: cells.next()?, to_do: cells.next()? };
        (!["word", "rule"].contains(&word.name)).then_some(word)
    })
}

/// The word with this name. The name may be in the plural.
fn whole(text: &str) -> Option<Word> {
    let is = |name: &str| words().find(|word| word.name.to_lowercase() == name);
    is(text).or_else(|| is(text.strip_suffix('s')?))
}

/// The words that a text names: the word with exactly this name, or otherwise all words that have
/// the text in their names.
pub(crate) fn named(text: &str) -> Vec<Word> {
    let text = text.trim().to_lowercase();
    let has_part = |word: &Word| !text.is_empty() && word.name.to_lowercase().contains(&text);
    match whole(&text) {
        Some(word) => vec![word],
        None => words().filter(has_part).collect(),
    }
}
