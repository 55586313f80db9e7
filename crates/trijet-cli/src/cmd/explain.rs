//! `trijet explain`: the meaning of a word in a report, and what to do about it.
#![forbid(unsafe_code)]

use super::print;
use crate::args::ExplainOptions;
use crate::report_words::{Word, named, words};
use trijet::Result;

/// Explains the word that the user asks for. Without a word, lists all words.
pub(crate) fn run(options: &ExplainOptions) -> Result<()> {
    if options.word.is_empty() {
        return print(words().map(|word| word.name).collect::<Vec<_>>().join("\n"));
    }
    named(&options.word.join(" ")).iter().try_for_each(|Word { name, is, to_do }| {
        print(format_args!("{name}: {is}.\n    to do: {to_do}."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trijet::check::FindingClass;
    use trijet::check::lint::{FoundIn, Rule};
    use trijet::kernels::PtxRule;
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

    /// The table of words has each rule with the title and the fix that the library defines for the
    /// rule.
    #[test]
    fn every_rule_is_explained_with_its_title_and_its_fix() {
        for class in FindingClass::ALL {
            assert!(words().any(|word| word.name == class.code()), "{}", class.code());
        }
        for rule in Rule::ALL {
            let word = words().find(|word| word.name == rule.name());
            let word = word.map(|word| [word.is, word.to_do]);
            assert_eq!(word, Some([rule.title(), rule.fix()]), "{}", rule.name());
        }
        let of_kernels = [
            PtxRule::Target,
            PtxRule::Version,
            PtxRule::StaticShared,
            PtxRule::TriggerWithoutWait,
            PtxRule::EarlyUse,
            PtxRule::SkippedWait,
        ];
        for rule in of_kernels.map(|rule| rule.to_string()) {
            assert!(words().any(|word| word.name == rule), "{rule}");
        }
    }

    /// The first two cells of each row of a document that is about a rule.
    fn rows(page: &str) -> BTreeSet<[String; 2]> {
        let cells = |line: &str| {
            let mut cells =
                line.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`']).to_owned());
            Some([cells.next()?, cells.next()?])
        };
        let rows = page.lines().filter_map(cells);
        rows.filter(|[name, _]| name.starts_with("PERF/")).collect()
    }

    #[test]
    fn the_tables_of_the_documents_have_the_rules_of_the_library() {
        let names = |found_in: FoundIn| {
            let is_wanted = move |rule: &Rule| [FoundIn::Both, found_in].contains(&rule.found_in());
            Rule::ALL.into_iter().filter(is_wanted)
        };
        let metrics = include_str!("../../../../docs/metrics.md");
        let (of_ledgers, of_both) = metrics.split_once("### Rules for ledgers").unwrap();
        let named: Vec<String> = rows(of_ledgers).into_iter().map(|[name, _]| name).collect();
        let mut expected: Vec<&str> = names(FoundIn::Ledger).map(Rule::name).collect();
        expected.sort_unstable();
        assert_eq!(named, expected);
        for rule in Rule::ALL {
            let found = match rule.found_in() {
                FoundIn::Both => "ledger, trace",
                FoundIn::Ledger => "ledger",
                FoundIn::Trace => "trace",
            };
            let difference = Some(rule.difference()).filter(|words| !words.is_empty());
            let row =
                format!("\n| {} | {found} | {} |\n", rule.name(), difference.unwrap_or("none"));
            assert!(of_both.contains(&row), "docs/metrics.md lacks this row: {row}");
        }
        let titles =
            names(FoundIn::Trace).map(|rule| [rule.name(), rule.title()].map(str::to_owned));
        assert_eq!(rows(include_str!("../../../../docs/tracing.md")), titles.collect());
    }

    #[test]
    fn words_are_sorted_and_each_is_there_once() {
        // The document lists the rules after the words.
        let is_rule = |name: &String| name.contains('/') || name.starts_with("deadlock");
        let names = words().map(|word| word.name.to_lowercase());
        let (rules, names): (Vec<String>, Vec<String>) = names.partition(is_rule);
        for names in [&names, &rules] {
            assert!(names.len() > 40 && names.windows(2).all(|two| two[0] < two[1]), "{names:?}");
        }
    }

    #[test]
    fn a_word_is_found_by_its_name_or_by_a_part_of_it() {
        let found = |text| named(text).iter().map(|word| word.name).collect::<Vec<_>>();
        assert_eq!(found("Fill"), ["fill"]);
        assert_eq!(found("over-waits"), ["over-wait"]);
        assert_eq!(found("perf/host-late"), ["PERF/HOST-LATE"]);
        assert_eq!(found("launch"), ["launch latency"]);
        assert!(found("late").contains(&"host late") && found("late").len() > 2);
        assert!(found("nonsense").is_empty() && found("").is_empty());
    }
}
