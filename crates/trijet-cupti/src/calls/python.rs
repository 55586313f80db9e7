//! The frames of Python on the calling thread.
//!
//! A thread inside a call of the driver has often given up the lock of the interpreter, and waiting
//! for it could hang. So no function is called that needs the lock: the frames, which nothing
//! changes while their thread is in a call, are read from the memory of the interpreter. Their
//! layout is equal in all builds of a version of CPython that have a lock; other versions have no
//! frames here.

use super::arguments::pointer;
use crate::system::Library;
use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::OnceLock;

/// The number of frames that are recorded.
pub(super) const FRAMES: usize = 8;
/// Maximum number of bytes of the lines about the frames.
pub(super) const TEXT_BYTES: usize = 1024;
/// The owner of a frame between C and Python.
const OF_C: u8 = 3;
/// Maximum number of frames between C and Python that are skipped.
const SKIPPED_MAX: usize = 64;
/// Maximum number of characters of a name. Of a longer path, the end is kept.
const NAME_MAX: usize = 120;

/// A frame: its code, and the instruction that it executes. Zeros if there is none.
pub(super) type PythonFrame = [usize; 2];

/// The offsets of the fields in bytes.
#[derive(Debug)]
struct FrameLayout {
    /// The minor version of Python 3.
    version: c_long,
    /// From the state of a thread to its frame, with a pointer at each.
    frame: &'static [usize],
    code: usize,
    previous: usize,
    instruction: usize,
    /// Of the owner of a frame, which is [`OF_C`] between C and Python.
    owner: Option<usize>,
    first_line: usize,
    instructions: usize,
    /// The bytes before the characters of a text of ASCII, and of another text.
    text: [usize; 2],
}

const LAYOUTS: [FrameLayout; 3] = [
    FrameLayout {
        version: 11,
        frame: &[56, 8],
        code: 32,
        previous: 48,
        instruction: 56,
        owner: None,
        first_line: 72,
        instructions: 184,
        text: [48, 72],
    },
    FrameLayout {
        version: 12,
        frame: &[56, 0],
        code: 0,
        previous: 8,
        instruction: 56,
        owner: Some(70),
        first_line: 68,
        instructions: 192,
        text: [40, 56],
    },
    FrameLayout {
        version: 13,
        frame: &[72],
        code: 0,
        previous: 8,
        instruction: 56,
        owner: Some(70),
        first_line: 68,
        instructions: 200,
        text: [40, 56],
    },
];

/// The offsets that are equal in all versions: the type of an object, the length of a text and of
/// bytes, the bytes, and of code the file, the name with its class, and the table of lines.
const TYPE: usize = 8;
const LENGTH: usize = 16;
const BYTES: usize = 32;
const FILE: usize = 112;
const NAME: usize = 128;
const LINES: usize = 136;
/// The offset of the state of a text.
const STATE: usize = 32;

/// The interpreter of the process.
#[derive(Debug)]
pub(super) struct Interpreter {
    layout: &'static FrameLayout,
    thread: extern "C" fn() -> *const c_void,
    /// Whether the interpreter ends, which frees the states of its threads.
    is_ending: extern "C" fn() -> c_int,
    /// The address of the type of code.
    code: usize,
}

static FOUND: OnceLock<Option<Interpreter>> = OnceLock::new();

/// Looks up the interpreter.
pub(super) fn prepare() {
    FOUND.get_or_init(Interpreter::find);
}

/// The interpreter of the process, if it was found.
pub(super) fn interpreter() -> Option<&'static Interpreter> {
    FOUND.get()?.as_ref()
}

fn symbol(name: &CStr) -> Option<*const c_void> {
    let found = Library::all().symbol(name);
    (!found.is_null()).then_some(found)
}

/// A value in the memory of the interpreter.
fn read<T: Copy>(address: usize) -> T {
    // SAFETY: the address is in an object of the interpreter, which the frames of this thread keep
    // alive, and whose layout was chosen by the version. False for a build with other layouts, such
    // as one for debugging; the type of the first code is compared before anything else is read.
    unsafe { pointer::<T>(address as u64).read_unaligned() }
}

impl Interpreter {
    /// The interpreter, if the process has one whose layout is known.
    fn find() -> Option<Self> {
        let version: u32 = read(symbol(c"Py_Version")?.addr());
        let minor = c_long::from(version >> 16 & 0xff);
        let layout = LAYOUTS.iter().find(|one| one.version == minor && version >> 24 == 3)?;
        // In a build without a lock, the layouts differ.
        let is_free = |runtime: *const c_void| minor >= 13 && read::<u64>(runtime.addr() + 16) != 0;
        if symbol(c"_PyRuntime").is_none_or(is_free) {
            return None;
        }
        let thread = symbol(c"PyGILState_GetThisThreadState")?;
        // SAFETY: this is the signature of the function in all versions. It reads a variable of the
        // thread, and needs no lock.
        let thread = unsafe {
            std::mem::transmute::<*const c_void, extern "C" fn() -> *const c_void>(thread)
        };
        let is_ending = symbol(c"Py_IsFinalizing").or_else(|| symbol(c"_Py_IsFinalizing"))?;
        // SAFETY: this is the signature of both functions. They read a variable of the interpreter.
        let is_ending =
            unsafe { std::mem::transmute::<*const c_void, extern "C" fn() -> c_int>(is_ending) };
        Some(Self { layout, thread, is_ending, code: symbol(c"PyCode_Type")?.addr() })
    }

    /// The frames of the calling thread, the innermost first.
    pub(super) fn frames(&self) -> [PythonFrame; FRAMES] {
        let mut frames = [[0; 2]; FRAMES];
        let state = if (self.is_ending)() == 0 { (self.thread)().addr() } else { 0 };
        if state == 0 {
            return frames;
        }
        let mut at = self.layout.frame.iter().fold(state, |at, offset| match at {
            0 => 0,
            at => read(at + offset),
        });
        let mut count = 0;
        for _ in 0..FRAMES + SKIPPED_MAX {
            if at == 0 || count == FRAMES {
                break;
            }
            let code: usize = read(at + self.layout.code);
            let is_of_c = self.layout.owner.is_some_and(|owner| read::<u8>(at + owner) == OF_C);
            if !is_of_c && code != 0 && read::<usize>(code + TYPE) == self.code {
                frames[count] = [code, read(at + self.layout.instruction)];
                count += 1;
            }
            at = read(at + self.layout.previous);
        }
        frames
    }

    /// Writes a line for each frame, as for a frame of C: the function, and the file with the line.
    /// Returns the number of bytes. Allocates nothing.
    pub(super) fn lines(
        &self,
        frames: &[PythonFrame; FRAMES],
        out: &mut [u8; TEXT_BYTES],
    ) -> usize {
        let mut length = 0;
        for [code, instruction] in frames.iter().take_while(|[code, _]| *code != 0) {
            let mut line = LineBuffer { bytes: &mut out[..], length };
            let is_whole = self.text(read(code + NAME), &mut line)
                && line.push('\t')
                && self.text(read(code + FILE), &mut line)
                && line.push(':')
                && line.number(self.line(*code, *instruction))
                && line.push('\n');
            if !is_whole {
                break;
            }
            length = line.length;
        }
        length
    }

    /// Appends the end of a text.
    fn text(&self, text: usize, line: &mut LineBuffer<'_>) -> bool {
        let (length, state) = (read::<usize>(text + LENGTH), read::<u32>(text + STATE));
        let (width, is_ascii) = ((state >> 2 & 7) as usize, state & 64 != 0);
        let start = text + self.layout.text[usize::from(!is_ascii)];
        (length.saturating_sub(NAME_MAX)..length).all(|at| {
            let number = match width {
                1 => u32::from(read::<u8>(start + at)),
                2 => u32::from(read::<u16>(start + 2 * at)),
                _ => read::<u32>(start + 4 * at),
            };
            let is_kept = |one: &char| !one.is_control();
            line.push(char::from_u32(number).filter(is_kept).unwrap_or('?'))
        })
    }

    /// The line of an instruction, from the table of the code: a block for each range of
    /// instructions, as `Objects/locations.md` of CPython describes it.
    fn line(&self, code: usize, instruction: usize) -> c_long {
        let table: usize = read(code + LINES);
        let end = read::<usize>(table + LENGTH);
        let mut table = LineTable { start: table + BYTES, at: 0, end };
        let wanted = instruction.wrapping_sub(code + self.layout.instructions) / 2;
        let (mut line, mut from) = (c_long::from(read::<c_int>(code + self.layout.first_line)), 0);
        while table.at < table.end {
            let head = table.byte();
            line += match head >> 3 & 15 {
                0..=9 => table.skipped(1, 0),
                form @ 10..=12 => table.skipped(2, c_long::from(form) - 10),
                13 => table.signed(),
                14 => {
                    let change = table.signed();
                    for _ in 0..3 {
                        table.number();
                    }
                    change
                }
                _ => 0,
            };
            let count = usize::from(head & 7) + 1;
            if (from..from + count).contains(&wanted) {
                break;
            }
            from += count;
        }
        line
    }
}

/// The table of lines of a code.
struct LineTable {
    start: usize,
    at: usize,
    end: usize,
}

impl LineTable {
    /// The next byte; 0 after the end.
    fn byte(&mut self) -> u8 {
        let byte = if self.at < self.end { read(self.start + self.at) } else { 0 };
        self.at += 1;
        byte
    }

    fn skipped(&mut self, bytes: usize, change: c_long) -> c_long {
        self.at += bytes;
        change
    }

    /// A number of six bits in each byte, the lowest first.
    fn number(&mut self) -> u32 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
            shift += 6;
            if byte & 64 == 0 {
                return number;
            }
        }
    }

    /// A number whose lowest bit is the sign.
    fn signed(&mut self) -> c_long {
        let number = self.number();
        let size = c_long::from(number >> 1);
        if number & 1 == 0 { size } else { -size }
    }
}

/// A buffer for text.
struct LineBuffer<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl LineBuffer<'_> {
    /// Returns whether there was room.
    fn push(&mut self, one: char) -> bool {
        let Some(room) = self.bytes.get_mut(self.length..self.length + one.len_utf8()) else {
            return false;
        };
        self.length += one.encode_utf8(room).len();
        true
    }

    fn number(&mut self, number: c_long) -> bool {
        let mut digits = [0; 20];
        let (mut rest, mut count) = (number.unsigned_abs(), 0);
        while rest > 0 || count == 0 {
            digits[count] = b'0' + (rest % 10) as u8;
            (rest, count) = (rest / 10, count + 1);
        }
        digits[..count].iter().rev().all(|digit| self.push(char::from(*digit)))
    }
}
