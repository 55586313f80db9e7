//! The ledger: one record per driver call that orders or touches something.
//!
//! Lanes append to it and nobody above them does; the timeline and the checker read it. It is the
//! log of the *driver calls*, not of what the ordering meant to do, so that an error in the
//! ordering cannot hide itself. A lane that nobody records pays one branch per operation.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId, Position};
use crate::base::units::Nanos;
use std::ops::Range;
use std::panic::Location;
use std::sync::Mutex;

/// The hardware queue that executes an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// Copies from host to device.
    Upload,
    /// Kernels, fills and copies within a device.
    Compute,
    /// Copies from device to host.
    Download,
    /// Copies between devices.
    Peer,
    /// Host functions.
    Host,
    /// Takes no engine: events, waits, allocations.
    None,
}

/// How an operation uses bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It only reads them.
    Read,
    /// It overwrites them, all or some.
    Write,
    /// It reads and writes them.
    ReadWrite,
}

impl Mode {
    /// Whether bytes may change.
    #[must_use]
    #[inline]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// One declared access of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The allocation, by generation; in a record that was taken, numbered by first appearance.
    pub block: BlockId,
    /// The bytes of it.
    pub range: Range<u64>,
    /// What is done with them.
    pub mode: Mode,
}

/// What a record is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpKind {
    /// A stream-ordered allocation.
    Alloc,
    /// A stream-ordered free.
    Free,
    /// A copy; the direction is the engine.
    Copy,
    /// A memory set.
    Fill,
    /// A kernel.
    Kernel,
    /// A host function.
    HostFn,
    /// An event recorded in the lane.
    Record {
        /// The driver's handle of the event.
        event: u64,
    },
    /// A wait for an event, enqueued in the lane.
    Wait {
        /// The driver's handle of the event.
        event: u64,
        /// The position whose completion the event stands for.
        on: Position,
    },
}

/// When an operation ran, on the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When everything before it in its lane, and every wait, was done.
    pub begin: Nanos,
    /// When it was done.
    pub end: Nanos,
}

/// One record.
#[derive(Debug, Clone)]
pub struct Op {
    /// What it is about.
    pub kind: OpKind,
    /// The engine that executes it.
    pub engine: Engine,
    /// The device of its lane.
    pub device: DeviceId,
    /// Its lane and number.
    pub position: Position,
    /// The declared accesses.
    pub accesses: Vec<Access>,
    /// A name for people, for example the kernel's.
    pub label: &'static str,
    /// The chunk of a pipeline it belongs to.
    pub chunk: Option<u64>,
    /// Where in the user's program it was enqueued.
    pub site: &'static Location<'static>,
    /// The enqueuing host thread; in a record that was taken, numbered by first appearance.
    pub thread: u64,
    /// What that thread knew to be complete when it enqueued, one position per lane.
    pub thread_known: Vec<Position>,
    /// When it ran, once known.
    pub times: Option<Times>,
}

/// Records, in the order of the driver's calls of each lane.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Vec<Op>>);

impl Ledger {
    /// Appends a record and returns its index.
    ///
    /// # Panics
    /// Never: no code panics under the ledger's lock.
    pub fn append(&self, op: Op) -> usize {
        let mut ops = self.0.lock().expect("no code panics under the ledger's lock");
        ops.push(op);
        ops.len() - 1
    }

    /// Takes all records out, leaving the ledger empty.
    ///
    /// # Panics
    /// Never: no code panics under the ledger's lock.
    #[must_use]
    pub fn take(&self) -> Vec<Op> {
        std::mem::take(&mut *self.0.lock().expect("no code panics under the ledger's lock"))
    }
}
