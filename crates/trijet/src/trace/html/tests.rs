#![forbid(unsafe_code)]

use super::super::tracks::samples::op;
use super::*;
use crate::base::ledger::OpKind;

/// Text that would be markup, close the script, or end an attribute.
const EVIL: &str = "</script><img src=x onerror=alert(1)>\"'&amp;{{data}}\u{2028}";

fn sample() -> Vec<Op> {
    let mut ops = vec![
        op(OpKind::Copy, Engine::Upload, (0, 1), (10, 20)),
        op(OpKind::Kernel, Engine::Compute, (1, 1), (20, 40)),
    ];
    ops[0].chunk = Some(0);
    ops[1].label = EVIL.into();
    ops
}

fn evil_page(ops: &[Op]) -> Page<'_> {
    let evil = || EVIL.to_owned();
    Page {
        title: evil(),
        verdict: evil(),
        engines: vec![Bar { name: evil(), parts: vec![(evil(), Nanos(7))] }],
        limiting: Some(0),
        losses: vec![Loss { lost: Nanos(5), cause: evil(), fix: evil(), window: 3..9 }],
        gaps: vec![Gap {
            device: DeviceId(0),
            engine: Engine::Upload,
            window: 0..10,
            cause: evil(),
        }],
        hazards: Some(vec![HazardNote { text: evil(), first: 0, second: 1 }]),
        provenance: vec![(evil(), evil())],
        critical: vec![1],
        ops,
    }
}

#[test]
fn text_from_outside_never_becomes_markup() {
    let ops = sample();
    let page = evil_page(&ops).render();
    let plain = Page { ops: &ops, ..Page::default() };
    assert!(!page.contains("<img"), "a tag came through");
    let tags = |text: &str| text.matches("</script>").count();
    assert_eq!(tags(&page), tags(&plain.render()));
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    assert_eq!(page.matches("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;amp;").count(), 11);
}

#[test]
fn the_data_of_a_page_are_json_that_says_what_was_given() {
    let ops = sample();
    let page = evil_page(&ops).render();
    let (_, data) = page.split_once("type=\"application/json\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["count"], 2);
    assert_eq!(data["columns"]["labels"][1], EVIL);
    assert_eq!(data["gaps"], serde_json::json!([[0, 0, 10, 7, EVIL]]));
    assert_eq!(data["hazards"], serde_json::json!([[0, 1]]));
    let names: Vec<_> = data["rows"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["upload", "compute", "stream 0", "stream 1", "host thread 0"]);
}

#[test]
fn a_section_without_content_says_so() {
    let page = Page::default().render();
    for words in [
        "Nobody judged this run.",
        "No engine was measured.",
        "This run was not checked for hazards.",
        "No operation has times.",
        "Nothing is known.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("None was found.").count(), 1, "of losses");
    let checked = Page { hazards: Some(Vec::new()), ..Page::default() }.render();
    assert_eq!(checked.matches("None was found.").count(), 2);
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
fn the_largest_three_losses_are_shown_with_a_link_to_their_time() {
    let loss = |n: u64| Loss {
        lost: Nanos(n),
        cause: format!("cause {n}"),
        fix: String::new(),
        window: n..n + 1,
    };
    let page = Page { losses: (1..=4).map(loss).collect(), ..Page::default() }.render();
    assert!(page.contains("<b>3 ns</b> <span>cause 3</span>") && page.contains("#t=3,4"));
    assert!(!page.contains("cause 4"));
}

#[test]
fn the_limiting_engine_is_marked() {
    let bar = |name: &str| Bar { name: name.into(), parts: vec![("busy".into(), Nanos(1))] };
    let engines = vec![bar("upload"), bar("download")];
    let page = Page { engines, limiting: Some(1), ..Page::default() }.render();
    assert!(page.contains("<h3>download <span class=\"limit\">limits the run</span>"));
    assert_eq!(page.matches("limits the run").count(), 1);
}

#[test]
#[should_panic(expected = "not in the record")]
fn a_critical_operation_that_is_not_in_the_record_is_refused() {
    let page = Page { critical: vec![0], ..Page::default() };
    drop(page.render());
}

#[test]
fn causes_share_a_look_by_what_they_say() {
    for (words, class) in [
        ("busy", "busy"),
        ("Exposed copy", "exposed"),
        ("fill", "fill"),
        ("waiting for upload", "waiting"),
        ("dependency", "waiting"),
        ("the host was late", "host"),
        ("launch latency", "launch"),
        ("unknown", "other"),
    ] {
        assert_eq!(cause_class(cause(words)), class, "{words}");
    }
}
