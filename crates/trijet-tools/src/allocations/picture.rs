//! The address space of an allocator during a replay, for a picture. It consists of the
//! allocations, the memory that the allocator had from the device, and the refused allocations.
#![forbid(unsafe_code)]

use super::caching::Caching;
use super::format::{Action, Trace};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of points of a curve.
const POINTS_MAX: usize = 2000;

/// The address space of an allocator during a replay.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// The name of the allocator.
    pub name: String,
    /// Maximum number of bytes that the allocator may have from the device. `None` without a limit.
    pub limit: Option<u64>,
    /// The largest number of bytes that the allocator had from the device.
    pub held_peak: u64,
    /// The largest number of bytes that were allocated at the same time.
    pub live_peak: u64,
    /// The number of refused allocations.
    pub failed: u64,
    /// The number of calls of the driver for memory.
    pub driver_calls: u64,
    /// The number of times that the allocator made a stream wait.
    pub waits: u64,
    /// The ranges of memory that the allocator had from the device.
    pub ranges: Vec<HeldRange>,
    /// For each allocation: its address, its size in bytes, the index of the row that allocated it,
    /// the index of the row that freed it (-1 if no row did), its stream, and its number.
    pub blocks: Vec<(u64, u64, u64, i64, u16, u32)>,
    /// The refused allocations.
    pub failures: Vec<Refused>,
    /// The points of the curve. A point has the index of a row, the number of bytes that the
    /// allocator had from the device after this row, and the number of bytes that were allocated
    /// after this row.
    pub curve: Vec<(u64, u64, u64)>,
}

/// A range of memory that the allocator had from the device, from one row to a later row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HeldRange {
    /// The index of the row whose call got the memory from the device.
    pub from_row: u64,
    /// The index of the row whose call returned the memory to the device. `None` if the allocator
    /// had the memory until the end.
    pub to_row: Option<u64>,
    /// The address of the memory.
    pub start: u64,
    /// The size of the memory in bytes.
    pub bytes: u64,
}

/// A refused allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The index of the row that requested the allocation.
    pub row: u64,
    /// The requested size in bytes.
    pub wanted: u64,
    /// The number of free bytes that the allocator had at this row.
    pub free: u64,
    /// The size of the largest free piece in bytes, at this row.
    pub largest: u64,
}

/// A recorder of the address space during a replay.
#[derive(Debug)]
pub(super) struct Recorder {
    panel: Panel,
    /// The index of each live allocation in `panel.blocks`. The key is the number of the
    /// allocation.
    places: BTreeMap<u32, usize>,
    /// The index in `panel.ranges` of each range that the allocator has now. The key is the address
    /// and the size of the range.
    held: BTreeMap<(u64, u64), usize>,
    /// The index of the row that is being recorded.
    row: u64,
    held_bytes: u64,
    live_bytes: u64,
    /// The number of rows between two points of the curve.
    every: u64,
}

impl Recorder {
    pub(super) fn new(name: &str, limit: Option<u64>, rows: usize) -> Self {
        let panel = Panel {
            name: name.to_owned(),
            limit,
            held_peak: 0,
            live_peak: 0,
            failed: 0,
            driver_calls: 0,
            waits: 0,
            ranges: Vec::new(),
            blocks: Vec::new(),
            failures: Vec::new(),
            curve: Vec::new(),
        };
        let every = rows.div_ceil(POINTS_MAX).max(1) as u64;
        let (places, held) = (BTreeMap::new(), BTreeMap::new());
        Self { panel, places, held, row: 0, held_bytes: 0, live_bytes: 0, every }
    }

    /// Records the ranges that the allocator has from the device after the present row. Each range
    /// has its address and its size in bytes. Does nothing if the ranges are the same as before.
    pub(super) fn held(&mut self, ranges: Vec<(u64, u64)>) {
        if ranges.len() == self.held.len() && ranges.iter().all(|one| self.held.contains_key(one)) {
            return;
        }
        let row = self.row;
        let mut gone = std::mem::take(&mut self.held);
        for (start, bytes) in ranges {
            let place = gone.remove(&(start, bytes)).unwrap_or_else(|| {
                self.panel.ranges.push(HeldRange { from_row: row, to_row: None, start, bytes });
                self.panel.ranges.len() - 1
            });
            self.held.insert((start, bytes), place);
        }
        for place in gone.into_values() {
            self.panel.ranges[place].to_row = Some(row);
        }
        self.held_bytes = self.held.keys().map(|(_, bytes)| bytes).sum();
        self.panel.held_peak = self.panel.held_peak.max(self.held_bytes);
    }

    pub(super) fn allocated(&mut self, id: u32, (start, bytes): (u64, u64), stream: u16) {
        let row = self.row;
        self.places.insert(id, self.panel.blocks.len());
        self.panel.blocks.push((start, bytes, row, -1, stream, id));
        self.live_bytes += bytes;
        self.panel.live_peak = self.panel.live_peak.max(self.live_bytes);
    }

    pub(super) fn freed(&mut self, id: u32) {
        let Some(place) = self.places.remove(&id) else { return };
        let block = &mut self.panel.blocks[place];
        block.3 = i64::try_from(self.row).unwrap_or(i64::MAX);
        self.live_bytes -= block.1;
    }

    /// Records a refused allocation of `wanted` bytes. `free` is the number of free bytes, and
    /// `largest` is the size of the largest free piece in bytes.
    pub(super) fn refused(&mut self, wanted: u64, (free, largest): (u64, u64)) {
        self.panel.failed += 1;
        self.panel.failures.push(Refused { row: self.row, wanted, free, largest });
    }

    /// Ends the present row. Adds a point to the curve once in `every` rows.
    pub(super) fn end_row(&mut self) {
        if self.row.is_multiple_of(self.every) {
            self.panel.curve.push((self.row, self.held_bytes, self.live_bytes));
        }
        self.row += 1;
    }

    /// Ends the recording, and adds these figures to the panel.
    pub(super) fn finish(mut self, held_peak: u64, driver_calls: u64, waits: u64) -> Panel {
        self.panel.held_peak = held_peak;
        (self.panel.driver_calls, self.panel.waits) = (driver_calls, waits);
        self.panel
    }
}

/// Replays a trace over the model of a caching allocator, and returns the address space over time.
#[must_use]
pub fn of_caching(trace: &Trace, limit: Option<u64>) -> Panel {
    let mut caching = Caching::new(limit.unwrap_or(1 << 50));
    let name = "caching allocator (model)";
    let mut recorder = Recorder::new(name, limit, trace.rows.len());
    let mut addresses: Vec<Option<u64>> = vec![None; trace.allocations as usize];
    let mut calls = 0;
    for what in &trace.rows {
        match what.action {
            Action::Allocate { id, bytes, stream } => match caching.allocate(bytes, stream) {
                Some(address) => {
                    addresses[id as usize] = Some(address);
                    recorder.allocated(id, (address, bytes), stream);
                }
                None => {
                    recorder.refused(bytes, caching.free_bytes());
                }
            },
            Action::Free { id, .. } => {
                if let Some(address) = addresses[id as usize].take() {
                    caching.free_block(address);
                    recorder.freed(id);
                }
            }
            Action::Use { .. } | Action::Follow { .. } | Action::Synchronize { .. } => {}
        }
        if caching.calls() != calls {
            calls = caching.calls();
            recorder.held(caching.segments().collect());
        }
        recorder.end_row();
    }
    let held_peak = recorder.panel.held_peak;
    recorder.finish(held_peak, calls, 0)
}
