//! docs/lessons.md is made of the list of lessons and the newest record of a GPU, and
//! docs/coverage.md quotes times of this record. With `TRIJET_LESSONS=write`, these tests write the
//! page and the times instead of comparing them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use trijet_lessons::{Topic, lessons, named};

/// The record: a head, then `== NAME` and the output of `trijet lesson NAME` for each lesson.
const RECORD: &str = "crates/trijet-bench/results/h100/lessons.txt";
const PAGE: &str = "docs/lessons.md";
/// The page that quotes times of lessons.
const ITEMS: &str = "docs/coverage.md";
/// The lessons whose drawings the page shows.
const PICTURES: [&str; 10] = [
    "one-stream",
    "three-kernels",
    "eight-threads",
    "four-streams",
    "stages-without-events",
    "pageable",
    "concurrent",
    "dependent",
    "vision-language",
    "four-engines",
];

const INTRO: &str = "\
# Lessons

A lesson is a claim of a teaching text about streams, and two or more forms of one program. `trijet lesson NAME` runs the
forms in turn on your device, draws them in the same scale, and judges the claim by the measured times alone. With
`--trace page.html` it keeps the timelines. A form may also state figures that are not times, such as a number of
multiprocessors, after the word *seen*. Without a GPU the times come from a model, and a lesson whose subject the model
lacks states this. Each lesson is a file in `crates/trijet-lessons/src`.

[errata.md](errata.md) names the texts: *examples* is the README of the book's example programs, *notes* are a reader's,
*research* is the research note; a number is a line.
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of each lesson in the record, and the device in its head.
fn recorded() -> (String, BTreeMap<String, Vec<String>>) {
    let record = fs::read_to_string(root().join(RECORD)).expect("the record is there");
    let device = record.lines().find_map(|line| line.strip_prefix("# device: "));
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in record.lines().filter(|line| !line.starts_with("# ")) {
        match line.strip_prefix("== ") {
            Some(lesson) => lesson.clone_into(&mut name),
            None => all.entry(name.clone()).or_default().push(line.to_owned()),
        }
    }
    (device.expect("the head names the device").to_owned(), all)
}

/// The verdict of a lesson: the last line that is not empty.
fn verdict(lines: &[String]) -> &str {
    lines.iter().rev().find(|line| !line.is_empty()).map_or("", String::as_str)
}

fn page() -> String {
    let (device, record) = recorded();
    let lines = |name: &str| record.get(name).unwrap_or_else(|| panic!("{RECORD} lacks {name}"));
    let mut page = INTRO.to_owned();
    let mut topic: Option<Topic> = None;
    for lesson in lessons() {
        if topic != Some(lesson.topic) {
            topic = Some(lesson.topic);
            let heading = lesson.topic.name();
            write!(page, "\n## {}{}\n\n", heading[..1].to_uppercase(), &heading[1..])
                .expect("writing to a string");
            writeln!(page, "| lesson | claim | in | on {device} |\n|---|---|---|---|")
                .expect("writing to a string");
        }
        let (name, claim) = (lesson.name, lesson.claim);
        let texts = lesson.texts.join(", ").replace(':', " ");
        // A new lesson has no record until the lessons run on a GPU again.
        let verdict = record.get(name).map_or("Not recorded yet.", |lines| verdict(lines));
        writeln!(page, "| `{name}` | {claim} | {texts} | {verdict} |")
            .expect("writing to a string");
    }
    write!(page, "\n## Ten drawings\n\nFrom the [record](../{RECORD}) of {device}.\n")
        .expect("writing to a string");
    for name in PICTURES {
        let shown: Vec<&str> = lines(name).iter().map(String::as_str).collect();
        write!(page, "\n### {name}\n\n```text\n{}\n```\n", shown.join("\n").trim())
            .expect("writing to a string");
    }
    page
}

#[test]
fn the_page_of_the_lessons_is_the_list_with_the_newest_record() {
    let (made, path) = (page(), root().join(PAGE));
    if std::env::var("TRIJET_LESSONS").is_ok_and(|wanted| wanted == "write") {
        fs::write(&path, &made).expect("the page can be written");
    }
    let kept = fs::read_to_string(&path).expect("the page is there");
    assert!(kept == made, "{PAGE} differs: run this test with TRIJET_LESSONS=write");
}

#[test]
fn every_lesson_of_the_record_exists() {
    let (_, record) = recorded();
    let unknown: Vec<&String> =
        record.keys().filter(|name| !name.is_empty() && named(name).is_none()).collect();
    assert!(unknown.is_empty() && record.len() > 40, "{unknown:?}");
}

#[test]
fn every_lesson_that_a_document_names_exists() {
    let documents = fs::read_dir(root().join("docs")).expect("the documents are there");
    let mut count = 0;
    for document in documents {
        let path = document.expect("the folder can be read").path();
        if path.extension().is_none_or(|kind| kind != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a document is text");
        for rest in text.split("`trijet lesson ").skip(1) {
            let name = rest.split(['`', ' ']).next().expect("a split has a first part");
            let is_lesson = name == "NAME" || name.starts_with('-') || named(name).is_some();
            assert!(is_lesson, "{}: {name}", path.display());
            count += 1;
        }
    }
    assert!(count > 40, "the documents name lessons");
}

/// A comparison of two forms, such as `"one form" takes 2.35 times as long as "another form"`.
struct Comparison<'a> {
    forms: [&'a str; 2],
    times: &'a str,
    /// The place of the number in the text.
    at: usize,
}

fn comparisons(text: &str) -> Vec<Comparison<'_>> {
    let of = |at: usize| {
        let slower = text[..at].rsplit('"').next()?;
        let at = at + "\" takes ".len();
        let (times, rest) = text[at..].split_once(" times as long as \"")?;
        let is_number = times.chars().all(|c| c.is_ascii_digit() || c == '.');
        is_number.then(|| Comparison {
            forms: [slower, rest.split('"').next().unwrap_or_default()],
            times,
            at,
        })
    };
    text.match_indices("\" takes ").filter_map(|(at, _)| of(at)).collect()
}

/// The text with the times of the record, for each comparison that the record has once.
fn with_times_of(record: &str, text: &str) -> String {
    let recorded = comparisons(record);
    let mut new = text.to_owned();
    for quoted in comparisons(text).into_iter().rev() {
        let same = recorded.iter().filter(|now| now.forms == quoted.forms).collect::<Vec<_>>();
        assert!(!same.is_empty(), "{RECORD} compares no {:?}", quoted.forms);
        if let [now] = same[..] {
            new.replace_range(quoted.at..quoted.at + quoted.times.len(), now.times);
        }
    }
    new
}

#[test]
fn the_times_of_lessons_that_the_items_quote_are_of_the_newest_record() {
    let (record, path) = (fs::read_to_string(root().join(RECORD)), root().join(ITEMS));
    let kept = fs::read_to_string(&path).expect("the page is there");
    let made = with_times_of(&record.expect("the record is there"), &kept);
    assert!(comparisons(&kept).len() > 40, "the page quotes times");
    if std::env::var("TRIJET_LESSONS").is_ok_and(|wanted| wanted == "write") {
        return fs::write(&path, &made).expect("the page can be written");
    }
    assert!(kept == made, "{ITEMS} has old times: run this test with TRIJET_LESSONS=write");
}

#[test]
fn an_old_time_is_replaced_by_the_time_of_the_record() {
    let record = "here: \"one stream\" takes 2.50 times as long as \"two\" (5 ms and 2 ms).";
    let old = "| \"one stream\" takes 2.35 times as long as \"two\"; \"it\" takes long |";
    let new = "| \"one stream\" takes 2.50 times as long as \"two\"; \"it\" takes long |";
    assert_eq!([old, new].map(|text| with_times_of(record, text)), [new, new]);
}
