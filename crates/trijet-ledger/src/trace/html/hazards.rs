//! The hazards section: for each finding, its report and a drawing of the missing edge.
#![forbid(unsafe_code)]

use super::markup::{escaped, none};
use super::page::{HazardNote, Page};
use crate::base::ledger::{Op, StreamClass};
use std::fmt::Write;

/// Maximum number of findings with a drawing. Every finding has its report.
const DRAWN_MAX: usize = 20;
/// Maximum number of characters of a label in the drawing.
const LETTERS_MAX: usize = 26;

pub(super) fn list(page: &Page<'_>) -> String {
    let checked = page.summary.as_ref().is_some_and(|summary| summary.hazards.is_some());
    if page.hazards.is_empty() {
        let words =
            if checked { "None was found." } else { "This run was not checked for hazards." };
        return none(words);
    }
    let mut text = String::from("<ol class=\"hazards\">");
    for (number, note) in page.hazards.iter().enumerate() {
        let drawn = if number < DRAWN_MAX { picture(page, note) } else { String::new() };
        let second = page.number_of(note.second);
        let shown = match note.first.map(|first| page.number_of(first)) {
            Some(first) => format!("show operations {first} and {second}"),
            None => format!("show operation {second}"),
        };
        write!(
            text,
            "<li><pre>{}</pre>{drawn}<a href=\"#hazard={number}\">{shown}</a></li>",
            escaped(note.text.trim_end())
        )
        .expect("writing to a string");
    }
    text.push_str("</ol>");
    text
}

/// The stream of an operation, or the host thread that executes it.
fn place(op: &Op) -> String {
    let lane = op.position.lane.0;
    match op.stream {
        _ if !op.kind.is_in_stream() => format!("host thread {}", op.thread),
        StreamClass::Legacy => format!("legacy stream {lane}"),
        StreamClass::PerThread => format!("per-thread stream {lane}"),
        StreamClass::Blocking | StreamClass::NonBlocking => format!("stream {lane}"),
    }
}

fn label(op: &Op, number: u64) -> String {
    let chunk = op.chunk.map_or(String::new(), |chunk| format!(", chunk {chunk}"));
    let full = format!("#{number} {}{chunk}", op.label);
    match full.char_indices().nth(LETTERS_MAX) {
        Some((cut, _)) => format!("{}\u{2026}", &full[..cut]),
        None => full,
    }
}

/// Two rows with an operation each, and the missing edge between them as a dashed arrow.
fn picture(page: &Page<'_>, note: &HazardNote) -> String {
    let Some(first) = note.first else { return String::new() };
    let (a, b) = (&page.ops[first], &page.ops[note.second]);
    let names = [place(a), place(b)].map(|name| escaped(&name));
    let number = |index| page.number_of(index);
    let labels = [label(a, number(first)), label(b, number(note.second))];
    let labels = labels.map(|label| escaped(&label));
    format!(
        "<svg class=\"missing\" viewBox=\"0 0 640 92\" role=\"img\" aria-label=\"Nothing orders {} \
         before {}\"><path class=\"track\" d=\"M120 22H636M120 70H636\"/>\
         <text x=\"108\" y=\"27\" text-anchor=\"end\">{}</text>\
         <text x=\"108\" y=\"75\" text-anchor=\"end\">{}</text>\
         <rect x=\"130\" y=\"6\" width=\"200\" height=\"32\" rx=\"4\"/>\
         <text class=\"name\" x=\"230\" y=\"27\" text-anchor=\"middle\">{}</text>\
         <rect x=\"420\" y=\"54\" width=\"200\" height=\"32\" rx=\"4\"/>\
         <text class=\"name\" x=\"520\" y=\"75\" text-anchor=\"middle\">{}</text>\
         <path class=\"edge\" d=\"M330 22C385 22 360 70 412 70\"/>\
         <path class=\"head\" d=\"M419 70l-9 -5v10z\"/>\
         <text class=\"why\" x=\"394\" y=\"38\">no order</text></svg>",
        labels[0], labels[1], names[0], names[1], labels[0], labels[1]
    )
}
