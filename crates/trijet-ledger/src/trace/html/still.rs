//! The still picture: the timeline of the engines for a reader without scripts.
#![forbid(unsafe_code)]

use super::super::timeline::extent;
use super::super::tracks::{Shows, span, track_name, tracks};
use super::item::Sheet;
use super::markup::{escaped, none};
use super::page::Page;
use crate::base::units::Nanos;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// The number of columns. A column has the colour of the chunk that ran in it for the longest time.
const COLUMNS: usize = 480;
/// The height of a row, and the height of the drawn part of a row, in units of the picture.
const ROW: usize = 24;
const HEIGHT: usize = 18;
/// The width of the space for the names, in units of the picture.
const MARGIN: usize = 110;
/// The number of colours of chunks in `page.css`.
const COLOURS: u64 = 12;

pub(super) fn picture(page: &Page<'_>) -> String {
    let ops = &*page.ops;
    let Some(window) = extent(ops) else { return none(NOTHING) };
    let tracks = tracks(ops);
    let engines = tracks.iter().filter(|track| matches!(track.shows, Shows::Engine(..)));
    let engines = engines.map(|track| {
        let members = track.rows.iter().flatten().map(|index| &ops[*index]);
        let spans = members.filter_map(|op| {
            let (begin, end) = op.times.map(span)?;
            Some((begin, end, op.chunk.map_or(COLOURS, |chunk| chunk % COLOURS)))
        });
        (track_name(ops, track), spans.collect())
    });
    drawn(&engines.collect::<Vec<_>>(), &window)
}

/// The picture of the engines of a traced program. A colour stands for a name.
pub(super) fn of_sheet(sheet: &Sheet) -> String {
    let mut engines = sheet.engines();
    let spans = || engines.iter().flat_map(|(_, spans)| spans);
    let (first, last) = (spans().map(|span| span.0).min(), spans().map(|span| span.1).max());
    let (Some(first), Some(last)) = (first, last) else { return none(NOTHING) };
    engines.iter_mut().flat_map(|(_, spans)| spans).for_each(|span| span.2 %= COLOURS);
    drawn(&engines, &(first..last))
}

/// The text in place of a picture without operations.
const NOTHING: &str = "No operation has times.";

/// An engine of a picture: its name, and for each operation the start and the end in nanoseconds,
/// and the number of its colour.
pub(super) type StillEngine = (String, Vec<(u64, u64, u64)>);

fn drawn(engines: &[StillEngine], window: &Range<u64>) -> String {
    let mut rows = String::new();
    for (number, (name, spans)) in engines.iter().enumerate() {
        let top = number * ROW;
        write!(
            rows,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            MARGIN - 8,
            top + HEIGHT - 5,
            escaped(name)
        )
        .expect("writing to a string");
        for (colour, path) in paths(spans, (window.start, window.end), top) {
            write!(rows, "<path class=\"k{colour}\" d=\"{path}\"/>").expect("writing to a string");
        }
    }
    let (width, height) = (MARGIN + 2 * COLUMNS, engines.len() * ROW + ROW);
    write!(
        rows,
        "<text x=\"{MARGIN}\" y=\"{height}\">0</text>\
         <text x=\"{width}\" y=\"{height}\" text-anchor=\"end\">{}</text>",
        Nanos(window.end - window.start)
    )
    .expect("writing to a string");
    format!(
        "<svg viewBox=\"0 0 {width} {}\" role=\"img\" aria-label=\"When each engine was busy; a \
         colour per chunk\">{rows}</svg>",
        height + 4
    )
}

/// The path of each colour, by the number of the colour. A column gets the colour of the operation
/// that ran in it for the longest time.
fn paths(ops: &[(u64, u64, u64)], (start, end): (u64, u64), top: usize) -> BTreeMap<u64, String> {
    let width = u128::from((end - start).max(1));
    let scaled = |at: u64| u128::from(at - start) * COLUMNS as u128;
    let mut columns: Vec<Option<(u128, u64)>> = vec![None; COLUMNS];
    for &(begin, end, colour) in ops {
        let (from, to) = (scaled(begin), scaled(end));
        let last = (to.saturating_sub(1) / width).max(from / width);
        let mut column = from / width;
        while column <= last {
            let cell = usize::try_from(column).unwrap_or(COLUMNS).min(COLUMNS - 1);
            let share = to.min((column + 1) * width).saturating_sub(from.max(column * width));
            if columns[cell].is_none_or(|(most, _)| share > most) {
                columns[cell] = Some((share, colour));
            }
            column += 1;
        }
    }
    let mut paths: BTreeMap<u64, String> = BTreeMap::new();
    let mut column = 0;
    for run in columns.chunk_by(|a, b| a.map(|(_, c)| c) == b.map(|(_, c)| c)) {
        if let Some((_, colour)) = run[0] {
            let path = paths.entry(colour).or_default();
            write!(
                path,
                "M{} {top}h{}v{HEIGHT}h-{}z",
                MARGIN + 2 * column,
                2 * run.len(),
                2 * run.len()
            )
            .expect("writing to a string");
        }
        column += run.len();
    }
    paths
}
