//! Tests of the scanner of PTX.
#![forbid(unsafe_code)]

use super::super::facts::{Entry, Reach};
use super::{Module, scan};
use proptest::prelude::*;

/// The PTX of the library, and a text with features that the PTX of the library does not use.
const TEXTS: [&str; 5] = [
    include_str!("../../conform/kernels.ptx"),
    include_str!("../../../kernels/axpy/axpy.ptx"),
    include_str!("../../../kernels/fill/fill.ptx"),
    include_str!("../../../kernels/work/work.ptx"),
    WHOLE,
];

const WHOLE: &str = "
.version 8.3
.target sm_90a, debug
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .shared .align 16 .b8 dynamic[];
.shared .align 16 .b8 tile[4][8], rest[3];
.global .align 4 .u32 table[2] = {1, 2};
.visible .func (.param .b32 out) helper(.param .b64 x)
{
.shared .v4 .f32 pair;
griddepcontrol.wait;
ret;
}
.file 1 \"a } .entry no() { .cu\"
.visible .entry first(
.param .u64 .ptr .global .align 4 x
)
.reqntid 128, 2, 1
.reqnctapercluster 2 .explicitcluster .maxclusterrank 4
.pragma \"nounroll\";
{
.reg .b64 %rd<4>;
.loc 1 7 5
ld.global.nc.u32 %r1, [%rd1];
{ .param .b64 p; call.uni (r), helper, (p); }
mov.u64 %rd2, tile;
griddepcontrol.launch_dependents;
ret;
}
.entry second() .maxntid 256 { ret; }
.section .debug_str { info: .b8 103, 114, 0 }
";

fn body(body: &str) -> String {
    format!(".visible .entry k(.param .u64 p)\n{{\n{body}\nret;\n}}\n")
}

fn only(text: &str) -> Entry {
    let module = scan(text);
    assert_eq!(module.entries().len(), 1, "{text}");
    module.entries()[0].clone()
}

fn names(module: &Module) -> Vec<&str> {
    module.entries().iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn a_whole_text_has_its_facts() {
    let module = scan(WHOLE);
    assert_eq!(module.version, Some((8, 3)));
    let target = &module.targets[0];
    assert_eq!((target.name.as_str(), target.compute), ("sm_90a", (9, 0)));
    assert_eq!((target.reach, module.targets.len()), (Reach::Only, 1));
    assert_eq!(names(&module), ["first", "second"]);
    let first = module.entry("first").expect("it is there");
    assert!(first.waits && first.triggers);
    assert_eq!(first.early_use.as_deref(), Some("ld.global.nc.u32"));
    assert!(!first.skips_wait, "the function that `first` calls waits");
    let demands = first.demands;
    assert_eq!((demands.block, demands.block_max), (Some([128, 2, 1]), None));
    assert_eq!((demands.cluster, demands.gives_cluster), (Some([2, 1, 1]), true));
    assert_eq!(demands.cluster_max, Some(4));
    assert_eq!(
        first.shared_bytes,
        32 + 16,
        "a variable of the module, and a variable of the function"
    );
    let second = module.entry("second").expect("it is there");
    assert_eq!((second.waits, second.shared_bytes), (false, 0));
    assert_eq!(second.demands.block_max, Some([256, 1, 1]));
}

#[test]
fn the_entries_of_a_text_are_found_by_name() {
    let ptx = ".visible .entry gain(\n.param .u64 x) { ret; }\n.entry  _Z1a$b() {}\n.entry";
    assert_eq!(names(&scan(ptx)), ["gain", "_Z1a$b"]);
    assert_eq!(names(&scan(".func f() {}")), [""; 0]);
    assert_eq!(
        names(&scan(".version 8.0\n.target sm_80\n.entry f() {ret;} .entry g() {ret;}")),
        ["f", "g"]
    );
    assert_eq!(names(&scan("these are no instructions")), [""; 0]);
}

#[test]
fn a_text_that_is_cut_has_the_facts_before_the_cut() {
    for end in (0..WHOLE.len()).filter(|end| WHOLE.is_char_boundary(*end)) {
        let module = scan(&WHOLE[..end]);
        assert!(module.entries().len() <= 3, "{end}");
    }
    let cut = only(".entry k() { griddepcontrol.wait; ret");
    assert!(cut.waits);
}

#[test]
fn a_wait_in_a_comment_or_a_quoted_text_does_not_count() {
    for comment in [
        "// griddepcontrol.wait;",
        "/* griddepcontrol.wait; */",
        "/*\n griddepcontrol.wait;\n // */",
        ".pragma \"griddepcontrol.wait;\";",
    ] {
        assert!(!only(&body(comment)).waits, "{comment}");
    }
    let guarded = only(&body("@%p1 griddepcontrol .wait;"));
    assert!(guarded.waits);
    // The name of a variable.
    assert!(!only(&body("mov.u64 %rd1, griddepcontrol; .reg .b32 wait;")).waits);
}

const WAIT: &str = "griddepcontrol.wait;";

fn early(text: &str) -> Option<String> {
    only(&body(text)).early_use
}

/// Each instruction that uses memory of other kernels counts. An instruction that uses only memory
/// of its own kernel does not count.
#[test]
fn a_use_of_memory_counts_before_the_wait() {
    for used in [
        "ld.global.nc.L1::no_allocate.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];",
        "ld.global.u32 %r1, [%rd1];",
        "ld.u32 %r1, [%rd1];",
        "ld.volatile.global.u32 %r1, [%rd1];",
        "ldu.global.u32 %r1, [%rd1];",
        "st.global.u32 [%rd1], %r1;",
        "st.u32 [%rd1], %r1;",
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "red.global.add.u32 [%rd1], 1;",
        "cp.async.ca.shared.global [%r1], [%rd1], 4;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {0, 0}], [%r2];",
        "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}];",
        "suld.b.1d.b32.trap %r1, [%rd1, {%r2}];",
        "multimem.red.release.sys.global.add.f32 [%rd1], %f1;",
    ] {
        let name = used.split_whitespace().next().map(str::to_owned);
        assert_eq!(early(&format!("{used}\n{WAIT}")), name, "{used}");
        assert_eq!(early(&format!(".loc 1 7 5\n@!%p1 {used}\n{WAIT}")), name, "{used}");
        assert_eq!(early(&format!("{WAIT}\n{used}")), None, "{used}");
        assert_eq!(early(&format!("{WAIT}\n{used}\n{WAIT}")), None, "{used}");
        assert_eq!(early(used), None, "without a wait: {used}");
    }
    for own in [
        "ld.param.u64 %rd1, [p];",
        "ld.const.u32 %nc, [%rd1];",
        "ld.shared.u32 %r1, [%r2];",
        "st.shared::cluster.u32 [%r2], %r1;",
        "atom.shared.add.u32 %r1, [%r2], 1;",
        "st.local.u32 [%r2], %r1;",
        "cp.async.commit_group;",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {0, 0}];",
        "prefetch.global.L2 [%rd1];",
    ] {
        assert_eq!(early(&format!("{own}\n{WAIT}")), None, "{own}");
    }
    let two = scan(&(body("ld.global.u32 %r1, [%rd1];") + ".entry b() { griddepcontrol.wait; }"));
    assert_eq!(two.entry("k").expect("it is there").early_use, None);
}

/// The order of the text is not the order of the execution.
#[test]
fn a_use_counts_on_every_path_that_has_not_waited() {
    let load = "ld.global.u32 %r1, [%rd1];";
    let name = Some("ld.global.u32".to_owned());
    // In the first text, a branch skips the wait. In the second text, the wait is executed on a
    // condition. In the third text, the wait is in one of two branches. In the fourth text, a
    // branch by a table may skip the wait. In the fifth text, both branches wait.
    assert_eq!(early(&format!("@%p1 bra over; {WAIT} over: {load}")), name);
    assert_eq!(early(&format!("@%p1 {WAIT} {load}")), name);
    assert_eq!(early(&format!("@%p1 bra a; {WAIT} bra.uni b; a: mov.u32 %r1, 0; b: {load}")), name);
    assert_eq!(early(&format!("brx.idx %r1, table; a: {WAIT} b: {load}")), name);
    assert_eq!(early(&format!("@%p1 bra a; {WAIT} bra.uni b; a: {WAIT} b: {load}")), None);
    // First, the use comes after the wait in the text and runs before the wait. Then the use comes
    // before the wait in the text and runs after the wait.
    assert_eq!(
        early(&format!("bra.uni first; then: {WAIT} ret; first: {load} bra.uni then;")),
        name
    );
    assert_eq!(
        early(&format!("bra.uni first; then: {load} ret; first: {WAIT} bra.uni then;")),
        None
    );
    // A loop: in the first pass, the use comes before the wait. In the second pass, it comes after.
    assert_eq!(early(&format!("loop: {load} {WAIT} @%p1 bra loop;")), name);
    assert_eq!(early(&format!("{WAIT} loop: {load} @%p1 bra loop;")), None);
    assert_eq!(early(&format!("ret; dead: {load} {WAIT}")), None, "no path leads there");
}

#[test]
fn a_path_that_ends_without_the_wait_is_found() {
    let skips = |text: &str| only(&body(text)).skips_wait;
    assert!(skips(&format!("@%p1 bra out; {WAIT} out:")));
    assert!(skips(&format!("@%p1 ret; {WAIT}")));
    assert!(skips(&format!("@%p1 exit; {WAIT}")));
    assert!(skips(&format!("@%p1 {WAIT}")));
    assert!(!skips(&format!("@%p1 trap; {WAIT}")), "a kernel that fails");
    assert!(!skips(&format!("{WAIT} @%p1 ret; mov.u32 %r1, 0;")));
    assert!(!skips("mov.u32 %r1, 0;"), "an entry without any wait has another rule");
}

#[test]
fn a_path_goes_through_the_functions_that_it_calls() {
    let functions = ".func waits() { griddepcontrol.wait; ret; }
        .func perhaps() { @%p1 bra out; call waits; out: ret; }
        .func uses() { st.global.u32 [%rd1], %r1; ret; }
        .extern .func vprintf (.param .b64 a);\n";
    let entry = |text: &str| only(&format!("{functions}{}", body(text)));
    let load = "ld.global.u32 %r1, [%rd1];";
    assert_eq!(entry(&format!("call waits; {load}")).early_use, None);
    assert_eq!(entry(&format!("call perhaps; {load}")).early_use.as_deref(), Some("ld.global.u32"));
    assert_eq!(entry("call uses; call waits;").early_use.as_deref(), Some("st.global.u32"));
    assert_eq!(entry("call waits; call uses;").early_use, None);
    assert_eq!(entry("call vprintf, (a); call waits;").early_use, None);
    assert!(entry("call perhaps;").skips_wait && !entry("call waits;").skips_wait);
    assert!(entry("call %rd1, prototype;").skips_wait, "the register may hold `perhaps`");
}

#[test]
fn a_function_waits_for_the_entry_that_calls_it() {
    let wait = ".func inner() { griddepcontrol.wait; }\n.func outer() { call inner; }\n";
    let waits = |more: &str, text: &str| only(&format!("{wait}{more}{}", body(text))).waits;
    assert!(waits("", "call outer;"));
    assert!(waits("", "call.uni (r), inner, (p);"));
    assert!(!waits("", "bra out; out:"));
    assert!(waits(".alias other, inner;", "call other;"));
    assert!(waits("", "mov.u64 %rd1, inner;"), "perhaps it is called by its address");
    assert!(waits("", "call %rd1, prototype;"), "the register may hold any function");
    assert!(!waits(".extern .func vprintf (.param .b64 a);", "call vprintf, (a);"));
    // An alias whose target is its own name once doubled the list of functions of this name.
    assert!(waits(&".alias inner, inner;\n".repeat(64), "call inner;"));
    // Functions that call each other.
    let ring = ".func f() { call g; }\n.func g() { call f; griddepcontrol.launch_dependents; }\n";
    let both = only(&format!("{ring}{}", body("call f;")));
    assert!(both.triggers && !both.waits);
}

/// The figures come from ptxas 13.0.88.
#[test]
fn static_shared_memory_is_what_the_assembler_gives() {
    let forms =
        ".shared .v4 .f32 v; .shared .f16x2 y, z[3][2]; .shared .b8 q[0x10]; .shared .b8 o[010];";
    assert_eq!(only(&body(forms)).shared_bytes, 68);
    let nested = ".shared .b8 a[20]; { .shared .b8 b[30]; } { .shared .b8 b[30]; }";
    assert_eq!(only(&body(nested)).shared_bytes, 80);
    let outside = ".shared .b8 m[1]; .shared .align 16 .b8 n[16]; .shared .b8 unused[300];\n";
    let inside = ".shared .align 4 .b8 b[4]; mov.u64 %rd1, n; mov.u64 %rd2, m;";
    assert_eq!(only(&format!("{outside}{}", body(inside))).shared_bytes, 36);
    // The names of instructions contain `.shared` too, and declare no memory.
    let uses = "ld.shared.u32 %r1, [%rd1]; cvta.shared.u64 %rd1, %rd2; st .shared .u32 [x], 1;";
    assert_eq!(only(&body(uses)).shared_bytes, 0);
}

#[test]
fn dynamic_shared_memory_is_not_static() {
    let outside = ".extern .shared .align 16 .b8 d[];\n.extern .shared .b8 e[70000];\n";
    let named = format!("{outside}{}", body("mov.u64 %rd1, d; mov.u64 %rd2, e;"));
    assert_eq!(only(&named).shared_bytes, 0);
}

#[test]
fn sizes_beyond_all_numbers_are_the_largest_number() {
    let huge =
        body(".shared .b64 x[18446744073709551615][4]; .shared .b8 y[99999999999999999999];");
    assert_eq!(only(&huge).shared_bytes, u64::MAX);
}

proptest! {
    #[test]
    fn any_text_has_an_answer(text in any::<String>()) {
        let _answered = scan(&text);
    }

    /// Whatever a mutation does to a text, its comments are ignored.
    #[test]
    fn a_mutated_text_has_an_answer_that_comments_do_not_change(
        which in 0..TEXTS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, 0..12_usize), 1..8),
    ) {
        const PARTS: [&str; 12] = [
            "", "{", "}", "(", ";", "\"", "/*", "*/", "//", ".entry ", ".shared .b8 x[", "call ",
        ];
        let mut text = TEXTS[which].as_bytes().to_vec();
        for (at, length, part) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + length).min(text.len());
            text.splice(at..end, PARTS[part].bytes());
        }
        let text = String::from_utf8(text).expect("the texts are ASCII");
        let spaced = format!("/* .entry a() {{ */ // \"\n{text}");
        prop_assert_eq!(scan(&text), scan(&spaced));
    }
}
