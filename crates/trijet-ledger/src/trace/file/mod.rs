//! The ledger file: a trace, with a description of the run and the source of its times.
//!
//! ```text
//! file  := "TRIJETL6" block*                    the last block is End
//! block := kind:u8 length:u32 crc:u32 payload   little-endian; crc is CRC-32 of magic and payload
//! ```
//! Payloads are `postcard` (variable-length integers). One `About` block comes first. A `Texts`
//! block has new names, which are numbered from 0 over the whole file. An `Ops` block has
//! operations. The times of an operation are differences from the times of the previous operation.
//! The `End` block has the totals of the file, so a reader notices that a file was cut. A reader
//! reads one block at a time, and refuses a block that is larger than a writer makes. The reader
//! checks a length before it allocates memory of this length. An error names the position of the
//! wrong byte.
//!
//! A reader accepts all versions, because the kinds of operations keep their numbers:
//!
//! - version 1 has checksums of the payload alone;
//! - version 2 added signals;
//! - version 3 added to each access whether the program or the library orders it;
//! - version 4 added the number of hardware queues to the description;
//! - version 5 added the devices of a copy between devices;
//! - version 6 added the graph of a launch, and waits with a limit.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod kind_row;
mod reader;
mod row;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

use crate::base::times::TimeSource;
use serde::{Deserialize, Serialize};
use std::fmt;

const MAGIC: [u8; 8] = *b"TRIJETL6";
/// The last bytes of the magics of older versions. Each version has one magic, and the last byte of
/// the magic names the version.
const OLDER: [u8; 5] = *b"12345";
/// The first version in which an access states whether the program or the library orders it.
const SINCE_ORDERED: u8 = b'3';
/// The first version with the number of hardware queues.
const SINCE_QUEUES: u8 = b'4';
/// The first version in which a copy between devices names the devices.
const SINCE_ROUTES: u8 = b'5';
/// The first version in which the launch of a graph names the graph.
const SINCE_GRAPHS: u8 = b'6';

/// The checksum of a magic and a payload. In version 1, the checksum covers the payload only. In
/// later versions it also covers the magic, so a damaged version byte is found.
fn checksum(magic: [u8; 8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    if magic[7] != OLDER[0] {
        crc.update(&magic);
    }
    crc.update(payload);
    crc.finalize()
}

/// Maximum number of operations per block.
const OPS_MAX: usize = 4096;
/// Maximum size of a payload in bytes. The writer starts a new block of operations before a payload
/// gets larger.
const PAYLOAD_MAX: usize = 8 << 20;
/// Maximum total size of the names in a file, in bytes.
const TEXTS_MAX: usize = 64 << 20;

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    About = 1,
    Texts = 2,
    Ops = 3,
    End = 4,
}

impl BlockKind {
    fn of(byte: u8) -> Option<Self> {
        [Self::About, Self::Texts, Self::Ops, Self::End].into_iter().find(|k| *k as u8 == byte)
    }
}

/// A device of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutDevice {
    /// The number of the device in the trace.
    pub device: u32,
    /// The name of the device.
    pub name: String,
    /// The version of the driver as CUDA reports it, for example 13000.
    pub driver: i32,
}

/// The description of the run that a ledger file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The name and the version of the program that wrote the file.
    pub tool: String,
    /// A description of the program that ran.
    pub program: String,
    /// The source of the times.
    pub times: TimeSource,
    /// The largest error between the clocks of the host and of the device, in nanoseconds.
    pub clock_error_ns: u64,
    /// The number of operations of the run that the file leaves out.
    pub dropped: u64,
    /// The order of a simulated run. A simulated run with this order repeats the run.
    pub order: Option<String>,
    /// The devices of the run.
    pub devices: Vec<AboutDevice>,
    /// The number of hardware queues to which the driver assigned the streams, if it is known.
    pub hardware_queues: Option<u32>,
}

/// A description before version 4, without the number of hardware queues.
#[derive(Deserialize)]
struct OldAbout {
    tool: String,
    program: String,
    times: TimeSource,
    clock_error_ns: u64,
    dropped: u64,
    order: Option<String>,
    devices: Vec<AboutDevice>,
}

impl From<OldAbout> for About {
    fn from(old: OldAbout) -> Self {
        let OldAbout { tool, program, times, clock_error_ns, dropped, order, devices } = old;
        let hardware_queues = None;
        Self { tool, program, times, clock_error_ns, dropped, order, devices, hardware_queues }
    }
}

/// The totals in the last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct FileEnd {
    ops: u64,
    texts: u64,
}

impl fmt::Display for FileEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations and {} names", self.ops, self.texts)
    }
}

#[cfg(test)]
mod tests;
