//! The sections of the page that are text: the verdict, the losses, the remarks, the provenance.
#![forbid(unsafe_code)]

use super::figures::{Note, NoteLink, NoteName};
use super::markup::{escaped, none};
use super::page::Page;
use crate::base::units::{count, percent_of};
use crate::trace::summary::{Audience, describe};
use std::fmt::Write;

/// The maximum size in bytes of a value that shares a line with other values.
const WIDE: usize = 60;

/// The section with the result in one sentence, and with the remarks that the reader must know.
pub(super) fn verdict(verdict: &str, remarks: impl Iterator<Item = String>) -> String {
    let remarks = remarks.map(|one| format!("<p class=\"remark\">{}</p>", escaped(&one)));
    format!("<p id=\"verdict\">{}</p>", escaped(verdict)) + &remarks.collect::<String>()
}

/// The verdict about a run.
pub(super) fn of_run(page: &Page<'_>) -> String {
    let advice = || page.advice.iter().map(|one| format!("To do: {one}."));
    match (&page.summary, page.hazards.len()) {
        (Some(summary), _) => verdict(&summary.verdict(), advice()),
        (None, 0) => none("This page has no summary."),
        (None, hazards) => verdict(&count(hazards as u64, "finding"), advice()),
    }
}

/// A list of times that a change would save.
pub(super) fn list(notes: impl IntoIterator<Item = Note>) -> String {
    let mut text = String::from("<ol class=\"losses\">");
    for Note { cost, name, text: words, fix, links } in notes {
        let name = match name {
            NoteName::Rule(name) => format!("<code>{name}</code>"),
            NoteName::Share(share) => format!("({})", escaped(&share)),
        };
        let fix = fix.map_or(String::new(), |fix| format!(" <em>Fix: {}.</em>", escaped(fix)));
        let (cost, words) = (escaped(&cost), escaped(&words));
        write!(text, "<li><b>{cost}</b> {name} <span>{words}.</span>{fix}")
            .expect("writing to a string");
        for NoteLink { target, words } in links {
            write!(text, " <a href=\"{}\">{}</a>", escaped(&target), escaped(&words))
                .expect("writing to a string");
        }
        text.push_str("</li>");
    }
    text + "</ol>"
}

/// The losses of the limiting engine, with the operations after the longest gaps.
pub(super) fn losses(page: &Page<'_>) -> String {
    let Some(summary) = page.summary.as_ref().filter(|summary| !summary.losses.is_empty()) else {
        return none("None was found.");
    };
    let engine = summary.losing_engine().map_or(String::new(), |e| summary.engine_name(e));
    list(summary.losses.iter().map(|loss| {
        let first = loss.ops.first();
        let most = first.map(|op| format!(", the longest before {}", describe(&page.ops, *op)));
        Note {
            cost: loss.time.to_string(),
            name: NoteName::Share(percent_of(loss.time, summary.metrics.elapsed())),
            text: format!("{engine} idle: {}{}", loss.cause, most.as_deref().unwrap_or("")),
            fix: loss.fix,
            links: vec![NoteLink::to_time(&loss.longest, "show".to_owned())],
        }
    }))
}

/// The remarks about performance.
pub(super) fn remarks(page: &Page<'_>) -> String {
    let Some(summary) = &page.summary else {
        return none("This run was not checked for remarks.");
    };
    if summary.lints.is_empty() {
        return none("None was found.");
    }
    let is_author = summary.audience == Audience::Author;
    list(summary.lints.iter().map(|lint| {
        Note {
            cost: format!("up to {}", lint.saved),
            name: NoteName::Rule(lint.rule.name()),
            text: lint.text.clone(),
            fix: is_author.then(|| lint.rule.fix()),
            links: lint
                .ops
                .first()
                .map(|op| NoteLink { target: format!("#op={op}"), words: "show".to_owned() })
                .into_iter()
                .collect(),
        }
    }))
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
