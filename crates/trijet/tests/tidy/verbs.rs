//! Each public function of the library has a row in the matrix of contexts (`tests/matrix/verbs`),
//! or stands in the table below with the reason why it needs no row.

use std::collections::BTreeSet;

use crate::files::LIBRARY;
use crate::paths::module_path;
use crate::source::{
    attributes_before, blank_tests, closing_brace, ident_at, line_of, mask, occurrences, skip_space,
};
use crate::{File, Finding, demand_none, files};

/// The folder of the rows.
const ROWS: &str = "crates/trijet/tests/matrix/verbs/";

/// The reason why the functions need no row, and their names: a folder below `src/` that ends with
/// `/`, all functions of a type or of a module, or one function.
const WITHOUT_A_ROW: &[(&str, &[&str])] = &[
    (
        "modules below the devices, which cannot reach a driver",
        &["base/", "check/", "profile/", "trace/"],
    ),
    (
        "a description without a device, or with one that only a later call uses",
        &[
            "Uses::*",
            "Args::*",
            "Batch::new",
            "BucketPlan::*",
            "DeviceBuilder::select",
            "DeviceBuilder::host",
            "DeviceBuilder::gpus_or",
            "DeviceBuilder::pool",
            "DeviceBuilder::red_zones",
            "DeviceBuilder::check",
            "Bound::*",
            "Change::*",
            "Code::*",
            "Communicator::builder",
            "CommunicatorBuilder::devices",
            "CommunicatorBuilder::nccl",
            "CommunicatorBuilder::rank",
            "CostModel::*",
            "Data::read",
            "Data::read_range",
            "Data::reduce",
            "Data::reduce_range",
            "Data::update",
            "Data::update_range",
            "Data::write",
            "Data::write_range",
            "Device::builder",
            "Exchange::*",
            "HostConfig::*",
            "Kernel::*",
            "KernelSpec::*",
            "LaunchConfig::*",
            "Layout::*",
            "Program::*",
            "ProgramSpec::*",
            "RunOptions::*",
            "StreamOptions::*",
            "TaskGraph::*",
            "TaskOptions::*",
            "Tiling::*",
            "Uses::*",
            "View::tiled",
            "ViewMut::tiled",
            "cluster::*",
            "gemm::*",
            "lint::*",
            "multicast::*",
            "rows::*",
            "spec::*",
            "warp_specialized::*",
            "workers/queens/",
        ],
    ),
    (
        "a builder, whose mistakes its last call returns",
        &[
            "Pipeline::audience",
            "Pipeline::calibrated",
            "Pipeline::cancel_with",
            "Pipeline::chunk",
            "Pipeline::depth",
            "Pipeline::drop_wait",
            "Pipeline::halo",
            "Pipeline::output_rows",
            "Pipeline::host_memory",
            "Pipeline::host_work",
            "Pipeline::on",
            "Pipeline::on_progress",
            "Pipeline::pinned_sink",
            "Pipeline::pinned_source",
            "Pipeline::reads",
            "Pipeline::remember",
            "Pipeline::replay",
            "Pipeline::rows",
            "Pipeline::schedule",
            "Pipeline::sharing",
            "Pipeline::sink",
            "Pipeline::source",
            "Pipeline::stage",
            "Pipeline::times",
            "Pipeline::untraced",
            "Staged::cancel_with",
            "Staged::depth",
            "Staged::host_stage",
            "Staged::issue",
            "Staged::item",
            "Staged::lanes",
            "Staged::on",
            "Staged::recycled",
            "Staged::stage",
            "Task::named",
            "WorkerTask::new",
            "Task::on",
            "Task::urgent",
        ],
    ),
    (
        "a number, a name, or a part that the value itself has",
        &[
            "Buffer::address",
            "Buffer::is_empty",
            "Buffer::len",
            "Buffer::slice",
            "Buffer::slice_mut",
            "Buffer::view",
            "Buffer::view_mut",
            "Calibration::bound",
            "Calibration::bound_with_copies",
            "Calibration::bound_with_fill_and_drain",
            "Chooser::new",
            "Chosen::policy",
            "ChunkChoice::*",
            "Communicator::is_empty",
            "Communicator::len",
            "Communicator::ranks",
            "Data::is_empty",
            "Data::len",
            "Device::id",
            "Device::info",
            "Device::owns",
            "EngineReport::*",
            "MemoryUse::*",
            "Explanation::*",
            "GradientBuckets::arguments",
            "GradientBuckets::buckets",
            "GradientBuckets::gradient",
            "GradientBuckets::gradient_mut",
            "GradientBuckets::order",
            "GradientBuckets::plan",
            "Graph::is_empty",
            "Graph::len",
            "GrowingBuffer::address",
            "GrowingBuffer::is_empty",
            "GrowingBuffer::len",
            "GrowingBuffer::len_max",
            "GrowingBuffer::slice",
            "GrowingBuffer::slice_mut",
            "ItemCx::*",
            "LauncherRank::of",
            "LauncherRank::of_environment",
            "Library::*",
            "Limits::*",
            "MicroBatchOrder::*",
            "Plan::*",
            "Policy::*",
            "Prepared::plan",
            "Prepared::replayed",
            "Prepared::tried",
            "Ranks::count",
            "Ranks::rank",
            "Ranks::timeout",
            "Report::*",
            "RunReport::*",
            "Schedule::*",
            "StageCx::*",
            "WorkerTask::payload",
            "WorkerTask::word",
            "TaskNode::*",
            "Trace::*",
            "View::address",
            "View::cast",
            "View::is_empty",
            "View::len",
            "View::slice",
            "ViewMut::*",
        ],
    ),
    ("a flag of the program", &["Cancel::*"]),
    (
        "for the bodies of twins, which run on threads of a host device and get no handle",
        &["ArgBlock::*", "Matrix::*", "Shared::*", "SpanArg::*", "Tile::*", "Worker::*"],
    ),
    ("a look at the libraries of the system, without a driver", &["probe::libraries"]),
    (
        "for tests of the devices themselves, on drivers of its own below the library",
        &["conform::transcript"],
    ),
    ("the check for a fork itself", &["probe::refuse_in_child"]),
];

/// A function, with its line and its names: more than one if a macro defines it for several types.
struct Function {
    line: usize,
    names: Vec<String>,
}

/// The block around an offset: its header and its range. Only blocks that `word` starts at the
/// start of a line count.
fn enclosing<'a>(code: &'a str, word: &str, at: usize) -> Option<(&'a str, usize)> {
    let starts_line = |begin: usize| {
        let line = code[..begin].rfind('\n').map_or(0, |n| n + 1);
        matches!(code[line..begin].trim(), "" | "unsafe")
    };
    let blocks =
        occurrences(code, word).into_iter().filter(|begin| *begin < at && starts_line(*begin));
    let mut inside = blocks.filter_map(|begin| {
        let open = begin + code[begin..].find('{')?;
        (open < at && at < closing_brace(code, open)).then(|| (&code[begin..open], begin))
    });
    inside.next_back()
}

/// The name of the type of an `impl`, without its parameters: `impl<T> fmt::Debug for a::B<T>` is
/// `B`.
fn implemented(header: &str) -> &str {
    let mut rest = header["impl".len()..].trim_start();
    if rest.starts_with('<') {
        let mut depth = 0;
        let close = rest.bytes().position(|byte| {
            depth += i32::from(byte == b'<') - i32::from(byte == b'>');
            depth == 0
        });
        rest = rest[close.map_or(0, |close| close + 1)..].trim_start();
    }
    let name = rest.split(" for ").last().unwrap_or(rest).trim_start();
    let path = name.split(['<', ' ', '\n']).next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path)
}

/// The types of an `impl`. In a macro, these are the arguments of the macro.
fn types(code: &str, header: &str, at: usize) -> Vec<String> {
    let name = implemented(header);
    if !name.starts_with('$') {
        return vec![name.to_owned()];
    }
    let Some((rules, begin)) = enclosing(code, "macro_rules", at) else { return Vec::new() };
    let called = format!("{}!(", ident_at(code, begin + skip_space(rules, "macro_rules!".len())));
    let calls = occurrences(code, &called).into_iter();
    calls.map(|call| ident_at(code, skip_space(code, call + called.len())).to_owned()).collect()
}

/// The public functions of a file of the library.
fn functions(file: &File) -> Vec<Function> {
    let Some(below) = file.in_library() else { return Vec::new() };
    let code = blank_tests(&mask(&file.text));
    let mut found = Vec::new();
    for at in occurrences(&code, "pub") {
        let mut next = skip_space(&code, at + "pub".len());
        while let word @ ("const" | "unsafe" | "async") = ident_at(&code, next) {
            next = skip_space(&code, next + word.len());
        }
        if ident_at(&code, next) != "fn" {
            continue;
        }
        let name = ident_at(&code, skip_space(&code, next + "fn".len()));
        let owners = match enclosing(&code, "impl", at) {
            Some((header, begin)) => types(&code, header, begin),
            None => vec![(*module_path(below).last().unwrap_or(&"crate")).to_owned()],
        };
        let names = owners.iter().map(|owner| format!("{owner}::{name}")).collect();
        found.push(Function { line: line_of(&code, at), names });
    }
    found.extend(behaviours(&code));
    found
}

/// The drops and the futures of public types.
fn behaviours(code: &str) -> Vec<Function> {
    let is_public = |name: &str| !occurrences(code, &format!("pub struct {name}")).is_empty();
    let mut found = Vec::new();
    for (what, verb) in [("Drop for", "drop"), ("Future for", "poll")] {
        for at in occurrences(code, what) {
            let name = ident_at(code, skip_space(code, at + what.len()));
            if is_public(name) && attributes_before(code, at) <= at {
                let names = vec![format!("{name}::{verb}")];
                found.push(Function { line: line_of(code, at), names });
            }
        }
    }
    found
}

/// The functions that have a row. The text after the name distinguishes two rows of one function.
fn rows(all: &[File]) -> BTreeSet<String> {
    let files = all.iter().filter(|file| file.path.starts_with(ROWS));
    let texts = files.flat_map(|file| file.text.split("Verb::new(").skip(1));
    let quoted = texts.filter_map(|text| text.split('"').nth(1));
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
    quoted.map(|name| name.split(|c| !is_part(c)).next().unwrap_or(name).to_owned()).collect()
}

/// The drops of public types, which have a row if they do more than the drops of their fields.
fn drops(file: &File) -> Vec<String> {
    let Some(_) = file.in_library() else { return Vec::new() };
    let code = mask(&file.text);
    let structs = occurrences(&code, "pub struct").into_iter();
    structs
        .map(|at| format!("{}::drop", ident_at(&code, skip_space(&code, at + "pub struct".len()))))
        .collect()
}

/// Whether an entry of the table names a function of this file.
fn covers(entry: &str, file: &File, name: &str) -> bool {
    match (entry.strip_suffix('/'), entry.strip_suffix('*')) {
        (Some(_), _) => file.in_library().is_some_and(|below| below.starts_with(entry)),
        (_, Some(owner)) => name.starts_with(owner),
        (None, None) => name == entry,
    }
}

/// Functions without a row and without an entry, rows without a function, and entries without a
/// function or with a function that has a row.
fn findings(all: &[File], table: &[(&str, &[&str])]) -> Vec<Finding> {
    let (rows, mut known, mut used) = (rows(all), BTreeSet::new(), BTreeSet::new());
    let mut findings = Vec::new();
    let entries = || table.iter().flat_map(|(_, entries)| entries.iter());
    for file in all {
        known.extend(drops(file));
        for function in functions(file) {
            for name in function.names {
                let covering = entries().filter(|entry| covers(entry, file, &name));
                let is_covered = covering.map(|entry| used.insert(*entry)).count() > 0;
                if is_covered == rows.contains(&name) {
                    let what = if is_covered { "both a row and an entry" } else { "no row" };
                    findings.push(file.finding(function.line, format!("`{name}` has {what}")));
                }
                known.insert(name);
            }
        }
    }
    let place = File::new(ROWS, "");
    let stale = rows.difference(&known).map(|name| format!("a row of `{name}`"));
    let unused = entries().filter(|entry| !used.contains(*entry));
    let all = stale.chain(unused.map(|entry| format!("the entry `{entry}`")));
    findings.extend(all.map(|what| place.finding(1, format!("{what} is of nothing public"))));
    findings
}

#[test]
fn every_public_function_has_a_row_in_the_matrix_of_contexts() {
    let all = files();
    assert!(rows(&all).len() > 100 && all.iter().any(|file| file.path.starts_with(LIBRARY)));
    demand_none("public functions in the matrix of contexts", &findings(&all, WITHOUT_A_ROW));
}

#[test]
fn a_public_function_without_a_row_is_found() {
    let text = "macro_rules! both {\n    ($type:ident) => {\n        impl $type {\n            pub fn a(&self) {}\n        \
                }\n    };\n}\nboth!(One);\nboth!(Two);\n\
                impl<T: Into<u8>> Three<'_, T> {\n    pub const unsafe fn b() {}\n    pub(crate) fn c() {}\n}\n\
                pub fn d(x: impl Fn()) -> impl Fn() {\n}\n\
                pub struct Three;\nimpl<T> Drop for Three<'_, T> {\n}\nimpl Drop for Hidden {\n}\n";
    let library = File::new("crates/trijet/src/x/four.rs", text);
    let rows = "Verb::new(\"One::a\", R);\nVerb::new(\n    \"four::d, twice\", R);\nVerb::new(\"Gone::e\", R);";
    let rows = File::new("crates/trijet/tests/matrix/verbs/a.rs", rows);
    let table: &[(&str, &[&str])] = &[("why", &["Three::b", "One::*", "Unused::*"])];
    let found = findings(&[library, rows], table);
    let words: Vec<_> = found.iter().map(|one| (one.line, one.message.as_str())).collect();
    assert_eq!(
        words,
        [
            (4, "`One::a` has both a row and an entry"),
            (4, "`Two::a` has no row"),
            (17, "`Three::drop` has no row"),
            (1, "a row of `Gone::e` is of nothing public"),
            (1, "the entry `Unused::*` is of nothing public"),
        ]
    );
}
