//! The execution of operations: copies, fills and tiles of kernels, under range locks.
#![forbid(unsafe_code)]

use super::work::{ConditionalBody, KernelWork, OpWork, SEGMENTS};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::base::panic::caught;
use crate::device::driver::{CopySpans, Repeats};
use crate::device::memory::Span;
use crate::device::region::{LockedBytes, RangeGuard, RangeGuards};
use crate::device::twin::{Tile, TileWrites};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// Maximum number of times that the body of a loop in a graph is executed. A GPU has no such limit:
/// a loop without an end hangs.
const REPEATS_MAX: u32 = 1_000_000;
/// Kernels that write fewer bytes than this run on one thread.
const SPLIT_BYTES: u64 = 256 * 1024;

/// Runs the units `part` of an operation. An operation is cut into units by [`OpWork::units`]. The
/// executors call host functions themselves.
///
/// # Errors
/// `Launch` when a twin panics, or when another operation holds a conflicting lock, which the
/// executors exclude.
pub(in crate::device::host) fn run(work: &OpWork, part: Range<u64>, threads: usize) -> Result<()> {
    match work {
        OpWork::Copy(CopySpans { dst, src }) => {
            copy((dst, slice(dst, &part)), (src, slice(src, &part)))
        }
        OpWork::Batch(copies) => {
            for unit in part {
                let count = copies.len() as u64;
                let found = usize::try_from(unit % count).ok().and_then(|at| copies.get(at));
                let Some(one) = found else { continue };
                let (len, segment) = (one.src.bytes(), unit / count);
                let own = len * segment / SEGMENTS..len * (segment + 1) / SEGMENTS;
                let to = (&one.dst, slice(&one.dst, &own));
                copy(to, (&one.src, slice(&one.src, &own)))?;
            }
            Ok(())
        }
        OpWork::Fill { dst, value } => {
            if dst.bytes() > 0 {
                lock(dst, slice(dst, &part), Mode::Write, "fill")?.bytes_mut().fill(*value);
            }
            Ok(())
        }
        OpWork::Kernel(kernel) => tiles(kernel, part, threads),
        OpWork::Conditional(body) => conditional(body, threads),
        OpWork::Mark
        | OpWork::Time { .. }
        | OpWork::Free(_)
        | OpWork::HostFn(_)
        | OpWork::Lent { .. } => Ok(()),
    }
}

/// Executes the operations of a body as often as its condition requires.
fn conditional(body: &ConditionalBody, threads: usize) -> Result<()> {
    let what = "conditional";
    for _ in 0..REPEATS_MAX {
        let condition = lock(&body.condition, body.condition.range(), Mode::Read, what)?;
        let is_set = condition.bytes().iter().any(|byte| *byte != 0);
        drop(condition);
        if !is_set {
            return Ok(());
        }
        body.works.iter().try_for_each(|work| run(work, 0..work.units(), threads))?;
        if body.repeats == Repeats::Once {
            return Ok(());
        }
    }
    let cause = format!(
        "a loop of a graph does not end: its condition was still set after {REPEATS_MAX} repeats"
    );
    Err(Error::new(ErrorKind::Launch, what, cause))
}

/// The range of the span's memory that `part` of the span covers.
fn slice(span: &Span, part: &Range<u64>) -> Range<u64> {
    let base = span.range().start;
    let end = part.end.min(span.bytes());
    base + part.start.min(end)..base + end
}

fn lock<'a>(span: &'a Span, part: Range<u64>, mode: Mode, what: &str) -> Result<RangeGuard<'a>> {
    span.memory().lock(part, mode).ok_or_else(|| excluded(what))
}

#[cold]
fn excluded(what: &str) -> Error {
    let cause =
        format!("two arguments of `{what}` overlap, or a running operation uses their bytes");
    Error::new(ErrorKind::Launch, "run", cause)
}

fn copy(dst: (&Span, Range<u64>), src: (&Span, Range<u64>)) -> Result<()> {
    if src.1.is_empty() {
        return Ok(());
    }
    let from = lock(src.0, src.1, Mode::Read, "copy")?;
    let mut to = lock(dst.0, dst.1, Mode::Write, "copy")?;
    to.bytes_mut().copy_from_slice(from.bytes());
    Ok(())
}

/// The bytes of the read-only arguments of a kernel, each with the index of the argument.
type KernelReads<'a> = SmallVec<[(usize, &'a [u8]); 4]>;

/// Runs the tiles `part` of a kernel on up to `threads` threads. Tiles write disjoint bytes.
fn tiles(kernel: &KernelWork, part: Range<u64>, threads: usize) -> Result<()> {
    let mut held = hold(kernel, &part)?;
    let (mut reads, mut writes) = (KernelReads::new(), TileWrites::new());
    let mut locked = held.bytes();
    for arg in kernel.args.spans() {
        let bytes = if arg.span.bytes() == 0 { None } else { locked.next() };
        match bytes {
            Some(LockedBytes::Write(bytes)) => writes.push((arg.index, bytes)),
            Some(LockedBytes::Read(bytes)) => reads.push((arg.index, bytes)),
            None if arg.mode.writes() => writes.push((arg.index, &mut [])),
            None => reads.push((arg.index, &[])),
        }
    }
    let outcome = caught(|| {
        // This branch allocates nothing. Most kernels of an exploration have one tile.
        if part.end - part.start == 1 {
            let first = first_of(kernel, part.start);
            let mut tile =
                Tile { args: &kernel.args, config: kernel.config, first, reads: &reads, writes };
            (kernel.twin.run)(&mut tile);
            Ok(())
        } else {
            run_many(kernel, part, &reads, writes, threads)
        }
    });
    outcome.and_then(|outcome| outcome).map_err(|words| {
        let cause = format!("the twin of `{}` panicked: {words}", kernel.name);
        Error::new(ErrorKind::Launch, "kernel", cause)
    })
}

/// The index of the first element of a tile in each written argument.
fn first_of(kernel: &KernelWork, tile: u64) -> usize {
    let first = tile.saturating_mul(kernel.tile_elements.max(1));
    // A tile after the end of the memory has no elements.
    usize::try_from(first).unwrap_or(usize::MAX)
}

/// Locks the bytes of the tiles `part`, in the order of the arguments. Empty spans are not locked.
fn hold<'a>(kernel: &'a KernelWork, part: &Range<u64>) -> Result<RangeGuards<'a>> {
    let tile = kernel.tile_elements.max(1);
    let mut parts = SmallVec::new();
    for arg in kernel.args.spans().iter().filter(|arg| arg.span.bytes() > 0) {
        let own = if arg.mode.writes() {
            let bytes = arg.element_bytes.saturating_mul(tile);
            slice(&arg.span, &(part.start.saturating_mul(bytes)..part.end.saturating_mul(bytes)))
        } else {
            arg.span.range()
        };
        let Some(bytes) = arg.span.memory().host() else { return Err(excluded(&kernel.name)) };
        parts.push((bytes, own, arg.mode));
    }
    RangeGuards::try_new(parts).ok_or_else(|| excluded(&kernel.name))
}

/// The index of the first element of a tile, and the tile's part of each written argument.
type TilePiece<'a> = (usize, TileWrites<'a>);

/// Runs tiles on several threads.
///
/// # Errors
/// The message of the first panic.
fn run_many<'a>(
    kernel: &'a KernelWork,
    part: Range<u64>,
    reads: &'a [(usize, &'a [u8])],
    writes: TileWrites<'a>,
    threads: usize,
) -> std::result::Result<(), String> {
    let tile = kernel.tile_elements.max(1);
    let written_bytes: u64 = writes.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let mut pieces: Vec<TilePiece<'a>> =
        part.map(|index| (first_of(kernel, index), TileWrites::new())).collect();
    for (index, bytes) in writes {
        let arg = kernel.args.spans().iter().find(|arg| arg.index == index);
        let chunk = arg.map_or(0, |arg| arg.element_bytes.saturating_mul(tile));
        let chunk = usize::try_from(chunk).unwrap_or(usize::MAX).max(1);
        let mut rest = bytes.chunks_mut(chunk);
        for (_, own) in &mut pieces {
            // If a written span is shorter than the others, the last tiles get none of its bytes.
            own.push((index, rest.next().unwrap_or(&mut [])));
        }
    }
    let threads = if written_bytes < SPLIT_BYTES { 1 } else { threads.max(1) };
    let share = pieces.len().div_ceil(threads).max(1);
    if threads == 1 {
        run_pieces(kernel, reads, pieces);
        return Ok(());
    }
    let mut shares = Vec::new();
    while !pieces.is_empty() {
        let tail = pieces.split_off(share.min(pieces.len()));
        shares.push(std::mem::replace(&mut pieces, tail));
    }
    let (others, shares, panicked) = (shares.len() - 1, Mutex::new(shares), Mutex::new(None));
    let work = || {
        let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(mine) = next() {
            // An uncaught panic would end the scope, and its message would be lost.
            if let Err(words) = caught(|| run_pieces(kernel, reads, mine)) {
                let mut first = panicked.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(words);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..others {
            // If the system starts no more threads, the other threads do the work.
            drop(Builder::new().spawn_scoped(scope, work));
        }
        work();
    });
    panicked.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn run_pieces<'a>(
    kernel: &'a KernelWork,
    reads: &'a [(usize, &'a [u8])],
    pieces: Vec<TilePiece<'a>>,
) {
    for (first, writes) in pieces {
        let mut tile = Tile { args: &kernel.args, config: kernel.config, first, reads, writes };
        (kernel.twin.run)(&mut tile);
    }
}
