//! docs/words.md explains the words of the reports: the labels of figures and the heads of columns.

use crate::json::ranks;
use crate::workdir::{Workdir, noise};
use std::collections::BTreeSet;

/// Words of plain English around labels.
const PLAIN: &[&str] = &[
    "a",
    "all",
    "allocation",
    "an",
    "and",
    "at",
    "before",
    "by",
    "copies",
    "each",
    "first",
    "for",
    "free",
    "is",
    "more",
    "of",
    "on",
    "run's",
    "the",
    "this",
    "to",
    "two",
    "which",
    "with",
    "once",
];

/// The first words of lines that are sentences.
const PROSE: &[&str] = &[
    "to do:",
    "check:",
    "times:",
    "a chunk also",
    "PERF/",
    "all results",
    "this machine",
    "tuned, ",
];

/// The parts of a line that are no labels.
const OTHER: &[&str] = &[
    "chosen by the user",
    "the default for this many bytes",
    "two for kernels",
    "and nothing orders them",
    "scratch memory and slots",
    "in place",
    "both ways",
];

/// Whether a token is a figure or its unit.
fn is_figure(token: &str) -> bool {
    let units = ["ns", "us", "ms", "s", "%", "KiB", "MiB", "GiB", "GB/s", "MB/s", "x", "-"];
    let token = token.trim_matches(['(', ')', ';', ',', ':', '~']);
    let digits = token.trim_start_matches(['-', '#']);
    units.contains(&token) || digits.starts_with(|first: char| first.is_ascii_digit())
}

/// The texts of a line between its figures, if it has figures and is no sentence.
fn labels(line: &str) -> Vec<String> {
    if !line.split_whitespace().any(is_figure)
        || PROSE.iter().any(|start| line.trim().starts_with(start))
        || line.contains(": serial because ")
    {
        return Vec::new();
    }
    let mut found = vec![String::new()];
    // A sentence about the limit or about a change follows the figures of its line.
    let line = line.split("; not checked").next().and_then(|line| line.split(": with ").next());
    let line = line.unwrap_or_default().replace("<-", "  ").replace(" (", " ; ");
    for token in line.replace("  ", " ; ").split(' ') {
        if is_figure(token) || token == ";" {
            found.push(String::new());
            continue;
        }
        let last = found.last_mut().expect("there is one");
        *last += &format!(" {}", token.trim_matches(['(', ')', ';', ',', ':']));
        if token.ends_with([',', ';', ':', ')']) {
            found.push(String::new());
        }
    }
    found.retain(|text| !text.trim().is_empty());
    let labels = found.iter().map(|text| text.trim().to_owned());
    labels.filter(|text| !OTHER.contains(&text.as_str())).collect()
}

/// The heads of the columns of a table, which are two spaces apart.
fn heads(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split("  ").map(|head| head.trim().to_owned()).filter(|head| !head.is_empty())
}

/// The names of the words that the command explains.
fn known(workdir: &Workdir) -> BTreeSet<String> {
    workdir.trijet(&["explain"]).done().lines().map(str::to_lowercase).collect()
}

/// Whether a label, or each of its words, is explained.
fn is_explained(known: &BTreeSet<String>, label: &str) -> bool {
    let has = |text: &str| {
        let text = text.to_lowercase();
        known.contains(&text) || text.strip_suffix('s').is_some_and(|one| known.contains(one))
    };
    let words: Vec<&str> = label.split(' ').filter(|word| !PLAIN.contains(word)).collect();
    // The longest row of words that is explained, from the left.
    let mut rest = &words[..];
    while !rest.is_empty() {
        let Some(length) = (1..=rest.len()).rev().find(|n| has(&rest[..*n].join(" "))) else {
            return has(label);
        };
        rest = &rest[length..];
    }
    true
}

#[test]
fn every_label_and_every_column_of_a_report_is_explained() {
    let workdir = Workdir::new();
    let known = known(&workdir);
    workdir.npy("in.npy", "<u2", &[16, 128, 128], &noise(16 * 128 * 128 * 2, 5));
    let csv = "Action,Pointer,Size,Stream\nallocate,1,4096,0\nuse,1,,0\nfree,1,,0\n";
    workdir.file("a.csv", csv.as_bytes());
    workdir.file("ranks.trijet", &ranks());
    let map = ["in.npy", "--op", "median", "--chunk", "32KiB", "--report", "full"];
    let overlap = ["overlap", "in.npy", "--device", "host", "--chunk", "32KiB", "--report", "full"];
    let mut missing = BTreeSet::new();
    let mut count = 0;
    let mut demand = |label: String| {
        count += 1;
        if !is_explained(&known, &label) {
            missing.insert(label);
        }
    };
    let reports = [
        workdir.map(&[&map[..], &["-o", "a.npy"]].concat()).done(),
        workdir.map(&[&map[..], &["-o", "b.npy", "--check"]].concat()).done(),
        workdir.trijet(&overlap).done(),
    ];
    // The first line is the name of the job, the second line the name of the device.
    for line in reports.iter().flat_map(|report| report.lines().skip(2)) {
        let head = line.starts_with("schedule").then(|| heads(line));
        head.into_iter().flatten().for_each(&mut demand);
        // The verdict is a sentence.
        if !line.contains(" measured, ") && !line.contains(" modelled, ") {
            labels(line).into_iter().for_each(&mut demand);
        }
    }
    let replay = workdir.trijet(&["replay", "a.csv", "--device", "host"]).done();
    replay.lines().skip(1).take(1).flat_map(heads).for_each(&mut demand);
    // A row of figures has its name first.
    for line in replay.lines().skip(2).filter(|line| heads(line).count() > 2) {
        let name = heads(line).next().expect("a name");
        name.split(", ").map(str::to_owned).for_each(&mut demand);
    }
    let trace = workdir.trijet(&["trace", "--read", "ranks.trijet"]).done();
    let is_head = |line: &&str| {
        let line = line.trim();
        line.starts_with("engine ") || line.starts_with("rank ") && line.ends_with("awaited")
    };
    trace.lines().filter(is_head).flat_map(heads).for_each(&mut demand);
    // The row of an engine.
    for line in trace.lines().filter(|line| line.contains('%') && heads(line).count() > 2) {
        heads(line).take(1).for_each(&mut demand);
    }
    assert!(count > 100, "{count} labels");
    assert!(missing.is_empty(), "not in docs/words.md: {missing:#?}\n{reports:#?}\n{trace}");
}

/// Words of tables whose layout others test.
#[test]
fn words_of_doctor_and_of_pages_are_explained() {
    let workdir = Workdir::new();
    let known = known(&workdir);
    for word in [
        "H2D",
        "D2H",
        "pageable",
        "pinned",
        "noisy",
        "bare",
        "until done",
        "through trijet",
        "alone",
        "beside it",
        "at once",
        "contention",
        "computing",
        "memory-bound",
        "held back",
        "issued after",
        "resident grids",
        "queue depth",
        "spread",
        "median",
        "beside others",
        "exposed",
        "most held",
        "most live",
        "of live",
        "refused",
        "driver calls",
        "lower bound",
        "heap",
        "MEMORY/OVERRUN",
        "measured",
        "modelled",
        "bound",
        "efficiency",
        "lost",
        "limits",
        "nearest",
        "host's clock",
    ] {
        assert!(known.contains(&word.to_lowercase()), "`{word}` is not in docs/words.md");
        workdir.trijet(&["explain", word]).done();
    }
}

#[test]
fn a_plural_and_a_code_are_explained_as_they_are_printed() {
    let workdir = Workdir::new();
    for (word, first) in [
        ("slots", "slot: "),
        ("records", "record: "),
        ("over-waits", "over-wait: "),
        ("hazards", "hazard: "),
        ("remarks", "remark: "),
        ("warnings", "warning: "),
        ("waits", "wait: "),
        ("PERF/HOST-LATE", "PERF/HOST-LATE: "),
        ("RACE/RAW", "RACE/RAW: "),
    ] {
        let said = workdir.trijet(&["explain", word]).done();
        assert!(said.starts_with(first) && said.lines().count() <= 4, "{word}: {said}");
    }
}
