//! The timeline in a terminal: a row per engine, time from left to right, a symbol per chunk. In a
//! good pipeline the symbols of a chunk descend from row to row, as a staircase.
#![forbid(unsafe_code)]

use crate::base::ledger::{Engine, Op};
use crate::base::units::Nanos;
use std::fmt::Write;
use std::ops::Range;

/// The symbols of chunks. Chunk n has symbol n modulo their number.
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

/// The time from the first begin to the last end of the operations; `None` if none has times.
#[must_use]
pub fn extent(ops: &[Op]) -> Option<Range<u64>> {
    let times = || ops.iter().filter_map(|op| op.times);
    Some(times().map(|t| t.begin.0).min()?..times().map(|t| t.end.0).max()?)
}

/// A drawing of `window`, in nanoseconds, with `width` columns. A column shows the symbol of the
/// chunk that the engine worked on for the largest part of the column, `#` for an operation without
/// a chunk, and `.` if the engine was idle for more than half of the column. An engine without
/// operations has no row.
#[must_use]
pub fn staircase(ops: &[Op], window: Range<u64>, width: usize) -> String {
    let mut text = String::new();
    let columns = width.max(1) as u64;
    let span = (window.end - window.start).max(1);
    for (engine, name) in ROWS {
        let mine: Vec<_> =
            ops.iter().filter(|op| op.engine == engine && op.times.is_some()).collect();
        if mine.is_empty() {
            continue;
        }
        let line: String = (0..columns)
            .map(|column| {
                let cell = window.start + span * column / columns
                    ..window.start + span * (column + 1) / columns;
                cell_symbol(&mine, &cell)
            })
            .collect();
        writeln!(text, "{name:>9} {line}").expect("writing to a string");
    }
    writeln!(text, "{:>9} {:<w$}{:>9}", "", "0", Nanos(span), w = width.saturating_sub(9))
        .expect("writing to a string");
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
    use crate::base::id::{DeviceId, LaneId, Position};
    use crate::base::ledger::{OpKind, Times};

    fn op(engine: Engine, chunk: u64, begin: u64, end: u64) -> Op {
        let position = Position { lane: LaneId(0), seq: 1 };
        Op {
            chunk: Some(chunk),
            times: Some(Times { begin: Nanos(begin), end: Nanos(end) }),
            ..Op::new(OpKind::Kernel, engine, DeviceId(0), position)
        }
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
}
