//! The parts of the page that need no script.
#![forbid(unsafe_code)]

use super::{Page, cause, cause_class, escaped};
use crate::base::units::Nanos;
use std::fmt::Write;

/// Losses that the page shows.
const LOSSES: usize = 3;
/// Below this share of a bar, in thousandths, a part has no room for its name.
const NAMED_FROM: u64 = 90;

pub(super) fn verdict(page: &Page<'_>) -> String {
    if page.verdict.is_empty() {
        return none("Nobody judged this run.");
    }
    format!("<p id=\"verdict\">{}</p>", escaped(&page.verdict))
}

fn none(words: &str) -> String {
    format!("<p class=\"none\">{words}</p>")
}

/// A part of a whole in thousandths.
fn share(part: Nanos, whole: u64) -> u64 {
    u64::try_from(u128::from(part.0) * 1000 / u128::from(whole.max(1))).unwrap_or(1000)
}

fn percent(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

pub(super) fn engines(page: &Page<'_>) -> String {
    let total = |parts: &[(String, Nanos)]| parts.iter().map(|(_, time)| time.0).sum::<u64>();
    let Some(longest) = page.engines.iter().map(|bar| total(&bar.parts)).max() else {
        return none("No engine was measured.");
    };
    let mut text = String::from("<div class=\"bars\">");
    for (number, bar) in page.engines.iter().enumerate() {
        let limits = page.limiting == Some(number);
        let mark = if limits { " <span class=\"limit\">limits the run</span>" } else { "" };
        let mut drawn = String::new();
        let mut listed = String::new();
        for (label, time) in bar.parts.iter().filter(|(_, time)| time.0 > 0) {
            let (class, part) = (cause_class(cause(label)), share(*time, longest));
            let width = percent(part).replace(' ', "");
            let label = escaped(label);
            let name = if part >= NAMED_FROM { format!("<i>{label}</i>") } else { String::new() };
            let of_whole = percent(share(*time, total(&bar.parts)));
            write!(drawn, "<span class=\"part c-{class}\" style=\"width:{width}\">{name}</span>")
                .and_then(|()| {
                    write!(
                        listed,
                        "<li><span class=\"key c-{class}\"></span>{label} <b>{time}</b> {of_whole}</li>"
                    )
                })
                .expect("writing to a string");
        }
        write!(
            text,
            "<div class=\"bar{}\"><h3>{}{mark}</h3><div class=\"whole\" aria-hidden=\"true\">{drawn}\
             </div><ul>{listed}</ul></div>",
            if limits { " limiting" } else { "" },
            escaped(&bar.name)
        )
        .expect("writing to a string");
    }
    text.push_str("</div>");
    text
}

pub(super) fn losses(page: &Page<'_>) -> String {
    if page.losses.is_empty() {
        return none("None was found.");
    }
    let mut text = String::from("<ol class=\"losses\">");
    for loss in page.losses.iter().take(LOSSES) {
        write!(
            text,
            "<li><b>{}</b> <span>{}</span> <em>{}</em> <a href=\"#t={},{}\">show</a></li>",
            loss.lost,
            escaped(&loss.cause),
            escaped(&loss.fix),
            loss.window.start,
            loss.window.end
        )
        .expect("writing to a string");
    }
    text.push_str("</ol>");
    text
}

pub(super) fn hazards(page: &Page<'_>) -> String {
    let Some(hazards) = &page.hazards else {
        return none("This run was not checked for hazards.");
    };
    if hazards.is_empty() {
        return none("None was found.");
    }
    let mut text = String::from("<ol class=\"hazards\">");
    for (number, note) in hazards.iter().enumerate() {
        write!(
            text,
            "<li><pre>{}</pre><a href=\"#hazard={number}\">show operations {} and {}</a></li>",
            escaped(&note.text),
            note.first,
            note.second
        )
        .expect("writing to a string");
    }
    text.push_str("</ol>");
    text
}

pub(super) fn provenance(page: &Page<'_>) -> String {
    if page.provenance.is_empty() {
        return none("Nothing is known.");
    }
    let mut text = String::from("<dl>");
    for (name, value) in &page.provenance {
        write!(text, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value))
            .expect("writing to a string");
    }
    text.push_str("</dl>");
    text
}
