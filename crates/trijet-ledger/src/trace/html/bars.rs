//! The bars of the page: one bar per engine, with its busy, exposed and idle time, and one bar for
//! the critical path.
#![forbid(unsafe_code)]

use super::figures::{Bar, BarPart};
use super::look::Look;
use super::markup::{escaped, figures, heading, none, share};
use super::page::Page;
use crate::base::id::DeviceId;
use crate::base::units::{Nanos, percent_of};
use crate::trace::exposed::DeviceMetrics;
use crate::trace::host_engines::HostSummary;
use crate::trace::limit::Limit;
use crate::trace::summary::{EngineSummary, Summary};
use std::fmt::Write;

/// A part of a bar shows its name if it has at least this share of the bar, in thousandths.
const NAMED_FROM: u64 = 90;

/// The parts of the time of an engine. They sum to the window.
fn parts(engine: &EngineSummary) -> Vec<BarPart> {
    let beside = Nanos(engine.metrics.busy.0 - engine.exposed.0);
    let mut parts = vec![
        BarPart::new(Look::Busy, "busy beside others", beside),
        BarPart::new(Look::Exposed, "exposed", engine.exposed),
    ];
    let idle = engine.idle.iter();
    parts.extend(
        idle.map(|(cause, time)| BarPart::new(Look::of_idle(*cause), cause.to_string(), *time)),
    );
    parts
}

/// The parts of the time of an engine of the host. They sum to the window.
fn host_parts(host: &HostSummary, window: Nanos) -> Vec<BarPart> {
    vec![
        BarPart::new(Look::Busy, "busy beside others", Nanos(host.busy.0 - host.exposed.0)),
        BarPart::new(Look::Exposed, "exposed", host.exposed),
        BarPart::new(Look::Other, "idle", Nanos(window.0.saturating_sub(host.busy.0))),
    ]
}

/// The time that the link needs for both directions, and the rest of the window, as parts of a bar.
fn link_parts(link: Nanos, window: Nanos) -> Vec<BarPart> {
    let rest = Nanos(window.0.saturating_sub(link.0));
    vec![
        BarPart::new(Look::Busy, "work", link),
        BarPart::new(Look::Other, "the rest of the run", rest),
    ]
}

/// The bar as markup.
pub(super) fn drawn(bar: &Bar) -> String {
    of_class(bar, if bar.limits { " limiting" } else { "" })
}

/// The bar as markup, with one more class of `page.css`.
fn of_class(Bar { name, limits, parts }: &Bar, bar_class: &str) -> String {
    let mark = if *limits { LIMITS } else { "" };
    let whole = parts.iter().map(|part| part.time.0).sum::<u64>();
    let (mut drawn, mut listed) = (String::new(), String::new());
    for BarPart { look, label, time } in parts.iter().filter(|part| part.time.0 > 0) {
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
        "<div class=\"bar{bar_class}\"><h3>{}{mark}</h3><div class=\"whole\" aria-hidden=\"true\">{drawn}\
         </div><ul>{listed}</ul></div>",
        escaped(name)
    )
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
            text += &of_device(summary, device);
        }
        let limits = summary.limit == Some(Limit::Engine(engine.metrics.engine));
        let name = summary.engine_name(engine.metrics.engine);
        text += &drawn(&Bar { name, limits, parts: parts(engine) });
    }
    let window = summary.metrics.elapsed();
    if let Some(link) = summary.link {
        let limits = summary.limit == Some(Limit::Link);
        let name = "link, both ways".to_owned();
        text += &drawn(&Bar { name, limits, parts: link_parts(link, window) });
    }
    for host in &summary.host {
        let limits = summary.limit.is_some_and(|limit| limit.includes(host.engine));
        let name = host.engine.name().to_owned();
        text += &drawn(&Bar { name, limits, parts: host_parts(host, window) });
    }
    if summary.metrics.devices.len() > 1 {
        text += &heading("All devices");
    }
    let path = summary.path().into_iter();
    let parts = path
        .map(|(category, time)| BarPart::new(Look::of_path(category), category.to_string(), time));
    let path = Bar { name: "critical path".to_owned(), limits: false, parts: parts.collect() };
    text += &of_class(&path, " path");
    // The figures have the text that a terminal prints.
    text.push_str("</div>");
    text + &figures(summary.figures().lines())
}

/// The heading of a device, and its copies and its communication in words.
fn of_device(summary: &Summary, device: DeviceId) -> String {
    let sentences = summary.of_device(device).into_iter().flat_map(DeviceMetrics::sentences);
    heading(&format!("Device {}", device.0)) + &figures(sentences)
}
