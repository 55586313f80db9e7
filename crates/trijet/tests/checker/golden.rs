//! The text of reports, word for word, as in `tests/golden/check-*.txt`.

use super::log::{A, B, D, E, H, Log, log, part, r, w};
use std::path::Path;
use trijet::check::Names;
use trijet::trace::{BlockId, LaneId, Mode, Signalled, StreamWork};

fn names() -> Names {
    let lanes = [(LaneId(A), "compute".to_owned()), (LaneId(B), "copy".to_owned())];
    let blocks = [(BlockId(D), "in0".to_owned()), (BlockId(H), "staging".to_owned())];
    let events = [(E, "e1".to_owned())].into();
    Names { lanes: lanes.into(), blocks: blocks.into(), events, ..Names::default() }
}

#[track_caller]
fn is_golden(file: &str, faulty: Log) {
    let found = faulty.with(|options| options.names(names())).verdict().text(&names());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|why| format!("{file}: {why}"));
    assert!(found == kept.trim_end(), "{file} has\n{kept}\nfound\n{found}");
}

#[test]
fn a_race_with_an_event_that_predates_the_read() {
    let all = |mode| part(D, 0..64 << 20, mode);
    let faulty = log()
        .k(B, &[all(Mode::Write)])
        .rec(E, B)
        .wait(E, A)
        .rec(E, A)
        .work(StreamWork::Kernel, A, "k_scale", &[all(Mode::Read)])
        .wait(E, B)
        .work(StreamWork::Copy, B, "h2d chunk 3", &[r(H), all(Mode::Write)]);
    is_golden("check-race.txt", faulty);
}

/// The manual shows a report that the checker writes.
#[test]
fn the_report_in_the_manual_is_one_of_the_golden_ones() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(crate_root.join(file)).expect("it is there");
    let report = read("tests/golden/check-race.txt");
    let (report, _) = report.split_once("\n\n").expect("a report, and a summary");
    assert!(read("../../docs/checking.md").contains(report), "docs/checking.md lacks\n{report}");
}

#[test]
fn the_host_overwrites_what_an_upload_reads() {
    is_golden("check-host.txt", log().copy(B, D, H).undeclared(A).host(w(H)));
}

/// Cases 32 and 33 as reports.
#[test]
fn waits_that_nothing_answers() {
    let risky = log().host_fn(A).host_fn(B);
    let risky = risky.inside(A, 1, 8, Signalled::Wait).inside(B, 1, 8, Signalled::Set);
    let faulty = risky.host_fn(A).inside(A, 2, 7, Signalled::Wait).sync(A);
    let faulty = faulty.signal(7, Signalled::Set);
    is_golden("check-deadlock.txt", faulty);
}

#[test]
fn a_free_races_with_a_reader() {
    let faulty = log().alloc(A, D).k(A, &[w(D)]).rec(E, A).wait(E, B).k(B, &[r(D)]).free(A, D);
    is_golden("check-life.txt", faulty.free(A, D));
}
