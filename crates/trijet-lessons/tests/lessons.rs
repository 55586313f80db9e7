//! Every lesson runs on a host device with modelled times, and its parts fit together.

use std::collections::BTreeSet;
use trijet::Result;
use trijet_lessons::{Ground, Judgement, Lesson, Size, lessons, named};

/// Runs the lessons whose index is `part` modulo `PARTS`. The parts run at the same time.
fn run_part(part: usize) -> Result<()> {
    for lesson in lessons().iter().skip(part).step_by(PARTS) {
        let name = lesson.name;
        let outcome =
            lesson.measure(&Ground::on_model(Size::MODEL)?).map_err(|error| error.context(name))?;
        assert!(outcome.is_as_expected(), "{name}: {:#?}", outcome.forms[0].said);
        let verdict = outcome.verdict();
        let is_unmodelled = lesson.unmodelled.is_some();
        assert_eq!(verdict.judgement == Judgement::NotShown, is_unmodelled, "{name}: {verdict:?}");
        let text = outcome.text();
        assert!(text.ends_with(&verdict.sentence), "{text}");
        for form in lesson.forms {
            assert!(text.contains(&format!("{form}: ")), "{name} shows {form}: {text}");
        }
        let page = outcome.page().render();
        assert!(page.contains(name) && page.len() > 10_000, "the page of {name}");
    }
    Ok(())
}

const PARTS: usize = 2;

/// The teaching texts, as docs/errata.md names them in short.
const TEXTS: [&str; 5] = ["examples", "notes", "book", "research", "guide"];

#[test]
fn every_lesson_runs_on_a_host_device_and_shows_all_its_forms() -> Result<()> {
    run_part(0)
}

#[test]
fn every_other_lesson_runs_on_a_host_device_and_shows_all_its_forms() -> Result<()> {
    run_part(1)
}

#[test]
fn lessons_have_names_topics_in_order_and_places_in_texts() {
    let names: BTreeSet<&str> = lessons().iter().map(|lesson| lesson.name).collect();
    assert_eq!(names.len(), lessons().len(), "each name is there once");
    assert!(lessons().is_sorted_by_key(|lesson| lesson.topic));
    for lesson in lessons() {
        let Lesson { name, claim, forms, texts, .. } = lesson;
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        assert!(claim.ends_with('.') && !claim.trim_end_matches('.').contains(". "), "{claim}");
        assert!(claim.len() <= 120, "{claim}");
        assert!(forms.len() >= 2 && !texts.is_empty(), "{name}");
        for place in *texts {
            let (text, line) = place.split_once(':').expect("a text and a line");
            assert!(TEXTS.contains(&text), "{name}: {text}");
            assert!(matches!(line.parse::<u32>(), Ok(1..)), "{name}: {line}");
        }
        assert_eq!(named(name).map(|found| found.claim), Some(*claim));
    }
    assert!(named("no-lesson").is_none());
}
