//! Pages that answer what if for ledgers. The test program keeps them in cargo's folder for tests, where
//! `cargo xtask browser` opens them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use trijet::check::{CheckOptions, check_with};
use trijet::pipeline::Schedule;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::WORK;
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::file::Writer;
use trijet::trace::{
    Access, Asked, DeviceId, Engine, LaneId, LedgerNote, Mode, Named, Op, OpKind, OrderedBy, Place,
    Position, StreamClass, StreamMark, StreamWork, Times,
};
use trijet::trace::{BlockId, TimeSource, file::About};
use trijet::{Bytes, Device, Nanos, Pipeline, Report};
use trijet_ledger::profile::{LedgerRun, what_if_ledger};

const CHUNK: Bytes = Bytes(1 << 10);

fn keep(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// A pipeline of chunks on the modelled clock, with three streams and four slots.
fn run(chunks: u64) -> Report {
    let config = HostConfig::new().executor(Executor::Virtual(Order::Greedy));
    let device = Device::builder().host(config).open().expect("a host device");
    let length = Bytes(chunks * CHUNK.0).to_usize() / size_of::<u32>();
    let input = device.pinned::<u32>(length).expect("page-locked memory");
    let mut output = device.pinned::<u32>(length).expect("page-locked memory");
    Pipeline::on(&device)
        .pinned_source(&input, 1)
        .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (2, x, y)))
        .pinned_sink(&mut output)
        .schedule(Schedule::RoleStreams)
        .chunk(CHUNK)
        .depth(4)
        .run()
        .expect("the pipeline runs")
}

fn page_of(ops: &[Op], title: &str) -> Option<String> {
    let dag = Dag::with_times(ops, Kernels::OneAtATime, TimeSource::Model);
    what_if_ledger(&LedgerRun { ops, dag: &dag, title, dropped: 0 })
}

/// The number that follows a name in the data of a page.
fn number(page: &str, name: &str) -> f64 {
    let (_, after) = page.split_once(&format!("\"{name}\":")).expect("the page has the number");
    let end = after.find([',', '}', ']']).expect("the number ends");
    after[..end].parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The number of pairs of conflicting entries without some entries.
fn conflicts(ops: &[Op], dropped: &[usize]) -> usize {
    let kept = ops.iter().enumerate().filter(|(at, _)| !dropped.contains(at));
    let kept: Vec<Op> = kept.map(|(_, op)| op.clone()).collect();
    let verdict = check_with(&kept, CheckOptions::new().findings_max(usize::MAX));
    let found = verdict.findings.iter().filter(|finding| finding.conflict.is_some());
    let pairs = found.map(|finding| {
        (finding.first.as_ref().map(|first| first.op), finding.second.op, finding.block)
    });
    pairs.collect::<BTreeSet<_>>().len()
}

/// The indices of the waits of streams.
fn waits_of(ops: &[Op]) -> Vec<usize> {
    let is_wait = |op: &Op| matches!(op.kind, OpKind::Mark(StreamMark::Wait { .. }));
    (0..ops.len()).filter(|at| is_wait(&ops[*at])).collect()
}

/// The page with the answers of the checker: for some waits, the number of conflicts without it. The
/// browser deletes these waits.
fn with_answers(page: &str, ops: &[Op]) -> String {
    let answer = |at: usize| format!("[{at},{}]", conflicts(ops, &[at]));
    let each: Vec<String> = waits_of(ops).into_iter().take(12).map(answer).collect();
    let answers = format!("<script>window.answers = {{each: [{}]}};</script>", each.join(","));
    page.replacen("<head>", &format!("<head>{answers}"), 1)
}

#[test]
fn a_page_of_a_ledger_has_its_waits_its_conflicts_and_its_chunks() {
    let report = run(60);
    let page = page_of(&report.ops, "60 <chunks>").expect("the run has times");
    for text in [
        "<title>What if: 60 &lt;chunks&gt;</title>",
        "\"ledger\":{\"lanes\":[",
        "\"conflicts\":0,",
        "\"ring\":{\"lines\":[",
        "\"depth\":4,",
        "id=\"h-conflicts\"",
    ] {
        assert!(page.contains(text), "{text}");
    }
    keep("what_if_ledger.html", with_answers(&page, &report.ops).as_bytes());
}

#[test]
fn the_replay_of_a_modelled_run_takes_the_measured_time() {
    let page = page_of(&run(60).ops, "chunks").expect("the run has times");
    assert_eq!(number(&page, "replayed"), number(&page, "measured"));
}

#[test]
fn a_deleted_wait_leaves_conflicts_in_the_ledger_of_a_pipeline() {
    let ops = run(12).ops;
    assert_eq!(conflicts(&ops, &[]), 0);
    let waits = waits_of(&ops);
    let most = waits.iter().map(|at| conflicts(&ops, &[*at])).max();
    assert!(most > Some(0), "{} waits", waits.len());
}

/// A page of 65 536 chunks is built by `cargo xtask browser`. `cargo test` builds one of a sixteenth of
/// them. Modelled times repeat, so the page is small.
#[test]
fn a_page_of_65536_chunks_has_at_most_one_megabyte() {
    let is_whole = std::env::var_os("TRIJET_WHOLE_PAGE").is_some();
    let (chunks, bytes_max) = if is_whole { (1 << 16, 1_000_000) } else { (1 << 12, 200_000) };
    let report = run(chunks);
    let page = page_of(&report.ops, &format!("{chunks} chunks")).expect("the run has times");
    assert!(page.len() <= bytes_max, "{} bytes", page.len());
    keep("what_if_chunks.html", page.as_bytes());
}

/// A copy of pageable memory and a kernel, with names that a page must not run.
fn hostile() -> Vec<Op> {
    let name = "</script><script>alert(1)</script>";
    let access = |block, place, mode| Access {
        block: BlockId(block),
        place,
        range: 0..64,
        mode,
        ordered: OrderedBy::Program,
    };
    let op = |kind: OpKind, engine, lane, seq, begin| {
        let position = Position { lane: LaneId(lane), seq };
        let times = Some(Times { begin: Nanos(begin), end: Nanos(begin + 100) });
        Op { label: name.into(), times, ..Op::new(kind, engine, DeviceId(0), position) }
    };
    let copy = op(StreamWork::Copy.into(), Engine::Upload, 1, 1, 100);
    let kernel = op(StreamWork::Kernel.into(), Engine::Compute, 2, 1, 300);
    let uses = |op: Op, list: Vec<Access>| Op { accesses: list.into_iter().collect(), ..op };
    let named = |of| op(LedgerNote::Name { of }.into(), Engine::None, 1, 0, 0);
    vec![
        Op { times: None, ..named(Named::Stream) },
        Op { times: None, ..named(Named::Block(BlockId(2))) },
        uses(
            copy,
            vec![access(1, Place::Pageable, Mode::Read), access(2, Place::Device, Mode::Write)],
        ),
        uses(kernel, vec![access(2, Place::Device, Mode::Read)]),
    ]
}

#[test]
fn names_of_a_ledger_are_text_on_the_page() {
    let page = page_of(&hostile(), "</script>").expect("the ledger has times");
    assert_eq!(page.matches("<script").count(), 3);
    assert!(page.contains("\"conflicts\":1,"), "the streams have no order");
    keep("what_if_hostile.html", page.as_bytes());
}

/// Entries with times at the ends of the clock, of every kind that a page shows.
#[test]
fn no_ledger_makes_the_page_panic() {
    let ends = [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    let engines = [Engine::Upload, Engine::Compute, Engine::Download, Engine::None];
    let on = Position { lane: LaneId(7), seq: u64::MAX };
    let kinds: [OpKind; 6] = [
        StreamWork::Copy.into(),
        StreamWork::Kernel.into(),
        StreamWork::CopyNow.into(),
        StreamMark::Record { event: 1, by: Asked::User }.into(),
        StreamMark::Wait { event: 1, on, by: Asked::User }.into(),
        LedgerNote::Gone { event: 1 }.into(),
    ];
    let mut draw = 7_u64;
    let mut pick = |count: usize| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((draw >> 33) % count as u64).expect("small")
    };
    for _ in 0..300 {
        let ops: Vec<Op> = (0..24)
            .map(|_| {
                let position = Position {
                    lane: LaneId(u32::try_from(pick(3)).expect("small")),
                    seq: ends[pick(5)],
                };
                let times = |a: u64, b: u64| Some(Times { begin: Nanos(a), end: Nanos(b) });
                let base = Op::new(kinds[pick(6)], engines[pick(4)], DeviceId(0), position);
                let access = Access {
                    block: BlockId(ends[pick(5)]),
                    place: [Place::Device, Place::Pageable, Place::Pinned][pick(3)],
                    range: ends[pick(3)]..ends[pick(5)],
                    mode: [Mode::Read, Mode::Write, Mode::Update][pick(3)],
                    ordered: OrderedBy::Library,
                };
                Op {
                    stream: [StreamClass::NonBlocking, StreamClass::Legacy][pick(2)],
                    bytes: ends[pick(5)],
                    chunk: Some(ends[pick(5)]),
                    thread: ends[pick(5)],
                    call: times(ends[pick(5)], ends[pick(5)]),
                    times: times(ends[pick(5)], ends[pick(5)]),
                    accesses: [access].into_iter().collect(),
                    ..base
                }
            })
            .collect();
        drop(page_of(&ops, "damaged"));
    }
}

fn trijet(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trijet"));
    command.args(arguments).env_clear().current_dir(folder).output().expect("it starts")
}

/// A ledger file of these entries.
fn ledger_file(folder: &Path, name: &str, times: TimeSource, ops: &[Op]) -> PathBuf {
    let report = run(2);
    let about = About { times, ..report.about("a test") };
    let mut writer = Writer::new(Vec::new(), &about).expect("a writer");
    ops.iter().for_each(|op| writer.push(op).expect("an entry"));
    let path = folder.join(name);
    std::fs::write(&path, writer.finish().expect("a file")).expect("it is written");
    path
}

#[test]
fn the_command_writes_the_page_of_a_ledger_and_refuses_a_damaged_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let ops = run(4).ops;
    let path = ledger_file(folder.path(), "run.ledger", TimeSource::Model, &ops);
    let ran = trijet(folder.path(), &["what-if", "run.ledger", "-o", "run.html"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let page = std::fs::read_to_string(folder.path().join("run.html")).expect("the page");
    assert!(page.contains("<title>What if: a test</title>"));

    let bytes = std::fs::read(&path).expect("the ledger");
    std::fs::write(folder.path().join("cut.ledger"), &bytes[..bytes.len() - 3]).expect("written");
    let ran = trijet(folder.path(), &["what-if", "cut.ledger", "-o", "cut.html"]);
    assert!(!ran.status.success() && !folder.path().join("cut.html").exists());
    assert!(String::from_utf8_lossy(&ran.stderr).contains("cut.ledger"));

    ledger_file(folder.path(), "untimed.ledger", TimeSource::Missing, &ops);
    let ran = trijet(folder.path(), &["what-if", "untimed.ledger", "-o", "untimed.html"]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("the ledger has no times"));
}
