#![forbid(unsafe_code)]

use super::super::tracks::samples::op;
use super::*;
use crate::base::dag::{Dag, Kernels};
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op, Route, StreamWork};
use crate::base::lint::{Lint, Rule};
use crate::base::prng::Prng;
use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::critical::Category;
use crate::trace::host_engines::{HostEngine, HostWorked};
use crate::trace::limit::Limit;
use crate::trace::summary::{Settings, summarize};
use frame::{STYLE, signed};
use sheet::More;
use std::ops::Range;

/// A text that would be markup, end the script, or end an attribute if it were not escaped.
const EVIL: &str = "</script><img src=x onerror=alert(1)>\"'&amp;{{data}}\u{2028}";

fn sample() -> Vec<Op> {
    let mut ops = vec![
        op(StreamWork::Copy, Engine::Upload, 0, 1, (10, 20)),
        op(StreamWork::Kernel, Engine::Compute, 1, 1, (20, 40)),
    ];
    ops[0].chunk = Some(0);
    ops[1].label = EVIL.into();
    ops
}

/// The upload begins 5 ns after the window, and the kernel follows the upload.
fn summary(ops: &[Op], lints: Vec<Lint>) -> Summary {
    let settings = Settings { window: Some(5..40), hazards: Some(1), ..Settings::default() };
    summarize(ops, &Dag::new(ops, Kernels::OneAtATime), &settings, lints)
}

fn evil_page(ops: &[Op]) -> Page<'_> {
    let evil = || EVIL.to_owned();
    let lint = Lint { rule: Rule::SmallCopy, saved: Nanos(3), ops: vec![1], text: evil() };
    Page {
        title: evil(),
        summary: Some(summary(ops, vec![lint])),
        advice: vec![evil()],
        hazards: vec![HazardNote { text: evil(), first: Some(0), second: 1 }],
        provenance: vec![(evil(), evil())],
        ops: ops.into(),
        calls: None,
    }
}

/// The data of a page that a browser reads first, as JSON.
fn data_of(page: &str) -> serde_json::Value {
    let (_, data) = page.split_once("type=\"application/json\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

/// The names of the rows of a timeline.
fn row_names(data: &serde_json::Value) -> Vec<&str> {
    data["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[test]
fn text_never_becomes_markup() {
    let ops = sample();
    let page = evil_page(&ops).render();
    let plain = Page { ops: ops.as_slice().into(), ..Page::default() };
    assert!(!page.contains("<img"), "a tag is not escaped");
    let tags = |text: &str| text.matches("</script>").count();
    assert_eq!(tags(&page), tags(&plain.render()));
    assert_eq!(page.matches("<script").count(), 3, "the data, its columns, and the script");
    // The text occurs twice in the title and twice in the provenance. It occurs once in the advice,
    // in the finding, in the remark and in the loss before the kernel.
    assert_eq!(page.matches("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;amp;").count(), 8);
}

#[test]
fn the_data_of_a_page_are_json() {
    let ops = sample();
    let data = data_of(&evil_page(&ops).render());
    assert_eq!(data["count"], 2);
    assert_eq!(data["labels"][1], EVIL);
    // The upload engine is idle from 5 ns to 10 ns and from 20 ns to 40 ns, and the compute engine
    // from 5 ns to 20 ns.
    let causes = serde_json::json!([["fill", "fill"], ["drain", "drain"]]);
    assert_eq!(data["causes"], causes);
    let heads = data["columns"].as_array().unwrap();
    // The differences 5, 15 and -15 are coded as 10, 30 and 29; the largest number is 20.
    assert!(heads.contains(&serde_json::json!(["gapFrom", 1, 1, 1, 3])), "{heads:?}");
    assert_eq!(data["hazards"], serde_json::json!([[0, 1]]));
    assert_eq!(row_names(&data), ["upload", "compute", "stream 0", "stream 1", "host thread 0"]);
}

/// A page of a run over files. The run reads from 5 ns to 12 ns, writes from 40 ns to 50 ns, and
/// synchronizes from 50 ns to 60 ns.
fn page_of_files(ops: &[Op], limit: Limit) -> Page<'_> {
    let worked = |engine, busy: Range<u64>| {
        let busy = Union::of([busy]);
        HostWorked { engine, busy, waited_for: Union::default() }
    };
    let host = vec![
        worked(HostEngine::Reader, 5..12),
        worked(HostEngine::Writer, 40..50),
        worked(HostEngine::Sync, 50..60),
    ];
    let settings = Settings { window: Some(5..60), host, ..Settings::default() };
    let mut summary = summarize(ops, &Dag::new(ops, Kernels::OneAtATime), &settings, Vec::new());
    summary.limit = Some(limit);
    Page { summary: Some(summary), ops: ops.into(), ..Page::default() }
}

/// An earlier version did not mention the writer in the page of a run that the writer limits.
#[test]
fn reader_writer_and_sync_have_rows_and_bars() {
    let ops = sample();
    let page = page_of_files(&ops, Limit::Host(HostEngine::Writer)).render();
    let data = data_of(&page);
    assert_eq!(data["count"], 5, "two operations, and the work of the host");
    assert_eq!(row_names(&data)[..5], ["reader", "upload", "compute", "writer", "sync"]);
    // The upload begins while the reader is busy.
    for (name, exposed, idle) in
        [("reader", "5 ns", "48 ns"), ("writer", "10 ns", "45 ns"), ("sync", "10 ns", "45 ns")]
    {
        let (_, bar) = page.split_once(&format!("<h3>{name}")).expect("a bar");
        let (bar, _) = bar.split_once("</ul>").unwrap();
        for part in [format!("exposed <b>{exposed}</b>"), format!("idle <b>{idle}</b>")] {
            assert!(bar.contains(&part), "{name}: no `{part}` in {bar}");
        }
    }
}

#[test]
fn an_engine_of_the_host_that_limits_is_marked() {
    let ops = sample();
    for (limit, marked) in [
        (Limit::Host(HostEngine::Reader), &["reader"][..]),
        (Limit::Host(HostEngine::Writer), &["writer"]),
        (Limit::Host(HostEngine::Sync), &["sync"]),
        (Limit::Output, &["writer", "sync"]),
        (Limit::Calls, &[]),
    ] {
        let page = page_of_files(&ops, limit).render();
        let mark = " <span class=\"limit\">limits the run</span>";
        assert_eq!(page.matches(mark).count(), marked.len(), "{limit:?}");
        for name in marked {
            let bar = format!("<div class=\"bar limiting\"><h3>{name}{mark}</h3>");
            assert!(page.contains(&bar), "{limit:?}: {name} is not marked");
        }
    }
}

#[test]
fn a_section_without_content_says_so() {
    let page = Page::default().render();
    for words in [
        "This page has no summary.",
        "No engine was measured.",
        "This run was not checked for remarks.",
        "This run was not checked for hazards.",
        "No operation has times.",
        "This page has no provenance.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("None was found.").count(), 1, "of losses");
    let checked = Page { summary: Some(summary(&[], Vec::new())), ..Page::default() }.render();
    assert_eq!(checked.matches("None was found.").count(), 3, "nor remarks, nor hazards");
}

/// The limit may be another engine than the engine with the most work: the link, for example.
#[test]
fn losses_have_the_name_of_the_engine_that_they_are_of() {
    let ops = sample();
    let mut summary = summary(&ops, Vec::new());
    assert!(!summary.losses.is_empty(), "the sample has idle time");
    let most = summary.metrics.limiting;
    let mut engines = summary.metrics.engines.iter().map(|engine| engine.engine);
    let other = engines.find(|engine| Some(*engine) != most).expect("two engines work");
    summary.limit = Some(Limit::Engine(other));
    let idle = format!("{} idle: ", summary.engine_name(other));
    let page = Page { ops: ops.into(), summary: Some(summary), ..Page::default() }.render();
    assert!(page.contains(&idle), "{idle}");
}

#[test]
fn equal_pages_give_equal_bytes() {
    let ops = sample();
    assert_eq!(evil_page(&ops).render(), evil_page(&sample()).render());
}

#[test]
fn a_page_loads_nothing() {
    let ops = sample();
    let page = evil_page(&ops).render();
    assert!(page.contains("default-src 'none'"));
    for word in ["src=\"", "href=\"http", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn a_loss_links_to_its_longest_gap_and_a_remark_to_its_operation() {
    let ops = sample();
    let page = evil_page(&ops).render();
    // The compute engine limits the run. It is idle until the upload ends, from 5 ns to 20 ns.
    assert!(page.contains("<b>15 ns</b> (42.9 %) <span>compute idle: fill"), "the loss");
    assert!(page.contains("href=\"#t=5,20\""), "its gap");
    assert!(page.contains("<b>up to 3 ns</b> <code>PERF/SMALL-COPY</code>"), "the remark");
    assert!(page.contains("href=\"#op=1\""), "its operation");
}

#[test]
fn a_page_has_the_figures_that_a_terminal_prints() {
    let ops = sample();
    let (page, summary) = (evil_page(&ops).render(), summary(&ops, Vec::new()));
    assert!(page.contains("<p id=\"verdict\">35 ns measured, limited by compute, as observed; "));
    for line in summary.figures().lines() {
        assert!(page.contains(&format!("<li>{line}</li>")), "{line}");
    }
}

#[test]
fn the_limiting_engine_is_marked() {
    let ops = sample();
    let page = evil_page(&ops).render();
    assert!(page.contains("<h3>compute <span class=\"limit\">limits the run</span>"));
    assert_eq!(page.matches("limits the run").count(), 1);
}

#[test]
fn a_finding_shows_its_missing_edge() {
    let ops = sample();
    let mut page = evil_page(&ops);
    let edge = "<path class=\"edge\"";
    assert_eq!(page.render().matches(edge).count(), 1);
    assert!(page.render().contains("aria-label=\"Nothing orders #0 op, chunk 0 before #1"));
    page.hazards[0].first = None;
    assert_eq!(page.render().matches(edge).count(), 0, "it has no operation to start from");
}

#[test]
#[should_panic(expected = "that the trace does not have")]
fn a_finding_about_an_unknown_operation_is_refused() {
    let note = HazardNote { text: String::new(), first: None, second: 0 };
    drop(Page { hazards: vec![note], ..Page::default() }.render());
}

#[test]
#[should_panic(expected = "that the trace does not have")]
fn a_summary_of_another_trace_is_refused() {
    let summary = summary(&sample(), Vec::new());
    drop(Page { summary: Some(summary), ..Page::default() }.render());
}

/// The run has ten thousand operations of one engine, 80 ns each and about 20 ns apart. A finding
/// names one of these operations.
#[test]
fn a_page_that_would_be_too_large_merges_short_neighbours_and_says_so() {
    let mut sheet =
        Sheet { labels: vec!["k".into()], kinds: vec!["kernel".into()], ..Sheet::default() };
    for (kind, name) in [(TrackKind::Engine, "kernels"), (TrackKind::Thread, "thread 1")] {
        sheet.tracks.push(TimelineTrack { kind, group: "GPU".into(), name: name.into() });
    }
    let mut draw = Prng::new(3);
    for number in 0..10_000_u64 {
        // Noise that no compression removes.
        let noise = draw.next_u64() % 16;
        let (begin, called) = (number * 100 + noise, number * 100);
        sheet.items.push(Item {
            work: Some((begin, begin + 80)),
            call: Some((called, called + 5 + noise)),
            bytes: 3,
            label: 0,
            kind: 0,
            engine: 0,
            stream: NO_TRACK,
            thread: 1,
        });
    }
    let named = More { named: vec![5000], edges: vec![(4999, 5000), (1, 2)], ..More::default() };
    let whole = sheet.data(&named);
    assert!(whole.note.is_none());
    let limit = whole.json.len() + whole.columns.len() / 4;
    let data = sheet.data_within(&named, limit);
    assert!(data.json.len() + data.columns.len() <= limit);
    let note = data.note.unwrap();
    assert!(note.contains("short operations and calls are drawn as"), "{note}");
    let fewer = merge::merged(&sheet.items, &named.named, 2000.0);
    assert_eq!(fewer.first.iter().filter(|first| **first == 5000).count(), 1);
    let kept = fewer.first.iter().position(|first| *first == 5000).unwrap();
    assert_eq!((fewer.stands[kept], fewer.now[5000]), (1, kept), "the named one stays alone");
    let works = || fewer.items.iter().zip(&fewer.stands).filter(|(item, _)| item.work.is_some());
    assert_eq!(works().map(|(_, stands)| stands).sum::<u64>(), 10_000);
    assert_eq!(works().map(|(item, _)| item.bytes).sum::<u64>(), 30_000);
    let calls = fewer.items.iter().zip(&fewer.stands).filter(|(item, _)| item.call.is_some());
    assert_eq!(calls.map(|(_, stands)| stands).sum::<u64>(), 10_000, "every call is drawn");
    assert!(fewer.items.len() <= 2000, "{}", fewer.items.len());
}

#[test]
fn a_page_writes_microseconds_with_their_sign() {
    assert_eq!(
        signed("1.00 us, 2 us; 3 used us 4 us"),
        "1.00 \u{b5}s, 2 \u{b5}s; 3 used us 4 \u{b5}s"
    );
    let page = ProgramPage { verdict: "5.00 us on a GPU".into(), ..ProgramPage::default() };
    assert!(page.render().contains("5.00 \u{b5}s on a GPU"));
}

#[test]
fn each_engine_has_a_colour_of_its_own_on_the_critical_path() {
    let page = evil_page(&sample()).render();
    let (_, path) = page.split_once("<div class=\"bar path\">").unwrap();
    let (path, _) = path.split_once("</ul>").unwrap();
    assert!(path.contains("c-compute") && !path.contains("c-busy"), "{path}");
    let copies = [Engine::Upload, Engine::Download, Engine::Peer];
    let engines = [&copies[..], &[Engine::Compute, Engine::Communication]].concat();
    let class = |engine| look::Look::of_path(Category::Engine(engine)).class();
    let classes: Vec<_> = engines.into_iter().map(class).collect();
    assert_eq!(classes.iter().collect::<std::collections::HashSet<_>>().len(), 5, "{classes:?}");
    assert!(classes.iter().all(|class| STYLE.contains(&format!(".c-{class} {{"))));
}

#[test]
fn each_of_several_devices_has_a_heading_with_its_copies_and_its_communication() {
    let mut ops = sample();
    ops.push(op(StreamWork::Copy, Engine::Peer, 2, 1, (30, 50)));
    ops[2].route = Some(Route { from: DeviceId(0), to: DeviceId(1) });
    ops.push(op(StreamWork::Kernel, Engine::Compute, 3, 1, (50, 60)));
    ops[3].device = DeviceId(1);
    let settings = Settings { window: Some(5..60), ..Settings::default() };
    let summary = summarize(&ops, &Dag::new(&ops, Kernels::OneAtATime), &settings, Vec::new());
    let page = Page { summary: Some(summary), ops: ops.into(), ..Page::default() }.render();
    let first = "<h3 class=\"device\">Device 0</h3><ul class=\"figures\">\
                 <li>copies exposed for 10 ns, 0 % hidden</li>\
                 <li>communication exposed for 10 ns, 50 % hidden</li>\
                 <li>peer 0 to 1 busy 20 ns, 10 ns of it exposed</li></ul>";
    assert!(page.contains(first), "{page}");
    // Device 1 copied nothing, so its bars follow its heading directly.
    assert!(page.contains("<h3 class=\"device\">Device 1</h3><div class=\"bar"));
    assert!(!evil_page(&sample()).render().contains("Device 0"), "one device needs no heading");
}

#[test]
fn no_engine_is_framed_where_the_link_limits() {
    let ops = sample();
    let mut page = evil_page(&ops);
    page.summary.as_mut().unwrap().limit = Some(Limit::Link);
    assert!(!page.render().contains("limits the run"));
}

/// A reader finds the timeline at the top of the page, before the figures of the engines.
#[test]
fn the_timeline_comes_before_the_engines() {
    let page = evil_page(&sample()).render();
    let at = |id: &str| page.find(&format!("id=\"{id}\"")).unwrap();
    assert!(at("verdict") < at("h-timeline") && at("h-timeline") < at("h-engines"));
}
