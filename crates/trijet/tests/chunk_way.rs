//! The way of one chunk through the code: each call of a pipeline enters a folder of the library at
//! most once, and passes the files that ARCHITECTURE.md lists, in the same order.
//!
//! The test runs a traced pipeline of one chunk on the simulated host device, where all work
//! happens on the calling thread. From the end of the read of the chunk to the start of the write
//! of its results, the allocator of this program keeps the stack of every call to the heap. The
//! host device uses the heap in each call that the chunk makes, so the stacks show how the code
//! gets there. The files come from line tables, which name inlined functions too; the test profile
//! has them.

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use trijet::pipeline::{HostWork, Layout, Schedule};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::WORK;
use trijet::{Device, Pipeline, Result, Sink, Source};

/// The path of a source file of the library is one of these, then the path in ARCHITECTURE.md.
const SOURCES: [&str; 2] = ["crates/trijet/src/", "crates/trijet-ledger/src/"];

/// The title of the section of ARCHITECTURE.md with the table.
const SECTION: &str = "## One chunk, folder by folder\n";

/// Folders that any other folder may call on its way.
const SERVING: [&str; 2] = ["base", "log"];

thread_local! {
    /// Whether the calls of this thread to the heap are followed.
    static FOLLOWED: Cell<bool> = const { Cell::new(false) };
    static STACKS: RefCell<Vec<Backtrace>> = const { RefCell::new(Vec::new()) };
}

/// The system's allocator, which keeps the stacks of its callers.
struct Following;

/// Keeps the stack of the caller. The capture's own calls to the heap are not followed, and neither
/// is a panic, which holds a lock that the capture needs.
fn keep_stack() {
    if !std::thread::panicking() && FOLLOWED.replace(false) {
        let stack = Backtrace::force_capture();
        STACKS.with_borrow_mut(|stacks| stacks.push(stack));
        FOLLOWED.set(true);
    }
}

// SAFETY: the system's allocator does all of the work. Keeping a stack does not unwind: the list is
// borrowed here only while `FOLLOWED` is down, and a thread that is followed has not ended.
unsafe impl GlobalAlloc for Following {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        keep_stack();
        // SAFETY: the caller promises what the system demands of `block`.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, address: *mut u8, block: Block) {
        keep_stack();
        // SAFETY: `alloc` above got the address from the system, for the same `block`.
        unsafe { System.dealloc(address, block) }
    }
}

#[global_allocator]
static FOLLOWING: Following = Following;

/// A source of one small chunk. Its read starts the following of the thread.
struct Begin;

impl Source for Begin {
    fn layout(&self) -> Layout {
        Layout::of::<u32>(4, 4)
    }

    fn read(&self, _: Range<u64>, into: &mut [u8]) -> Result<()> {
        into.fill(1);
        FOLLOWED.set(true);
        Ok(())
    }
}

/// A sink whose write ends the following.
struct End;

impl Sink for End {
    fn write(&mut self, _: Range<u64>, _: &[u8]) -> Result<()> {
        FOLLOWED.set(false);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The stacks of one chunk, in the order of its calls.
fn follow_one_chunk() -> Result<Vec<String>> {
    let executor = Executor::Virtual(Order::Greedy);
    let devices = Device::host(HostConfig { executor, ..HostConfig::default() })?;
    let report = Pipeline::on(&devices[0])
        .source(Begin)
        .stage(|cx, x, y| cx.launch(&WORK, (1, x, y)))
        .sink(End)
        .schedule(Schedule::RoleStreams)
        .host_work(HostWork::Inline)
        .run()?;
    assert!(report.summary().is_some(), "the run was traced");
    Ok(STACKS.take().iter().map(|stack| format!("{stack:#}")).collect())
}

/// The file that calls functions of its callers and catches their panics. It enters no folder by
/// itself.
const CALLS_BACK: &str = "base/panic.rs";

/// The files of the library on a stack, from the outermost call to the innermost, without the
/// lines.
fn files(stack: &str) -> Vec<&str> {
    let places = stack.lines().rev().filter_map(|line| line.trim_start().strip_prefix("at "));
    let ours =
        places.filter_map(|place| SOURCES.iter().find_map(|sources| place.rsplit_once(sources)));
    ours.filter_map(|(_, file)| file.split(':').next()).filter(|file| *file != CALLS_BACK).collect()
}

/// The folders of a list of files. Equal neighbours count once.
fn folders<'a>(files: &[&'a str]) -> Vec<&'a str> {
    let mut folders: Vec<&str> =
        files.iter().map(|file| file.split_once('/').map_or(*file, |(folder, _)| folder)).collect();
    folders.dedup();
    folders
}

/// The first folder that a way leaves and enters again.
fn entered_again<'a>(way: &[&'a str]) -> Option<&'a str> {
    let mut folders = way.iter().enumerate();
    folders.find(|(at, folder)| way[..*at].contains(folder)).map(|(_, folder)| *folder)
}

/// A way without the folders that serve on it.
fn main_way<'a>(way: &[&'a str]) -> Vec<&'a str> {
    let mut main: Vec<&str> = way.iter().filter(|f| !SERVING.contains(f)).copied().collect();
    main.dedup();
    main
}

/// Whether `stack` has all of `files` in this order. Others may stand between them.
fn passes(stack: &[&str], files: &[&str]) -> bool {
    let mut stack = stack.iter();
    files.iter().all(|file| stack.any(|passed| passed == file))
}

/// The calls that ARCHITECTURE.md lists, each with its files.
fn described(text: &str) -> Vec<(&str, Vec<&str>)> {
    let section = text.split_once(SECTION).expect("ARCHITECTURE.md has the section").1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")).skip(1);
    rows.map(|row| {
        let (call, files) = row.split_once(" | ").expect("a row has two columns");
        (call, files.split('`').skip(1).step_by(2).collect())
    })
    .collect()
}

#[test]
fn one_chunk_enters_each_folder_once_as_the_architecture_says() -> Result<()> {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(text).expect("ARCHITECTURE.md can be read");
    let described = described(&text);
    let stacks = follow_one_chunk()?;
    let stacks: Vec<Vec<&str>> = stacks.iter().map(|stack| files(stack)).collect();
    assert!(stacks.iter().any(|files| !files.is_empty()), "the test has no line tables");
    for files in &stacks {
        assert_eq!(entered_again(&folders(files)), None, "{files:#?}");
    }
    let ways = described.iter().map(|(_, files)| folders(files)).collect::<Vec<_>>();
    let mut to_the_driver = Vec::new();
    for files in &stacks {
        let way = main_way(&folders(files));
        assert!(ways.iter().any(|known| known.starts_with(&way)), "not described: {files:#?}");
        if way.contains(&"device") {
            to_the_driver.push(way);
        }
    }
    to_the_driver.dedup();
    assert_eq!(to_the_driver, ways, "the calls of a chunk that reach the driver, in order");
    for (call, files) in described {
        assert!(
            stacks.iter().any(|stack| passes(stack, &files)),
            "no stack of `{call}`: {files:?}"
        );
    }
    Ok(())
}

/// A stack that goes up from the driver to the ordering in its innermost call.
const BACK: &str = "\
   0: trijet::order::mark::Mark::back
             at /home/a/crates/trijet/src/order/mark.rs:3:1
   1: core::ops::function::FnOnce::call_once
             at /rustc/0/library/core/src/ops/function.rs:250:5
   2: trijet::device::host::driver::submit
             at /home/a/crates/trijet/src/device/host/verbs/driver.rs:2:1
   3: trijet::base::retry
             at /home/a/crates/trijet-ledger/src/base/retry.rs:2:1
   4: trijet::order::gate::Gate::submit
             at /home/a/crates/trijet/src/order/gate.rs:9:1
   5: trijet::order::enqueue::enqueue
             at /home/a/crates/trijet/src/order/enqueue.rs:9:1
";

#[test]
fn a_stack_that_goes_back_is_refused() {
    let files = files(BACK);
    let down =
        ["order/enqueue.rs", "order/gate.rs", "base/retry.rs", "device/host/verbs/driver.rs"];
    assert_eq!(files, [&down[..], &["order/mark.rs"]].concat());
    assert_eq!(folders(&files), ["order", "base", "device", "order"]);
    assert_eq!(entered_again(&folders(&files)), Some("order"));
    assert_eq!(entered_again(&folders(&down)), None);
    assert_eq!(main_way(&folders(&down)), ["order", "device"]);
}

#[test]
fn a_stack_passes_files_in_their_order_only() {
    let stack = ["pipeline/run.rs", "pipeline/run/drive.rs", "memory/copy.rs", "order/gate.rs"];
    assert!(passes(&stack, &["pipeline/run/drive.rs", "order/gate.rs"]));
    assert!(!passes(&stack, &["order/gate.rs", "pipeline/run/drive.rs"]));
    assert!(!passes(&stack, &["pipeline/run/drive.rs", "launch/kernel.rs", "order/gate.rs"]));
}

#[test]
fn the_table_ends_with_its_section() {
    let table = "| call | files |\n|---|---|\n| one | `a/b.rs`, `c/d.rs` |\n| two | `a/b.rs` |\n";
    let text = format!(
        "# House\n| x | `y` |\n{SECTION}\nWords `f.rs`.\n\n{table}\n## Next\n| z | `z` |\n"
    );
    assert_eq!(described(&text), [("one", vec!["a/b.rs", "c/d.rs"]), ("two", vec!["a/b.rs"])]);
}
