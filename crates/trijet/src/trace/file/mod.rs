//! A record in a file: what was run, where its times come from, and every operation.
//!
//! ```text
//! file  := "TRIJETL3" block*                    the last block is End
//! block := kind:u8 length:u32 crc:u32 payload   little-endian; crc is CRC-32 of magic and payload
//! ```
//! Payloads are `postcard` (variable-length integers). `About` comes first and once. `Texts` holds
//! new names, numbered from 0 over the file; `Ops` holds operations, whose times are differences to
//! the operation before; `End` counts what the file holds, so that a file that was cut is known to
//! be. A reader takes one block at a time, refuses one that is larger than a writer makes, and never
//! trusts a length for memory: damage is an error that says where.
//!
//! Version 2 has signals, version 3 says of each access who orders it. A reader takes all three: the
//! kinds of operation that an older version has keep their numbers. Checksums of version 1 are of the
//! payload alone.
#![forbid(unsafe_code)]

mod reader;
mod row;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

use crate::base::clocks::Clocks;
use serde::{Deserialize, Serialize};

const MAGIC: [u8; 8] = *b"TRIJETL3";
/// The last bytes of the magics of files that can be read too.
const OLDER: [u8; 2] = *b"12";
/// The checksum of a payload. With the magic in it, a version that was changed is found.
fn checksum(magic: [u8; 8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    if magic[7] != OLDER[0] {
        crc.update(&magic);
    }
    crc.update(payload);
    crc.finalize()
}

/// Operations of one block.
const OPS_MAX: usize = 4096;
/// The most bytes of a payload. A block of operations that would be longer is closed before.
const PAYLOAD_MAX: usize = 8 << 20;
/// The most bytes of all names of a file.
const TEXTS_MAX: usize = 64 << 20;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    About = 1,
    Texts = 2,
    Ops = 3,
    End = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::About, Self::Texts, Self::Ops, Self::End].into_iter().find(|k| *k as u8 == byte)
    }
}

/// Where the times of a record come from, and so how good they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TimeSource {
    /// Pairs of events of a device that is modelled: exact, and of nothing that exists.
    Model,
    /// Pairs of events on the processor's clock, around work on CPU threads.
    HostClock,
    /// Pairs of events: from when an operation could have begun to its end. Where several streams
    /// queue for one engine, the time in the queue counts.
    EventPairs,
    /// What the engines did, from begin to end: CUPTI's activity records on a GPU, and exact on a
    /// device that is modelled.
    Activity,
    /// There are none.
    #[default]
    Missing,
}

impl TimeSource {
    /// What the times mean.
    #[must_use]
    pub fn clocks(self) -> Clocks {
        match self {
            Self::Activity => Clocks::StartToEnd,
            Self::Model | Self::HostClock | Self::EventPairs | Self::Missing => Clocks::ReadyToEnd,
        }
    }
}

/// A device of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutDevice {
    /// Its number in the record.
    pub device: u32,
    /// Its name.
    pub name: String,
    /// The driver's version as CUDA gives it, for example 13000.
    pub driver: i32,
}

/// What a record is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// What wrote it, with its version.
    pub tool: String,
    /// What was run, for people.
    pub program: String,
    /// Where the times come from.
    pub times: TimeSource,
    /// By how much the host's times may be off those of the device, in nanoseconds.
    pub clock_error_ns: u64,
    /// Operations that were made and are not in the file.
    pub dropped: u64,
    /// The order that a simulated run can be repeated with.
    pub order: Option<String>,
    /// The devices.
    pub devices: Vec<AboutDevice>,
}

/// What the last block counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    ops: u64,
    texts: u64,
}

#[cfg(test)]
mod tests;
