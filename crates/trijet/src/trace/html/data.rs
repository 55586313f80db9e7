//! The operations of a page as JSON for its script, with one column for each field.
//!
//! A column holds the differences from one operation to the next. They are numbers of variable length
//! with the sign in the lowest bit, in base64. Successive operations are similar, so most differences
//! take one byte.
#![forbid(unsafe_code)]

use super::super::json::string;
use super::super::tracks::{self, Shows, Track, kind_name, span, track_name};
use super::look::Look;
use super::page::Page;
use crate::base::ledger::{Declared, Op};
use crate::trace::gaps::Cause;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The largest integer that a script represents exactly: 104 days in nanoseconds.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The bits of the column `flags`.
const TIMED: u64 = 1;
const CALLED: u64 = 2;
const UNDECLARED: u64 = 4;
const CRITICAL: u64 = 8;
const CRITICAL_CALL: u64 = 16;

pub(super) fn json(page: &Page<'_>) -> String {
    let ops = &*page.ops;
    let tracks = tracks::tracks(ops);
    let mut text = String::from("{");
    write!(text, "\"count\":{},\"rows\":[", ops.len()).expect("writing to a string");
    let several = ops.windows(2).any(|pair| pair[0].device != pair[1].device);
    let rows = tracks.iter().flat_map(|track| {
        (0..track.rows.len()).map(move |number| row(ops, track, number, several))
    });
    text.push_str(&rows.collect::<Vec<_>>().join(","));
    text.push_str("],\"columns\":{");
    columns(&mut text, page, &tracks);
    text.push_str("},\"gaps\":");
    text.push_str(&gaps(page, &tracks));
    text.push_str(",\"hazards\":[");
    let hazards = page.hazards.iter().map(|note| match note.first {
        Some(first) => format!("[{first},{}]", note.second),
        None => format!("[null,{}]", note.second),
    });
    text.push_str(&hazards.collect::<Vec<_>>().join(","));
    text.push_str("]}");
    text
}

/// The idle times of the tracks, each with one cause. The parts of a gap follow each other in
/// order.
fn gaps(page: &Page<'_>, tracks: &[Track]) -> String {
    let mut columns: [Vec<u64>; 4] = Default::default();
    let mut causes: Vec<Cause> = Vec::new();
    for gap in page.summary.iter().flat_map(|summary| &summary.gaps) {
        let wanted = Shows::Engine(gap.engine.0, gap.engine.1);
        let Some(track) = tracks.iter().position(|track| track.shows == wanted) else { continue };
        let mut from = gap.span.start;
        for (cause, part) in &gap.parts {
            let known = causes.iter().position(|known| known == cause);
            let number = known.unwrap_or_else(|| {
                causes.push(*cause);
                causes.len() - 1
            });
            let row = [track as u64, from, part.0, number as u64];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            from += part.0;
        }
    }
    let [track, from, took, cause] = columns.map(|column| packed(&mut column.into_iter()));
    let causes = causes.iter().map(|cause| {
        let words = string(&cause.to_string());
        format!("[\"{}\",{words}]", Look::of_idle(*cause).class())
    });
    format!(
        "{{\"track\":\"{track}\",\"from\":\"{from}\",\"took\":\"{took}\",\"cause\":\"{cause}\",\
         \"causes\":[{}]}}",
        causes.collect::<Vec<_>>().join(",")
    )
}

/// A row: the kind of its track, whether it is the first row of the track, and its name.
fn row(ops: &[Op], track: &Track, number: usize, several: bool) -> String {
    let (kind, device) = match track.shows {
        Shows::Engine(device, _) => ("engine", Some(device)),
        Shows::Stream(device, _) => ("stream", Some(device)),
        Shows::Thread(_) => ("thread", None),
    };
    let mut name = track_name(ops, track);
    if let Some(device) = device.filter(|_| several) {
        name = format!("{} {name}", device.0);
    }
    format!("{{\"kind\":\"{kind}\",\"first\":{},\"name\":{}}}", number == 0, string(&name))
}

fn columns(text: &mut String, page: &Page<'_>, tracks: &[Track]) {
    let ops = &*page.ops;
    let mut critical = vec![0; ops.len()];
    let summary = page.summary.as_ref();
    for node in summary.map_or_else(Vec::new, |summary| summary.critical.nodes()) {
        critical[node.op()] |= if node.is_call() { CRITICAL_CALL } else { CRITICAL };
    }
    let (labels, label) = table(ops.iter().map(|op| op.label.clone().into_owned()));
    let (sites, site) =
        table(ops.iter().map(|op| op.site.as_ref().map_or(String::new(), ToString::to_string)));
    let (kinds, kind) = table(ops.iter().map(|op| kind_name(op).to_owned()));
    let times = |op: &Op| op.times.map_or((0, 0), span);
    let calls = |op: &Op| op.call.map_or((0, 0), span);
    let flags = ops.iter().zip(&critical).map(|(op, critical)| {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        flag(op.times.is_some(), TIMED)
            | flag(op.call.is_some(), CALLED)
            | flag(op.declared == Declared::Nothing, UNDECLARED)
            | critical
    });
    let mut column = |name: &str, values: &mut dyn Iterator<Item = u64>| {
        write!(text, "\"{name}\":\"{}\",", packed(values)).expect("writing to a string");
    };
    column("flags", &mut { flags });
    column("kind", &mut kind.into_iter());
    column("label", &mut label.into_iter());
    column("site", &mut site.into_iter());
    column("begin", &mut ops.iter().map(|op| times(op).0));
    column("took", &mut ops.iter().map(|op| times(op).1 - times(op).0));
    column("call", &mut ops.iter().map(|op| calls(op).0));
    column("calling", &mut ops.iter().map(|op| calls(op).1 - calls(op).0));
    column("bytes", &mut ops.iter().map(|op| op.bytes));
    // 0 stands for no chunk.
    column("chunk", &mut ops.iter().map(|op| op.chunk.map_or(0, |chunk| chunk.saturating_add(1))));
    let slack = |op: usize| summary?.slack.get(op).copied().flatten();
    column("slack", &mut (0..ops.len()).map(|op| slack(op).map_or(0, |slack| slack.0 + 1)));
    column("stream", &mut ops.iter().map(|op| u64::from(op.position.lane.0)));
    column("position", &mut ops.iter().map(|op| op.position.seq));
    column("thread", &mut ops.iter().map(|op| op.thread));
    column("device", &mut ops.iter().map(|op| u64::from(op.device.0)));
    for (name, kind) in [("engineRow", 0), ("streamRow", 1), ("threadRow", 2)] {
        column(name, &mut row_of(ops.len(), tracks, kind).into_iter());
    }
    let edges = tracks::edges(ops);
    column("from", &mut edges.iter().map(|(from, _)| *from as u64));
    column("to", &mut edges.iter().map(|(_, to)| *to as u64));
    for (name, table) in [("kinds", kinds), ("labels", labels), ("sites", sites)] {
        let words: Vec<String> = table.iter().map(|word| string(word)).collect();
        let comma = if name == "sites" { "" } else { "," };
        write!(text, "\"{name}\":[{}]{comma}", words.join(",")).expect("writing to a string");
    }
}

/// The row of each operation in tracks of one kind, counted from 1; 0 if the operation has none.
fn row_of(count: usize, tracks: &[Track], wanted: u32) -> Vec<u64> {
    let mut of = vec![0; count];
    let mut number = 0;
    for track in tracks {
        let kind = match track.shows {
            Shows::Engine(..) => 0,
            Shows::Stream(..) => 1,
            Shows::Thread(_) => 2,
        };
        for row in &track.rows {
            number += 1;
            if kind == wanted {
                row.iter().for_each(|index| of[*index] = number);
            }
        }
    }
    of
}

/// The distinct words in the order in which they first appear, and for each word its index.
fn table(words: impl Iterator<Item = String>) -> (Vec<String>, Vec<u64>) {
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    let mut table = Vec::new();
    let column = words
        .map(|word| match numbers.get(&word) {
            Some(number) => *number,
            None => {
                let number = table.len() as u64;
                table.push(word.clone());
                numbers.insert(word, number);
                number
            }
        })
        .collect();
    (table, column)
}

/// A column as text.
fn packed(values: &mut dyn Iterator<Item = u64>) -> String {
    let mut bytes = Vec::new();
    let mut before = 0_i64;
    for value in values {
        let value = i64::try_from(value.min(NUMBER_MAX)).expect("it is below 2^53");
        let difference = value - before;
        before = value;
        let mut rest = (difference << 1 ^ difference >> 63).cast_unsigned();
        while rest >= 0x80 {
            bytes.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        bytes.push(rest.to_le_bytes()[0]);
    }
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - group.len()));
        for digit in 0..4 {
            let sextet = word >> (18 - 6 * digit) & 63;
            text.push(if digit > group.len() { '=' } else { char::from(DIGITS[sextet as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn a_column_has_differences_with_their_sign() {
        // 3, -2, +200 as 6, 3, 400.
        assert_eq!(packed(&mut [3, 1, 201].into_iter()), base64(&[6, 3, 0x90, 0x03]));
        assert_eq!(packed(&mut [u64::MAX].into_iter()), packed(&mut [NUMBER_MAX].into_iter()));
    }
}
