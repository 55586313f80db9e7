//! `trijet replay`: traces that are replayed, drawn, and refused.

use crate::outputs::two_ranks;
use crate::workdir::Workdir;

/// Memory of one allocation becomes ten allocations, and five of them are freed. Then the program
/// asks for more than fits into one piece. The host knows by then that their kernels are complete.
fn fragmented() -> String {
    let mib = 1 << 20;
    let mut text = "Action,Pointer,Size,Stream,Nanos\n".to_owned();
    text += &format!("allocate,0x99,{},0,\nfree,0x99,,0,\n", 20 * mib);
    for number in 0..10 {
        text += &format!("allocate,{number},{},0,\nuse,{number},,0,100\n", 2 * mib);
    }
    text.extend((0..10).step_by(2).map(|number| format!("free,{number},,0,\n")));
    text + &format!("synchronize,,,0,\nallocate,50,{},0,\nuse,50,,0,100\n", 5 * mib)
}

#[test]
fn a_trace_is_replayed_over_the_heap_beside_a_model_of_a_caching_allocator() {
    let workdir = Workdir::new();
    workdir.file("a.csv", fragmented().as_bytes());
    let call = ["replay", "a.csv", "--device", "host", "--limit", "20MiB", "--mode", "footprint"];
    let page = ["-o", "a.html", "--json"];
    let report = workdir.trijet(&[&call[..], &page].concat()).json();
    let [heap, caching] = [0, 1].map(|at| report["traces"][0]["allocators"][at].clone());
    assert_eq!((heap["refused"].as_u64(), caching["refused"].as_u64()), (Some(0), Some(1)));
    assert!(heap["held_peak_bytes"].as_u64() <= Some(20 << 20), "{heap}");
    assert_eq!(report["traces"][0]["live_peak_bytes"].as_u64(), Some(20 << 20));
    let page = String::from_utf8(workdir.read("a.html")).expect("it is text");
    assert!(page.contains("\"allocators\":[{") && !page.contains("/*DATA*/"), "{page}");
    let page_says = |figure: &str| page.contains(figure);
    let held = heap["held_peak_bytes"].as_u64().unwrap();
    let calls = heap["driver_calls"].as_u64().unwrap();
    assert!(page_says(&format!("\"held_peak\":{held},")), "one run: {page}");
    assert!(page_says(&format!("\"driver_calls\":{calls},")), "one run: {page}");
    assert!(page_says("(CPU threads), footprint\""), "{page}");
    let text = workdir.trijet(&[&call[..], &["-o", "b.html"]].concat()).done();
    assert!(text.ends_with("page: b.html\n"), "{text}");
    let help = workdir.trijet(&["replay", "--help"]).done();
    assert!(help.contains("The mode of the heap [default: speed]"), "{help}");
    let text = workdir.trijet(&call).done();
    assert!(text.contains("12 allocations of at most 20 MiB at once"), "{text}");
    assert!(text.contains("no kernel found the tag of another owner"), "{text}");
}

/// A trace in three streams that frees in another order than it allocates. It has no kernels, so no
/// figure depends on times.
fn without_kernels() -> String {
    let mut text = "Action,Pointer,Size,Stream\n".to_owned();
    let (mut live, mut state) = (Vec::new(), 4u64);
    let mut below = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for number in 0..200 {
        let freed = below(20);
        if freed < 9 && !live.is_empty() {
            let at = usize::try_from(below(live.len() as u64)).unwrap();
            text += &format!("free,{},,0\n", live.swap_remove(at));
        } else {
            let (bytes, stream) =
                ([1, 3, 9, 20, 40][usize::try_from(below(5)).unwrap()] << 20, below(3));
            text += &format!("allocate,{number},{bytes},{stream}\n");
            live.push(number);
        }
    }
    text
}

/// The recorder of the page must change nothing: it once gathered the free memory before each call.
#[test]
fn a_page_changes_no_figure_of_its_run() {
    let workdir = Workdir::new();
    workdir.file("a.csv", without_kernels().as_bytes());
    for mode in ["speed", "footprint", "deterministic", "never-wait"] {
        let call = ["replay", "a.csv", "--device", "host", "--json", "--mode", mode];
        let page = format!("{mode}.html");
        let [plain, drawn] = [&[][..], &["-o", &page]].map(|more| {
            let report = workdir.trijet(&[&call[..], more].concat()).json();
            let heap = &report["traces"][0]["allocators"][0];
            ["held_peak_bytes", "driver_calls", "refused", "waits"].map(|name| heap[name].clone())
        });
        assert_eq!(plain, drawn, "{mode}");
    }
}

#[test]
fn text_and_page_name_a_figure_by_one_word() {
    let workdir = Workdir::new();
    workdir.file("a.csv", fragmented().as_bytes());
    let call = ["replay", "a.csv", "--device", "host", "-o", "a.html"];
    let text = workdir.trijet(&call).done();
    let page = String::from_utf8(workdir.read("a.html")).expect("it is text");
    for word in ["most held", "refused", "driver calls", "waits", "of live"] {
        assert!(text.contains(word) && page.contains(&format!("'{word}'")), "`{word}`: {text}");
    }
    for word in ["peak held", "failed allocation", "held / live"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn a_trace_that_frees_what_it_never_allocated_is_refused_with_the_line() {
    let workdir = Workdir::new();
    workdir.file("a.csv", b"Action,Pointer,Size,Stream\nfree,0x10,,0\n");
    let call = ["replay", "a.csv", "--device", "host", "-o", "a.html"];
    workdir.trijet(&call).refused(1, &["a.csv", "line 2", "0x10 is not allocated"]);
    assert!(!workdir.exists("a.html"));
    workdir.trijet(&["replay", "none.csv"]).refused(1, &["none.csv"]);
    workdir.file("b.csv", b"\x93NUMPY");
    workdir.trijet(&["replay", "b.csv"]).refused(1, &["b.csv"]);
}

/// The log of a failed program that was ended while it wrote a line.
#[test]
fn failed_calls_and_a_cut_line_are_named_and_the_rest_is_replayed() {
    let workdir = Workdir::new();
    let text = "Thread,Time,Action,Pointer,Size,Stream\n1,10:19:49:1,allocate,0x7f00,1024,0x0\n\
                1,10:19:49:2,allocate failure,,99999999999,0x0\n1,10:19:49:3,free,0x7";
    workdir.file("a.csv", text.as_bytes());
    let call = ["replay", "a.csv", "--device", "host"];
    let said = workdir.trijet(&call).done();
    assert!(
        said.contains("1 call, 1 allocation of at most 1 KiB at once, 1 stream, 1 thread"),
        "{said}"
    );
    assert!(said.contains("not replayed: 1 call that failed in the program"), "{said}");
    assert!(said.contains("the last line (4) is cut off, and is not replayed"), "{said}");
    let report = workdir.trijet(&[&call[..], &["--json"]].concat()).json();
    assert_eq!(
        (&report["traces"][0]["failed_in_program"], &report["cut_line"]),
        (&1.into(), &4.into())
    );
}

/// The heap refuses an allocation of more bytes than there are addresses, and the replay continues.
#[test]
fn a_size_without_end_is_counted_as_refused() {
    let workdir = Workdir::new();
    let text = "Action,Pointer,Size,Stream\nallocate,1,18446744073709551615,0\nuse,1,,0\nfree,1,,0\n\
                allocate,1,9223372036854775807,0\nallocate,2,0,0\nuse,2,,0\nfree,2,,0\n";
    workdir.file("a.csv", text.as_bytes());
    let call = ["replay", "a.csv", "--device", "host", "--json", "-o", "a.html"];
    let report = workdir.trijet(&call).json();
    assert_eq!(report["traces"][0]["allocators"][0]["refused"].as_u64(), Some(2), "{report}");
}

/// Each process has its own GPU, with room for 400 MiB.
#[test]
fn each_device_of_each_process_is_replayed_on_its_own() {
    let workdir = Workdir::new();
    workdir.file("ranks.trijet", &two_ranks());
    workdir.trijet(&["trace", "--read", "ranks.trijet", "--memory", "ranks.csv"]).done();
    let call = ["replay", "ranks.csv", "--device", "host", "--limit", "400MiB", "-o", "a.html"];
    let report = workdir.trijet(&[&call[..], &["--json"]].concat()).json();
    for (at, name) in ["0 of process 10", "1 of process 11"].into_iter().enumerate() {
        let one = &report["traces"][at];
        assert_eq!(one["traced_device"].as_str(), Some(name), "{report}");
        assert_eq!(one["live_peak_bytes"].as_u64(), Some(300 << 20), "{report}");
        for allocator in [0, 1] {
            assert_eq!(one["allocators"][allocator]["refused"].as_u64(), Some(0), "{report}");
        }
    }
    let page = String::from_utf8(workdir.read("a.html")).expect("it is text");
    assert!(page.contains("device 0 of process 10") && page.contains("device 1 of process 11"));
    let text = workdir.trijet(&call[..call.len() - 2]).done();
    for name in ["device 0 of process 10", "device 1 of process 11"] {
        assert!(text.contains(name), "{text}");
    }
}
