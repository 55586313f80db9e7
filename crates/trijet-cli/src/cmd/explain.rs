//! `trijet explain`: the meaning of a word in a report, and what to do about it.
#![forbid(unsafe_code)]

use super::print;
use crate::args::ExplainOptions;
use crate::report_words::{Word, named, words};
use trijet::Result;

/// Explains the words of the options, or lists all of them.
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
    use trijet::check::FindingClass;
    use trijet::check::lint::Rule;
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

    /// The fixes of the remarks are stated only in the library.
    #[test]
    fn every_rule_is_explained_with_its_fix() {
        for class in FindingClass::ALL {
            assert!(words().any(|word| word.name == class.code()), "{}", class.code());
        }
        for rule in Rule::ALL {
            let word = words().find(|word| word.name == rule.name());
            assert_eq!(word.map(|word| word.to_do), Some(rule.fix()), "{}", rule.name());
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
        let sources = [
            include_str!("../../../trijet-ledger/src/profile/findings.rs"),
            include_str!("../../../trijet-ledger/src/profile/ranks.rs"),
        ];
        let keys = sources.iter().flat_map(|source| source.split('"'));
        let keys: Vec<&str> = keys.filter(|text| text.starts_with("PERF/")).collect();
        assert!(keys.len() > 12, "{keys:?}");
        for key in keys {
            assert!(words().any(|word| word.name == key), "`{key}` is not in docs/words.md");
        }
    }

    #[test]
    fn words_are_sorted_and_each_is_there_once() {
        // The rules come after the words.
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
