//! The sections of the page that are text: the verdict, the losses, the warnings, the provenance.
#![forbid(unsafe_code)]

use super::markup::{escaped, none};
use super::page::Page;
use crate::base::units::percent_of;
use crate::trace::summary::{Audience, describe};
use std::fmt::Write;

/// The maximum size in bytes of a value that shares a line with others.
const WIDE: usize = 60;

pub(super) fn verdict(page: &Page<'_>) -> String {
    match &page.summary {
        None => none("This page has no summary."),
        Some(summary) => {
            let verdict = format!("<p id=\"verdict\">{}</p>", escaped(&summary.verdict()));
            let advice = page.advice.iter();
            let advice =
                advice.map(|one| format!("<p class=\"remark\">To do: {}.</p>", escaped(one)));
            verdict + &advice.collect::<String>()
        }
    }
}

/// The losses of the limiting engine, with the operations after the longest gaps.
pub(super) fn losses(page: &Page<'_>) -> String {
    let Some(summary) = page.summary.as_ref().filter(|summary| !summary.losses.is_empty()) else {
        return none("None was found.");
    };
    let engine = summary.metrics.limiting.map_or(String::new(), |e| summary.engine_name(e));
    let mut text = String::from("<ol class=\"losses\">");
    for loss in &summary.losses {
        let most = loss.ops.first().map_or(String::new(), |op| {
            format!(", the longest before {}", escaped(&describe(&page.ops, *op)))
        });
        write!(
            text,
            "<li><b>{}</b> ({}) <span>{engine} idle: {}{most}.</span>{} \
             <a href=\"#t={},{}\">show</a></li>",
            loss.time,
            percent_of(loss.time, summary.metrics.elapsed()),
            escaped(&loss.cause.to_string()),
            loss.fix.map_or_else(String::new, advice),
            loss.longest.start,
            loss.longest.end
        )
        .expect("writing to a string");
    }
    text.push_str("</ol>");
    text
}

fn advice(fix: &str) -> String {
    format!(" <em>Fix: {}.</em>", escaped(fix))
}

/// The warnings about performance.
pub(super) fn warnings(page: &Page<'_>) -> String {
    let Some(summary) = &page.summary else {
        return none("This run was not checked for warnings.");
    };
    if summary.lints.is_empty() {
        return none("None was found.");
    }
    let is_author = summary.audience == Audience::Author;
    let mut text = String::from("<ol class=\"losses\">");
    for lint in &summary.lints {
        let link =
            lint.ops.first().map_or(String::new(), |op| format!(" <a href=\"#op={op}\">show</a>"));
        write!(
            text,
            "<li><b>up to {}</b> <code>{}</code> <span>{}.</span>{}{link}</li>",
            lint.saved,
            lint.rule.name(),
            escaped(&lint.text),
            if is_author { advice(lint.rule.fix()) } else { String::new() }
        )
        .expect("writing to a string");
    }
    text.push_str("</ol>");
    text
}

pub(super) fn provenance(rows: &[(String, String)]) -> String {
    if rows.is_empty() {
        return none("This page has no provenance.");
    }
    let mut text = String::from("<dl>");
    for (name, value) in rows {
        let class = if value.len() > WIDE { " class=\"wide\"" } else { "" };
        write!(text, "<div{class}><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value))
            .expect("writing to a string");
    }
    text.push_str("</dl>");
    text
}
