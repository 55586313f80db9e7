//! The bars of the page: one per engine, with its busy, exposed and idle time, and one for the
//! critical path.
#![forbid(unsafe_code)]

use super::figures::Bar;
use super::look::Look;
use super::markup::{escaped, none, share};
use super::page::Page;
use crate::base::id::DeviceId;
use crate::base::units::{Nanos, percent_of};
use crate::trace::exposed::DeviceMetrics;
use crate::trace::host_engines::HostSummary;
use crate::trace::limit::Limit;
use crate::trace::summary::{EngineSummary, Summary};
use std::fmt::Write;

/// The smallest share of a bar, in thousandths, that has space for the name of the part.
const NAMED_FROM: u64 = 90;

/// A part of a bar.
struct DrawnPart {
    look: Look,
    label: String,
    time: Nanos,
}

/// The parts of the time of an engine. They sum to the window.
fn parts(engine: &EngineSummary) -> Vec<DrawnPart> {
    let part = |look, label: &str, time| DrawnPart { look, label: label.to_owned(), time };
    let beside = Nanos(engine.metrics.busy.0 - engine.exposed.0);
    let mut parts = vec![
        part(Look::Busy, "busy beside others", beside),
        part(Look::Exposed, "exposed", engine.exposed),
    ];
    let idle = engine.idle.iter();
    parts.extend(idle.map(|(cause, time)| part(Look::of_idle(*cause), &cause.to_string(), *time)));
    parts
}

/// The parts of the time of an engine of the host. They sum to the window.
fn host_parts(host: &HostSummary, window: Nanos) -> Vec<DrawnPart> {
    let part =
        |look, label: &str, time| DrawnPart { look, label: label.to_owned(), time: Nanos(time) };
    vec![
        part(Look::Busy, "busy beside others", host.busy.0 - host.exposed.0),
        part(Look::Exposed, "exposed", host.exposed.0),
        part(Look::Other, "idle", window.0.saturating_sub(host.busy.0)),
    ]
}

/// The time that the link needs for both directions, and the rest of the window.
fn link_parts(link: Nanos, window: Nanos) -> Vec<DrawnPart> {
    let part =
        |look, label: &str, time| DrawnPart { look, label: label.to_owned(), time: Nanos(time) };
    vec![
        part(Look::Busy, "work", link.0),
        part(Look::Other, "the rest of the run", window.0.saturating_sub(link.0)),
    ]
}

fn bar(name: &str, mark: &str, class: &str, parts: &[DrawnPart]) -> String {
    let whole = parts.iter().map(|part| part.time.0).sum::<u64>();
    let (mut drawn, mut listed) = (String::new(), String::new());
    for DrawnPart { look, label, time } in parts.iter().filter(|part| part.time.0 > 0) {
        let (class, part, label) = (look.class(), share(*time, whole), escaped(label));
        let width = u128::from(time.0) * 100_000 / u128::from(whole.max(1));
        let width = format!("{}.{:03}%", width / 1000, width % 1000);
        let name = if part >= NAMED_FROM { format!("<i>{label}</i>") } else { String::new() };
        write!(drawn, "<span class=\"part c-{class}\" style=\"width:{width}\">{name}</span>")
            .expect("writing to a string");
        write!(
            listed,
            "<li><span class=\"key c-{class}\"></span>{label} <b>{time}</b> {}</li>",
            percent_of(*time, Nanos(whole))
        )
        .expect("writing to a string");
    }
    format!(
        "<div class=\"bar{class}\"><h3>{}{mark}</h3><div class=\"whole\" aria-hidden=\"true\">{drawn}\
         </div><ul>{listed}</ul></div>",
        escaped(name)
    )
}

/// The bar of an engine of a traced program.
pub(super) fn of_program(one: &Bar) -> String {
    let parts = one.parts.iter().map(|part| DrawnPart {
        look: part.look.look(),
        label: part.label.clone(),
        time: part.time,
    });
    let mark = if one.limits { LIMITS } else { "" };
    let class = if one.limits { " limiting" } else { "" };
    bar(&one.name, mark, class, &parts.collect::<Vec<_>>())
}

/// The mark of the engine that limits a run.
const LIMITS: &str = " <span class=\"limit\">limits the run</span>";

pub(super) fn engines(page: &Page<'_>) -> String {
    let Some(summary) = page.summary.as_ref().filter(|summary| !summary.engines.is_empty()) else {
        return none("No engine was measured.");
    };
    let mut text = String::from("<div class=\"bars\">");
    let mut before = None;
    for engine in &summary.engines {
        let device = engine.metrics.engine.0;
        if summary.metrics.devices.len() > 1 && before.replace(device) != Some(device) {
            text += &heading(summary, device);
        }
        let limits = summary.limit == Some(Limit::Engine(engine.metrics.engine));
        let mark = if limits { LIMITS } else { "" };
        let class = if limits { " limiting" } else { "" };
        let name = summary.engine_name(engine.metrics.engine);
        text += &bar(&name, mark, class, &parts(engine));
    }
    let window = summary.metrics.elapsed();
    if let Some(link) = summary.link {
        let (mark, class) =
            if summary.limit == Some(Limit::Link) { (LIMITS, " limiting") } else { ("", "") };
        text += &bar("link, both ways", mark, class, &link_parts(link, window));
    }
    for host in &summary.host {
        let limits = summary.limit.is_some_and(|limit| limit.includes(host.engine));
        let (mark, class) = if limits { (LIMITS, " limiting") } else { ("", "") };
        text += &bar(host.engine.name(), mark, class, &host_parts(host, window));
    }
    if summary.metrics.devices.len() > 1 {
        text.push_str("<h3 class=\"device\">All devices</h3>");
    }
    let path = summary.path().into_iter().map(|(category, time)| DrawnPart {
        look: Look::of_path(category),
        label: category.to_string(),
        time,
    });
    text += &bar("critical path", "", " path", &path.collect::<Vec<_>>());
    text.push_str("</div>");
    text + &figures(summary)
}

/// The heading of a device, and its copies and its communication in words.
fn heading(summary: &Summary, device: DeviceId) -> String {
    let mut text = format!("<h3 class=\"device\">Device {}</h3>", device.0);
    let sentences = summary.of_device(device).into_iter().flat_map(DeviceMetrics::sentences);
    let items: Vec<_> = sentences.map(|one| format!("<li>{}</li>", escaped(&one))).collect();
    if !items.is_empty() {
        write!(text, "<ul class=\"figures\">{}</ul>", items.concat()).expect("writing to a string");
    }
    text
}

/// The figures in words, as a terminal prints them.
fn figures(summary: &Summary) -> String {
    let mut text = String::from("<ul class=\"figures\">");
    for line in summary.figures().lines() {
        write!(text, "<li>{}</li>", escaped(line)).expect("writing to a string");
    }
    text + "</ul>"
}
