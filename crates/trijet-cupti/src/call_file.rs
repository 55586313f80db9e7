//! The call file of a process: the calls of the driver that the process made, for `trijet check`.
//! The functions below append one block each to a vector.
//!
//! A block consists of a tag, a zero byte, the length of its payload in two bytes, and the payload.
//! All numbers are little-endian. Only whole blocks are appended. If the process is killed while it
//! writes, or if the disk is full, the last block is incomplete, and the file has no [`END`].

use crate::file::{start, text};
use std::ops::Range;

pub use trijet_sanitizer::capture::CallLaunches;
pub use trijet_sanitizer::table::GRANULE;

/// The first bytes of the payload of a [`HEADER`].
pub const MAGIC: [u8; 8] = *b"TRJCALLS";
/// The version of the format.
pub const VERSION: u32 = 2;
/// The extension of the call file of a process.
pub const EXTENSION: &str = "calls";

/// The tag of the header, and the length of its payload in bytes: [`MAGIC`], [`VERSION`], and the
/// number of the process.
pub const HEADER: (u8, usize) = (1, 16);
/// The tag of a function of the driver. The payload is the number of the function in two bytes, and
/// its name.
pub const FUNCTION: u8 = 2;
/// The tag of a context, and the length of its payload: the number of the context, and the number
/// of its device.
pub const CONTEXT: (u8, usize) = (3, 8);
/// The tag of a kernel. The payload is the number of the kernel in four bytes, and its name.
pub const KERNEL: u8 = 4;
/// The tag of a call. The payload is a [`Head`], and a word for each argument.
pub const CALL: u8 = 5;
/// The tag of a launch of a kernel. Only the first launch of a kernel has a stack. The payload is a
/// [`Head`], the number of the kernel, the handle
/// of the stream, and the words of the kernel's arguments that may be addresses.
pub const LAUNCH: u8 = 6;
/// The tag of a stack of calls. The payload is the number of the stack in four bytes, and a line
/// for each frame, from the innermost one outwards.
pub const STACK: u8 = 7;
/// The tag of a reason why something was not recorded.
pub const TROUBLE: u8 = 8;
/// The tag of the end, and the length of its payload: the number of calls in the file, and the
/// number of calls that were lost.
pub const END: (u8, usize) = (9, 16);
/// The tag of the command line of the process.
pub const COMMAND: u8 = 10;
/// The tag of an access of the host to page-locked memory that a copy may still use, and the length
/// of its payload: the address, 1 for a write or 0 for a read, and the number of the stack.
pub const ACCESS: (u8, usize) = (11, 16);

/// The tag of the time of the next call, launch or access, and the length of its payload: the
/// nanoseconds from the start of the recorder to the start of the call and to its return.
pub const TIME: (u8, usize) = (12, 16);

/// The tag of the launches of kernels by the next call, and the length of its payload: the number
/// of the call in eight bytes, the number of launches whose accesses are [`TOUCHED`] blocks of the
/// file, and the number of launches whose accesses are not known.
pub const LAUNCHES: (u8, usize) = (13, 16);
/// The tag of accesses of a launch, in any later place of the file. The payload is the number of
/// the call in eight bytes, a [`Touch`] in four bytes, and two words for each range of bytes.
pub const TOUCHED: u8 = 14;

/// The meaning of a [`TOUCHED`] block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Granules of 256 bytes that the launch reads; at least a byte of each.
    Read = 0,
    /// The same for writes.
    Write = 1,
    /// Tensors that the launch reads: each range begins at the tensor, and has one byte.
    MapRead = 2,
    /// The same for writes.
    MapWrite = 3,
    /// The launch has no further blocks, and all of its accesses are known.
    End = 4,
    /// The launch has no further blocks, and accesses may be missing.
    Cut = 5,
}

impl Touch {
    /// All meanings, by their numbers.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::MapRead, Self::MapWrite, Self::End, Self::Cut];
}

/// Maximum number of ranges of a [`TOUCHED`] block.
pub const RANGES_MAX: usize = 4000;

/// The number of bytes of a [`Head`].
pub const HEAD_BYTES: usize = 20;
/// The bit of [`Head::flags`] for a function whose default stream is the one of the thread.
pub const PER_THREAD: u16 = 1;
/// `CUDA_ERROR_NOT_READY` as [`Head::code`]: a query found unfinished work.
pub const NOT_READY: u32 = 600;
/// The number of a stack that was not recorded.
pub const NO_STACK: u32 = u32::MAX;
/// Maximum number of words of a call or a launch.
pub const WORDS_MAX: usize = 512;

/// The start of a call or a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of the function.
    pub function: u16,
    /// [`PER_THREAD`], or 0.
    pub flags: u16,
    /// The code that the call returned. 0 for a call that is recorded when it begins.
    pub code: u32,
    /// The number of the host thread.
    pub thread: u32,
    /// The number of the current context.
    pub context: u32,
    /// The number of the stack of the call, or [`NO_STACK`].
    pub stack: u32,
}

/// Appends the header, which begins the file of a process.
pub fn header(out: &mut Vec<u8>, process: u32) {
    start(out, HEADER.0, HEADER.1);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend(process.to_le_bytes());
}

/// Appends the command line of the process.
pub fn command(out: &mut Vec<u8>, line: &str) {
    text(out, COMMAND, line);
}

/// Appends the reason why the process, or a part of it, was not recorded.
pub fn trouble(out: &mut Vec<u8>, words: &str) {
    text(out, TROUBLE, words);
}

/// Appends a text with a number before it.
fn numbered(out: &mut Vec<u8>, tag: u8, number: &[u8], words: &[u8]) {
    let words = &words[..words.len().min(crate::file::NAME_BYTES_MAX)];
    start(out, tag, number.len() + words.len());
    out.extend(number);
    out.extend(words);
}

/// Appends a function of the driver.
pub fn function(out: &mut Vec<u8>, number: u16, name: &[u8]) {
    numbered(out, FUNCTION, &number.to_le_bytes(), name);
}

/// Appends a kernel.
pub fn kernel(out: &mut Vec<u8>, number: u32, name: &[u8]) {
    numbered(out, KERNEL, &number.to_le_bytes(), name);
}

/// Appends a stack of calls.
pub fn stack(out: &mut Vec<u8>, number: u32, lines: &[u8]) {
    numbered(out, STACK, &number.to_le_bytes(), lines);
}

/// Appends a context.
pub fn context(out: &mut Vec<u8>, context: u32, device: u32) {
    start(out, CONTEXT.0, CONTEXT.1);
    out.extend(context.to_le_bytes());
    out.extend(device.to_le_bytes());
}

fn head(out: &mut Vec<u8>, one: &Head) {
    out.extend(one.function.to_le_bytes());
    out.extend(one.flags.to_le_bytes());
    for word in [one.code, one.thread, one.context, one.stack] {
        out.extend(word.to_le_bytes());
    }
}

/// Appends a call. Words after [`WORDS_MAX`] are left out.
pub fn call(out: &mut Vec<u8>, one: &Head, words: &[u64]) {
    let words = &words[..words.len().min(WORDS_MAX)];
    start(out, CALL, HEAD_BYTES + 8 * words.len());
    head(out, one);
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// Appends a launch of a kernel. Words after [`WORDS_MAX`] are left out.
pub fn launch(out: &mut Vec<u8>, one: &Head, kernel: u32, stream: u64, words: &[u64]) {
    let words = &words[..words.len().min(WORDS_MAX)];
    start(out, LAUNCH, HEAD_BYTES + 4 + 8 + 8 * words.len());
    head(out, one);
    out.extend(kernel.to_le_bytes());
    out.extend(stream.to_le_bytes());
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// Appends the time of the next call.
pub fn time(out: &mut Vec<u8>, begun: u64, returned: u64) {
    start(out, TIME.0, TIME.1);
    out.extend(begun.to_le_bytes());
    out.extend(returned.to_le_bytes());
}

/// Appends an access of the host.
pub fn access(out: &mut Vec<u8>, address: u64, is_write: bool, stack: u32) {
    start(out, ACCESS.0, ACCESS.1);
    out.extend(address.to_le_bytes());
    out.extend(u32::from(is_write).to_le_bytes());
    out.extend(stack.to_le_bytes());
}

/// Appends the launches of the next call.
pub fn launches(out: &mut Vec<u8>, of: CallLaunches) {
    start(out, LAUNCHES.0, LAUNCHES.1);
    out.extend(of.call.to_le_bytes());
    out.extend(of.told.to_le_bytes());
    out.extend(of.missed.to_le_bytes());
}

/// Appends accesses of a launch. Ranges after [`RANGES_MAX`] are left out.
pub fn touched(out: &mut Vec<u8>, call: u64, what: Touch, ranges: &[Range<u64>]) {
    let ranges = &ranges[..ranges.len().min(RANGES_MAX)];
    start(out, TOUCHED, 12 + 16 * ranges.len());
    out.extend(call.to_le_bytes());
    out.extend((what as u32).to_le_bytes());
    for range in ranges {
        out.extend(range.start.to_le_bytes());
        out.extend(range.end.to_le_bytes());
    }
}

/// Appends the end of the file.
pub fn end(out: &mut Vec<u8>, calls: u64, lost: u64) {
    start(out, END.0, END.1);
    out.extend(calls.to_le_bytes());
    out.extend(lost.to_le_bytes());
}
