//! The call file of a process: little-endian blocks, each with a tag, a length and a payload.
//!
//! The reader trusts no length: a block has at most 64 KiB, and a text is cut off by the writer.
//! If the process was killed, the file has no end, and its last block may be cut. The files of
//! several processes may be joined, each without the block that is cut.

use std::fmt;
use std::ops::{ControlFlow, Range};
use trijet_cupti::call_file::{
    ACCESS, CALL, COMMAND, CONTEXT, CallLaunches, END, FUNCTION, HEAD_BYTES, HEADER, KERNEL,
    LAUNCH, LAUNCHES, MAGIC, NO_STACK, PER_THREAD, STACK, TIME, TOUCHED, TROUBLE, Touch, VERSION,
};
use trijet_cupti::file::HEAD_BYTES as BLOCK_HEAD_BYTES;

/// A file that is no call file, or contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The byte of the file at which the contradiction begins.
    pub at: usize,
    /// The contradiction.
    pub cause: &'static str,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at, self.cause)
    }
}

impl std::error::Error for FileError {}

/// A call of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The number of the function.
    pub function: u16,
    /// Whether the default stream of the call is the one of the thread.
    pub per_thread: bool,
    /// The code that the call returned.
    pub code: u32,
    /// The number of the host thread.
    pub thread: u32,
    /// The number of the current context.
    pub context: u32,
    /// The number of the stack of calls, if it was recorded.
    pub stack: Option<u32>,
    words: &'a [u8],
}

impl Call<'_> {
    /// The word of an argument; 0 if the call has fewer.
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        let bytes = self.words.get(8 * at..8 * at + 8);
        bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    }

    /// The words of all arguments.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.count()).map(|at| self.word(at))
    }

    /// The number of words of all arguments.
    pub(crate) fn count(&self) -> usize {
        self.words.len() / 8
    }
}

/// A block of a call file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The name of a function.
    Function {
        /// The number of the function.
        number: u16,
        /// The name, as the driver exports it.
        name: &'a [u8],
    },
    /// A context.
    Context {
        /// The number of the context.
        number: u32,
        /// The number of its device.
        device: u32,
    },
    /// A kernel.
    Kernel {
        /// The number of the kernel.
        number: u32,
        /// The name, as the compiler wrote it.
        name: &'a [u8],
    },
    /// A stack of calls.
    Stack {
        /// The number of the stack.
        number: u32,
        /// A line for each frame.
        lines: &'a [u8],
    },
    /// A call.
    Call(Call<'a>),
    /// A launch of a kernel. The words are the addresses among the kernel's arguments.
    Launch {
        /// The call.
        call: Call<'a>,
        /// The number of the kernel.
        kernel: u32,
        /// The handle of the stream.
        stream: u64,
    },
    /// An access of the host to page-locked memory that a copy may still use.
    Access {
        /// The address.
        address: u64,
        /// Whether the host writes.
        is_write: bool,
        /// The number of the stack of calls, if it was recorded.
        stack: Option<u32>,
    },
    /// The launches of kernels by the next call.
    Launches(CallLaunches),
    /// Accesses of one launch of a call.
    Touched {
        /// The number of the call in [`CallLaunches`].
        call: u64,
        /// The kind of the accesses, or the end of the launch.
        what: Touch,
        /// The ranges.
        ranges: TouchedRanges<'a>,
    },
    /// The time of the next call, launch or access.
    Time {
        /// The start of the call, in nanoseconds from the start of the recorder.
        begun: u64,
        /// Its return.
        returned: u64,
    },
    /// The command line of the process.
    Command(&'a [u8]),
    /// The reason why something was not recorded.
    Trouble(&'a [u8]),
    /// The end.
    End {
        /// The number of calls that were lost.
        lost: u64,
    },
}

/// Ranges of bytes in a call file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TouchedRanges<'a>(&'a [u8]);

impl TouchedRanges<'_> {
    /// The ranges. None of them is empty.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let word = |bytes: &[u8], at| u64::from_le_bytes(number(bytes, at));
        { self.0.chunks_exact(16) }
            .map(move |pair| word(pair, 0)..word(pair, 8))
            .filter(|range| !range.is_empty())
    }
}

/// The bytes of a call file.
#[derive(Debug, Clone, Copy)]
pub struct CallFile<'a> {
    bytes: &'a [u8],
    /// The number of the process.
    pub process: u32,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length was checked")
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

impl<'a> CallFile<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The bytes are no call file, or one of another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, FileError> {
        let wrong = |cause| FileError { at: 0, cause };
        let Block { tag, payload, rest } = block(bytes).ok_or(wrong("the file has no header"))?;
        if (tag, payload.len()) != HEADER || payload[..8] != MAGIC {
            return Err(wrong("the file does not begin as a call file"));
        }
        // Later versions only have further kinds of blocks.
        if !(1..=VERSION).contains(&word(payload, 8)) {
            return Err(wrong("the file has another version"));
        }
        Ok(Self { bytes: rest, process: word(payload, 12) })
    }

    /// Calls `each` with every block, up to a block that is cut, or to the header of the next
    /// process. Returns the bytes from that header on.
    ///
    /// # Errors
    /// A block contradicts its length or its tag.
    pub fn entries(&self, mut each: impl FnMut(Entry<'a>)) -> Result<&'a [u8], FileError> {
        let mut rest = self.bytes;
        while let Some(Block { tag, payload, rest: after }) = block(rest) {
            if tag == HEADER.0 {
                return Ok(rest);
            }
            let at = self.bytes.len() - rest.len() + BLOCK_HEAD_BYTES + HEADER.1;
            each(entry(tag, payload).map_err(|cause| FileError { at, cause })?);
            rest = after;
        }
        Ok(&[])
    }
}

/// Calls `each` with the whole blocks at the start of `bytes`, which follow the header of a
/// process, up to the first one for which it breaks. Returns the number of the bytes before.
pub(crate) fn whole_blocks(
    bytes: &[u8],
    mut each: impl FnMut(&Entry<'_>) -> ControlFlow<()>,
) -> Result<usize, FileError> {
    let mut rest = bytes;
    while let Some(Block { tag, payload, rest: after }) = block(rest) {
        let at = bytes.len() - rest.len();
        if each(&entry(tag, payload).map_err(|cause| FileError { at, cause })?).is_break() {
            break;
        }
        rest = after;
    }
    Ok(bytes.len() - rest.len())
}

/// A block, and the bytes after it.
struct Block<'a> {
    tag: u8,
    payload: &'a [u8],
    rest: &'a [u8],
}

/// The first block. `None` if it is cut.
fn block(bytes: &[u8]) -> Option<Block<'_>> {
    let head = bytes.get(..BLOCK_HEAD_BYTES)?;
    let length = usize::from(u16::from_le_bytes(number(head, 2)));
    let payload = bytes.get(BLOCK_HEAD_BYTES..BLOCK_HEAD_BYTES + length)?;
    Some(Block { tag: head[0], payload, rest: &bytes[BLOCK_HEAD_BYTES + length..] })
}

fn entry(tag: u8, payload: &[u8]) -> Result<Entry<'_>, &'static str> {
    let of_length = |least: usize| {
        if payload.len() < least { Err("a block is shorter than its kind allows") } else { Ok(()) }
    };
    Ok(match tag {
        FUNCTION => {
            of_length(2)?;
            let number = u16::from_le_bytes(number(payload, 0));
            Entry::Function { number, name: &payload[2..] }
        }
        tag if tag == CONTEXT.0 => {
            of_length(CONTEXT.1)?;
            Entry::Context { number: word(payload, 0), device: word(payload, 4) }
        }
        KERNEL => {
            of_length(4)?;
            Entry::Kernel { number: word(payload, 0), name: &payload[4..] }
        }
        STACK => {
            of_length(4)?;
            Entry::Stack { number: word(payload, 0), lines: &payload[4..] }
        }
        CALL => {
            of_length(HEAD_BYTES)?;
            Entry::Call(call(payload, HEAD_BYTES))
        }
        LAUNCH => {
            of_length(HEAD_BYTES + 12)?;
            Entry::Launch {
                call: call(payload, HEAD_BYTES + 12),
                kernel: word(payload, HEAD_BYTES),
                stream: u64::from_le_bytes(number(payload, HEAD_BYTES + 4)),
            }
        }
        tag if tag == ACCESS.0 => {
            of_length(ACCESS.1)?;
            let stack = word(payload, 12);
            Entry::Access {
                address: u64::from_le_bytes(number(payload, 0)),
                is_write: word(payload, 8) != 0,
                stack: (stack != NO_STACK).then_some(stack),
            }
        }
        tag if tag == LAUNCHES.0 || tag == TOUCHED => return of_kernels(tag, payload),
        tag if tag == TIME.0 => {
            of_length(TIME.1)?;
            let time = |at| u64::from_le_bytes(number(payload, at));
            Entry::Time { begun: time(0), returned: time(8) }
        }
        COMMAND => Entry::Command(payload),
        TROUBLE => Entry::Trouble(payload),
        tag if tag == END.0 => {
            of_length(END.1)?;
            Entry::End { lost: u64::from_le_bytes(number(payload, 8)) }
        }
        _ => return Err("a block has an unknown tag"),
    })
}

/// A block about the accesses of kernels.
fn of_kernels(tag: u8, payload: &[u8]) -> Result<Entry<'_>, &'static str> {
    let least = if tag == TOUCHED { 12 } else { LAUNCHES.1 };
    if payload.len() < least {
        return Err("a block is shorter than its kind allows");
    }
    let call = u64::from_le_bytes(number(payload, 0));
    if tag == TOUCHED {
        let what = Touch::ALL.get(word(payload, 8) as usize);
        let what = *what.ok_or("accesses of a launch have an unknown kind")?;
        return Ok(Entry::Touched { call, what, ranges: TouchedRanges(&payload[12..]) });
    }
    let (told, missed) = (word(payload, 8), word(payload, 12));
    Ok(Entry::Launches(CallLaunches { call, told, missed }))
}

fn call(payload: &[u8], words: usize) -> Call<'_> {
    let half = |at| u16::from_le_bytes(number(payload, at));
    let stack = word(payload, 16);
    Call {
        function: half(0),
        per_thread: half(2) & PER_THREAD != 0,
        code: word(payload, 4),
        thread: word(payload, 8),
        context: word(payload, 12),
        stack: (stack != NO_STACK).then_some(stack),
        words: &payload[words..],
    }
}
