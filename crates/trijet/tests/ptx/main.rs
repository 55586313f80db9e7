//! The text of a kernel is compared with its device and its launches, before a driver is called.

mod fuzzed;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use trijet::kernels::{Code, Cost, KernelSpec, Shape, Tile, Twin, Update, lint};
use trijet::sim::HostConfig;
use trijet::{Buffer, Device, Error, ErrorKind, Kernel, LaunchConfig, Result, Stream};

fn open() -> Device {
    Device::host(HostConfig::default()).expect("the machine starts a few threads").remove(0)
}

fn refused(outcome: Result<()>, kind: ErrorKind, words: &[&str]) {
    let error: Error = outcome.expect_err("it is refused");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{error}` does not contain `{word}`");
    }
}

/// The declaration of a kernel with this text, and with a twin that does nothing.
fn spec(text: &'static str) -> KernelSpec {
    let twin = Twin {
        tile_elements: |_| 16,
        run: |_: &mut Tile<'_>| {},
        cost: |_| Cost { bytes: 0, ops: 0 },
    };
    KernelSpec::new("step", Code::ptx(text), Shape::Given(|_, _| Ok(()))).twin(twin)
}

fn kernel(text: &'static str) -> Kernel<(Update<u64>,)> {
    // SAFETY: a host device runs the twin, which touches nothing.
    unsafe { Kernel::declare(spec(text)) }
}

fn launch(stream: &Stream, text: &'static str, config: LaunchConfig) -> Result<()> {
    let mut x: Buffer<u64> = stream.alloc(8)?;
    stream.launch_with(&kernel(text), config, (&mut x,))
}

#[test]
fn too_much_static_shared_memory_shows_without_a_gpu() -> Result<()> {
    let device = open();
    let over = ".version 8.0\n.target sm_80\n.entry step() { .shared .b64 x[6145]; ret; }";
    let words = ["step.ptx: PTX/STATIC-SHARED: `step`: 49160 bytes", "at most 49152"];
    refused(device.load(&kernel(over)), ErrorKind::Compile, &words);
    device
        .load(&kernel(".version 8.0\n.target sm_80\n.entry step() { .shared .b64 x[6144]; ret; }"))
}

/// A host device compiles no PTX, so it has no architecture and no version to compare.
#[test]
fn a_host_device_loads_every_target_version_and_text() -> Result<()> {
    let device = open();
    for text in [
        ".version 99.0\n.target sm_999a\n.entry step() { ret; }",
        ".entry other() { ret; }",
        "no PTX at all",
        "",
    ] {
        device.load(&kernel(text))?;
    }
    Ok(())
}

#[test]
fn remarks_refuse_no_load() -> Result<()> {
    const FIRST: &str = ".entry step() { griddepcontrol.launch_dependents; ret; }";
    const EARLY: &str = ".entry step() { ld.global.nc.u32 %r1, [%rd1]; griddepcontrol.wait; ret; }";
    for text in [FIRST, EARLY] {
        assert_eq!(lint(text).len(), 1, "{text}");
        open().load(&kernel(text))?;
    }
    Ok(())
}

#[test]
fn a_launch_has_the_blocks_and_the_clusters_of_the_text() -> Result<()> {
    const TEXT: &str = ".entry step() .reqntid 64 .reqnctapercluster 2 { ret; }";
    let device = open();
    let s = device.stream()?;
    let config = LaunchConfig::new([4, 1, 1], [64, 1, 1]);
    launch(&s, TEXT, config)?;
    launch(&s, TEXT, config.cluster([2, 1, 1]))?;
    let value = ErrorKind::InvalidValue;
    let block = launch(&s, TEXT, LaunchConfig::new([4, 1, 1], [32, 1, 1]));
    refused(
        block,
        value,
        &[
            "`step`",
            "a block of 32 x 1 x 1; `.reqntid` in the PTX of the kernel demands 64 x 1 x 1",
        ],
    );
    let cluster = launch(&s, TEXT, config.cluster([4, 1, 1]));
    refused(cluster, value, &["a cluster of 4 x 1 x 1; `.reqnctapercluster`"]);
    let grid = launch(&s, TEXT, LaunchConfig::new([3, 1, 1], [64, 1, 1]));
    refused(
        grid,
        value,
        &["grid.x is 3; `.reqnctapercluster` in the PTX of the kernel demands a multiple of 2"],
    );
    launch(&s, TEXT, LaunchConfig::new([0, 1, 1], [64, 1, 1]))?;
    launch(&s, ".entry step() { ret; }", LaunchConfig::new([3, 1, 1], [32, 1, 1]))?;
    s.synchronize()
}

/// A wait that a thread may skip, or that comes after a use of memory, orders nothing: a dependent
/// launch of such a kernel computes with what the kernel before it has not written yet.
#[test]
fn a_dependent_launch_is_accepted_where_the_lint_has_no_finding_about_the_wait() -> Result<()> {
    const WAIT: &str = "griddepcontrol.wait;";
    let s = open().stream()?;
    let config = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
    let early = [
        "ld.global.nc.u32 %r1, [%rd1];",
        "ld.global.u32 %r1, [%rd1];",
        "ld.u32 %r1, [%rd1];",
        "st.global.u32 [%rd1], %r1;",
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "red.global.add.u32 [%rd1], 1;",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];",
        "cp.async.ca.shared.global [%r1], [%rd1], 16;",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd1];",
        "wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%f1};",
        "discard.global.L2 [%rd1], 128;",
        "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1;",
    ];
    let mut texts: Vec<(String, &[&str])> = vec![
        (WAIT.to_owned(), &[]),
        (format!("ld.shared.u32 %r1, [%r2]; {WAIT} st.global.u32 [%rd1], %r1;"), &[]),
        (format!("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{%r1}}, [%r2]; {WAIT}"), &[]),
        (format!("wmma.mma.sync.aligned.row.col.f32.f32 {{%f1}}, {{%r1}}; {WAIT}"), &[]),
        (format!("@%p1 bra out; {WAIT} out:"), &["PDL/SKIPPED-WAIT", "a path ends"]),
        (format!("@%p1 ret; {WAIT}"), &["PDL/SKIPPED-WAIT", "a path ends"]),
        (format!("@%p1 {WAIT}"), &["PDL/SKIPPED-WAIT", "a path ends"]),
    ];
    for used in early {
        texts.push((format!("{used} {WAIT}"), &["PDL/EARLY-USE", "before"]));
        texts.push((
            format!("@%p1 bra on; {WAIT} bra end; on: {used} {WAIT} end:"),
            &["PDL/EARLY-USE", "before"],
        ));
    }
    for (text, words) in texts {
        let text: &'static str = format!(".entry step() {{ {text} ret; }}").leak();
        let found: Vec<String> = lint(text).iter().map(|one| one.rule.to_string()).collect();
        launch(&s, text, config)?;
        let dependent = launch(&s, text, config.dependent());
        match words {
            [rule, word] => {
                assert_eq!(found, [*rule], "{text}");
                let words = ["`step`", word, "`KernelSpec::trust_wait`"];
                refused(dependent, ErrorKind::InvalidValue, &words);
            }
            _ => {
                assert_eq!(found, [""; 0], "{text}");
                dependent?;
            }
        }
    }
    s.synchronize()
}

/// Weights that no kernel writes may be loaded before the wait, and a barrier may order other
/// threads after the one that waits. The text shows neither, so the author promises it. A kernel
/// without any wait cannot keep the promise.
#[test]
fn an_author_can_promise_a_wait_that_the_text_does_not_show() -> Result<()> {
    let s = open().stream()?;
    let config = LaunchConfig::new([1, 1, 1], [32, 1, 1]).dependent();
    let launch = |text| {
        let mut x: Buffer<u64> = s.alloc(8)?;
        // SAFETY: a host device runs the twin, which touches nothing.
        let trusted = unsafe { Kernel::<(Update<u64>,)>::declare(spec(text).trust_wait()) };
        s.launch_with(&trusted, config, (&mut x,))
    };
    launch(".entry step() { ld.global.u32 %r1, [%rd1]; griddepcontrol.wait; ret; }")?;
    launch(".entry step() { @%p1 ret; griddepcontrol.wait; ret; }")?;
    let none = launch(".entry step() { ret; }");
    refused(none, ErrorKind::InvalidValue, &["`step`", "no `griddepcontrol.wait`"]);
    s.synchronize()
}

/// The seeds of the fuzz target `ptx`, and random changes of them.
#[test]
fn any_bytes_are_scanned() {
    replay::replay("ptx", 4000, fuzzed::check);
}
