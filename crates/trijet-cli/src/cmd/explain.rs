//! `trijet explain`: what a word of a report means, and what to do about it.
#![forbid(unsafe_code)]

use super::print;
use crate::args::ExplainOptions;
use trijet::{Error, ErrorKind, Result};

/// The table of docs/words.md.
const WORDS: &str = include_str!("words.md");

/// A row of the table.
#[derive(Debug, Clone, Copy)]
struct Word {
    name: &'static str,
    is: &'static str,
    to_do: &'static str,
}

fn words() -> impl Iterator<Item = Word> {
    WORDS.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let word = Word { name: cells.next()?, is: cells.next()?, to_do: cells.next()? };
        (word.name != "word").then_some(word)
    })
}

/// The words that a text names: the whole name, or a part of it.
fn named(text: &str) -> Vec<Word> {
    let text = text.trim().to_lowercase();
    let whole: Vec<Word> = words().filter(|word| word.name == text).collect();
    match whole.is_empty() {
        false => whole,
        true => words().filter(|word| !text.is_empty() && word.name.contains(&text)).collect(),
    }
}

/// Explains the words of the options, or lists all of them.
pub(crate) fn run(options: &ExplainOptions) -> Result<()> {
    if options.word.is_empty() {
        return print(words().map(|word| word.name).collect::<Vec<_>>().join("\n"));
    }
    let text = options.word.join(" ");
    let found = named(&text);
    if found.is_empty() {
        let cause = format!("`{text}` is no word of a report; `trijet explain` lists them");
        return Err(Error::new(ErrorKind::InvalidValue, "explain", cause));
    }
    found.iter().try_for_each(|Word { name, is, to_do }| {
        print(format_args!("{name}: {is}.\n    to do: {to_do}."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::pipeline::Schedule;
    use trijet::trace::Engine;
    use trijet::trace::critical::Category;
    use trijet::trace::gaps::{Cause, Dependency};
    use trijet::trace::host_engines::HostEngine;

    #[test]
    fn every_word_of_a_report_is_explained() {
        let engines =
            [Engine::Upload, Engine::Compute, Engine::Download, Engine::Peer, Engine::Host];
        let mut all: Vec<String> =
            engines.into_iter().map(|engine| Category::Engine(engine).to_string()).collect();
        all.extend(HostEngine::ALL.map(|engine| engine.name().to_owned()));
        let categories = [
            Category::Enqueue,
            Category::Sync,
            Category::Alloc,
            Category::Copy,
            Category::Load,
            Category::User,
            Category::Launch,
            Category::Unknown,
            Category::Start,
            Category::Tail,
        ];
        all.extend(categories.map(|category| category.to_string()));
        let causes = [
            Cause::Fill,
            Cause::Drain,
            Cause::HostLate(Category::User),
            Cause::Dependency(Dependency::Legacy),
            Cause::Launch,
            Cause::Resource,
            Cause::Unknown,
        ];
        all.extend(causes.map(|cause| cause.to_string()));
        let schedules = [
            Schedule::OneStream,
            Schedule::SlotStreams,
            Schedule::RoleStreams,
            Schedule::InPlace,
            Schedule::Tuned,
        ];
        all.extend(schedules.map(|schedule| schedule.name().to_owned()));
        for word in all {
            assert!(words().any(|known| known.name == word), "`{word}` is not in docs/words.md");
        }
    }

    #[test]
    fn words_are_sorted_and_each_is_there_once() {
        let names: Vec<&str> = words().map(|word| word.name).collect();
        assert!(names.len() > 40 && names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    }

    #[test]
    fn a_word_is_found_by_its_name_or_by_a_part_of_it() {
        let found = |text| named(text).iter().map(|word| word.name).collect::<Vec<_>>();
        assert_eq!(found("Fill"), ["fill"]);
        assert_eq!(found("late"), ["host late", "launch latency"]);
        assert!(found("nonsense").is_empty() && found("").is_empty());
    }
}
