//! Numbers of the format: what a record begins with, and how much a file may hold.
#![forbid(unsafe_code)]

/// The first bytes of a header's payload.
pub(super) const MAGIC: [u8; 8] = *b"TRJTRACE";
/// What a reader must know to read a file.
pub(super) const VERSION: u32 = 1;

/// Bytes of a name that are kept; templates make names of any length.
pub const NAME_BYTES_MAX: usize = 4096;
/// Names that one recording may have. The recorder stops naming there, the reader refuses more.
pub const NAMES_MAX: usize = 1 << 20;
/// Activities that a reader takes, of all recordings in a file: some 2 GiB of memory.
pub(super) const ACTIVITIES_MAX: u64 = 1 << 25;
/// Contexts, streams, troubles and recordings that a reader takes, each.
pub(super) const OTHERS_MAX: usize = 1 << 16;

/// Tags and the lengths of their payloads; a text has any length up to its limit.
pub(super) const HEADER: (u8, usize) = (1, 32);
pub(super) const NAME: u8 = 2;
pub(super) const CONTEXT: (u8, usize) = (3, 12);
pub(super) const STREAM: (u8, usize) = (4, 12);
pub(super) const ACTIVITY: (u8, usize) = (5, 56);
pub(super) const TROUBLE: u8 = 6;
pub(super) const END: (u8, usize) = (7, 48);

/// Stands for no name.
pub(super) const NO_NAME: u32 = u32::MAX;
