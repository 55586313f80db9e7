//! The timeline in a terminal: a row for each engine of each device, time from left to right, and a
//! symbol per chunk. In a good pipeline, the symbols of a chunk descend from row to row as a
//! staircase.
#![forbid(unsafe_code)]

use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::{Engine, Op};
use crate::base::units::Nanos;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

/// The symbols of chunks. Chunk n has symbol n modulo the number of symbols.
const SYMBOLS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The rows, in the order in which a chunk passes through the engines.
const ROWS: [(Engine, &str); 5] = [
    (Engine::Upload, "upload"),
    (Engine::Compute, "compute"),
    (Engine::Download, "download"),
    (Engine::Peer, "peer"),
    (Engine::Communication, "NCCL"),
];

/// The symbol of a chunk.
#[must_use]
pub fn symbol(chunk: u64) -> char {
    let index = usize::try_from(chunk % SYMBOLS.len() as u64).unwrap_or(0);
    char::from(SYMBOLS[index])
}

/// The interval from the first start to the last end of the operations, in nanoseconds; `None` if
/// no operation has times.
#[must_use]
pub fn extent(ops: &[Op]) -> Option<Range<u64>> {
    let times = || ops.iter().filter_map(|op| op.times);
    Some(times().map(|t| t.begin.0).min()?..times().map(|t| t.end.0).max()?)
}

/// A drawing of `window`, in nanoseconds, with `width` columns. A column shows the symbol of the
/// chunk that the engine worked on for the largest part of the column. It shows `#` for an
/// operation without a chunk, and `.` if the engine was idle for more than half of the column. An
/// engine without operations has no row. With several devices, each row has the number of its
/// device.
#[must_use]
pub fn staircase(ops: &[Op], window: Range<u64>, width: usize) -> String {
    let drawn = timed(ops).filter(|op| ROWS.iter().any(|(engine, _)| *engine == op.engine));
    let devices: BTreeSet<DeviceId> = drawn.map(|op| op.device).collect();
    let (is_one, margin) = if devices.len() > 1 { (false, 10) } else { (true, 9) };
    let rows = devices.iter().flat_map(|device| ROWS.map(|(engine, name)| (*device, engine, name)));
    let rows = rows.filter_map(|(device, engine, name)| {
        let mine: Vec<_> =
            timed(ops).filter(|op| (op.device, op.engine) == (device, engine)).collect();
        let name = if is_one { name.to_owned() } else { format!("{name} {}", device.0) };
        (!mine.is_empty()).then_some((name, mine))
    });
    draw(rows, margin, window, width)
}

/// The drawing of [`staircase`] with a row for each stream, in the order of their first operations.
/// Kernels that run at the same time in several streams have rows of their own here.
#[must_use]
pub fn rows_of_streams(ops: &[Op], window: Range<u64>, width: usize) -> String {
    let mut rows: Vec<(LaneId, Vec<&Op>)> = Vec::new();
    for op in timed(ops).filter(|op| ROWS.iter().any(|(engine, _)| *engine == op.engine)) {
        let lane = op.position.lane;
        match rows.iter_mut().find(|(known, _)| *known == lane) {
            Some((_, mine)) => mine.push(op),
            None => rows.push((lane, vec![op])),
        }
    }
    let rows = rows.into_iter().zip(1..);
    draw(rows.map(|((_, mine), number)| (format!("stream {number}"), mine)), 10, window, width)
}

fn timed(ops: &[Op]) -> impl Iterator<Item = &Op> {
    ops.iter().filter(|op| op.times.is_some())
}

/// Draws rows, each with its name and its operations. Names are aligned to the column `margin`.
fn draw<'a>(
    rows: impl Iterator<Item = (String, Vec<&'a Op>)>,
    margin: usize,
    window: Range<u64>,
    width: usize,
) -> String {
    let mut text = String::new();
    let columns = width.max(1) as u64;
    let span = (window.end - window.start).max(1);
    for (name, mine) in rows {
        let line: String = (0..columns)
            .map(|column| {
                let cell = window.start + span * column / columns
                    ..window.start + span * (column + 1) / columns;
                cell_symbol(&mine, &cell)
            })
            .collect();
        writeln!(text, "{name:>margin$} {line}").expect("writing to a string");
    }
    let w = width.saturating_sub(9);
    writeln!(text, "{:>margin$} {:<w$}{:>9}", "", "0", Nanos(span)).expect("writing to a string");
    text
}

fn cell_symbol(ops: &[&Op], cell: &Range<u64>) -> char {
    let mut best = ('.', 0);
    let mut busy = 0;
    for op in ops {
        let Some(times) = op.times else { continue };
        let covered = times.end.0.min(cell.end).saturating_sub(times.begin.0.max(cell.start));
        busy += covered;
        if covered > best.1 {
            best = (op.chunk.map_or('#', symbol), covered);
        }
    }
    let idle = (cell.end - cell.start).saturating_sub(busy);
    if idle > busy { '.' } else { best.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::Position;
    use crate::base::ledger::{StreamWork, Times};

    fn op(engine: Engine, chunk: u64, begin: u64, end: u64) -> Op {
        let position = Position { lane: LaneId(0), seq: 1 };
        Op {
            chunk: Some(chunk),
            times: Some(Times { begin: Nanos(begin), end: Nanos(end) }),
            ..Op::new(StreamWork::Kernel, engine, DeviceId(0), position)
        }
    }

    #[test]
    fn kernels_that_run_at_once_have_a_row_for_each_stream() {
        let on = |lane, chunk, begin, end| {
            let position = Position { lane: LaneId(lane), seq: 1 };
            Op { position, ..op(Engine::Compute, chunk, begin, end) }
        };
        let ops = [on(7, 0, 0, 20), on(3, 1, 10, 30), on(7, 2, 20, 30)];
        let drawing = rows_of_streams(&ops, 0..30, 3);
        let rows: Vec<&str> = drawing.lines().map(str::trim).collect();
        assert_eq!(rows[..2], ["stream 1 002", "stream 2 .11"]);
    }

    #[test]
    fn chunks_descend_from_row_to_row() {
        let ops = [
            op(Engine::Upload, 0, 0, 10),
            op(Engine::Upload, 1, 10, 20),
            op(Engine::Compute, 0, 10, 20),
            op(Engine::Compute, 1, 20, 30),
            op(Engine::Download, 0, 20, 30),
            op(Engine::Download, 1, 30, 40),
        ];
        let drawn = staircase(&ops, 0..40, 12);
        let rows: Vec<_> = drawn.lines().take(3).collect();
        assert_eq!(
            rows,
            ["   upload 000111......", "  compute ...000111...", " download ......000111"]
        );
    }

    #[test]
    fn each_device_has_rows_of_its_own() {
        let on = |device, op| Op { device: DeviceId(device), ..op };
        let ops = [
            on(0, op(Engine::Compute, 0, 0, 10)),
            on(0, op(Engine::Peer, 0, 10, 20)),
            on(1, op(Engine::Compute, 0, 20, 30)),
            on(0, op(Engine::Compute, 1, 20, 30)),
        ];
        let drawn = staircase(&ops, 0..30, 9);
        let rows: Vec<_> = drawn.lines().take(3).collect();
        assert_eq!(rows, [" compute 0 000...111", "    peer 0 ...000...", " compute 1 ......000"]);
    }
}
