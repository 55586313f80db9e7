//! The constants of the trace file of processes: its first bytes, its tags, and its limits.
#![forbid(unsafe_code)]

/// The first bytes of the payload of a header.
pub(super) const MAGIC: [u8; 8] = *b"TRJTRACE";
/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The most bytes of a name; a longer one, as templates make them, is cut.
pub const NAME_BYTES_MAX: usize = 4096;
/// The most names of a process: the tracing library adds no more, and the reader refuses more.
pub const NAMES_MAX: usize = 1 << 20;
/// The most activities in a file that the reader accepts: about 2 GiB of memory.
pub(super) const ACTIVITIES_MAX: u64 = 1 << 25;
/// The most contexts, streams, troubles, and traces, each, that the reader accepts.
pub(super) const OTHERS_MAX: usize = 1 << 16;

/// The tags of blocks, with the lengths of their payloads where these are fixed.
pub(super) const HEADER: (u8, usize) = (1, 32);
pub(super) const NAME: u8 = 2;
pub(super) const CONTEXT: (u8, usize) = (3, 12);
pub(super) const STREAM: (u8, usize) = (4, 12);
pub(super) const ACTIVITY: (u8, usize) = (5, 56);
pub(super) const TROUBLE: u8 = 6;
pub(super) const END: (u8, usize) = (7, 48);

/// The number that stands for no name.
pub(super) const NO_NAME: u32 = u32::MAX;
