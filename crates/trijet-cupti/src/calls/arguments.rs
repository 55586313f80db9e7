//! The arguments of a call, as CUPTI passes them: a structure with a field for each argument.

use super::functions::{Argument, LaunchForm};
use crate::call_file::WORDS_MAX;
use std::ffi::{CStr, c_char, c_void};

/// The fields of `CUpti_CallbackData` that are read, by their offsets in bytes. The offsets are
/// equal in all versions of the header from CUDA 11 to 13.5.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallbackData(*const c_void);

impl CallbackData {
    /// # Safety
    /// `data` is the structure that CUPTI passes to a callback of the domain of the driver.
    pub(super) unsafe fn new(data: *const c_void) -> Self {
        Self(data)
    }

    fn field<T: Copy>(self, at: usize) -> T {
        let field = self.0.wrapping_byte_add(at).cast::<T>();
        // SAFETY: CUPTI's structure has 72 bytes or more, and each field below has this type and
        // offset. False for a callback of another domain, which `new` excludes.
        unsafe { field.read() }
    }

    /// Whether the call begins. If not, it has returned.
    pub(super) fn is_start(self) -> bool {
        self.field::<u32>(0) == 0
    }

    pub(super) fn arguments(self) -> Arguments {
        Arguments(self.field(16))
    }

    /// The code that the call has returned.
    pub(super) fn code(self) -> u32 {
        let code: *const u32 = self.field(24);
        if code.is_null() {
            return 0;
        }
        // SAFETY: after the call, CUPTI passes the address of its result, a `CUresult`.
        unsafe { code.read() }
    }

    /// The name of the function.
    pub(super) fn function(self) -> Option<&'static CStr> {
        let name: *const c_char = self.field(8);
        // SAFETY: the name is a terminated, static string of the library, or null. False after the
        // library is unloaded, which never happens.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
    }

    /// The handle of the current context. Null if there is none.
    pub(super) fn context(self) -> *mut c_void {
        self.field(40)
    }

    /// The number of the current context.
    pub(super) fn context_number(self) -> u32 {
        self.field(48)
    }
}

/// The arguments of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments(*const u8);

impl Arguments {
    /// The bytes at an offset, as a number.
    fn number(self, at: usize, bytes: usize) -> u64 {
        let mut number = [0; 8];
        let field = self.0.wrapping_add(at);
        // SAFETY: CUPTI's structure has a field of these bytes at this offset, by the types of the
        // function. False if the driver changes the arguments of a function without a new name.
        unsafe { field.copy_to_nonoverlapping(number.as_mut_ptr(), bytes) };
        u64::from_le_bytes(number)
    }

    /// Each argument with its number.
    fn numbers(self, types: &[Argument]) -> impl Iterator<Item = (&Argument, u64)> {
        types.iter().scan(0_usize, move |end, one| {
            let at = end.next_multiple_of(one.bytes());
            *end = at + one.bytes();
            Some((one, self.number(at, one.bytes())))
        })
    }

    /// Appends a word for each argument, and the words of structures; after them, the words of
    /// lists, one list after another, if the call has room for all of them. `has_succeeded` states
    /// whether the call has succeeded, so that its results, structures and lists can be read.
    pub(super) fn words(self, types: &[Argument], has_succeeded: bool, out: &mut Vec<u64>) {
        for (one, number) in self.numbers(types) {
            match *one {
                Argument::Word
                | Argument::Int
                | Argument::Short
                | Argument::Byte
                | Argument::List(_) => out.push(number),
                Argument::Out if has_succeeded => out.extend(words_at(number, 1)),
                Argument::Struct(bytes) if has_succeeded => {
                    out.extend(words_at(number, bytes / 8));
                }
                Argument::Out | Argument::Struct(_) => out.push(0),
            }
        }
        if has_succeeded {
            let mut lists = Vec::new();
            for (one, address) in self.numbers(types) {
                let Argument::List(count) = *one else { continue };
                let count = self.numbers(types).nth(count).map_or(0, |(_, count)| count);
                let room = WORDS_MAX.saturating_sub(out.len() + lists.len());
                let Some(count) = usize::try_from(count).ok().filter(|count| *count <= room) else {
                    return;
                };
                lists.extend(words_at(address, count));
            }
            out.extend(lists);
        }
    }

    /// The copies of a batch whose stream is the argument `stream`: the words of calls with at most
    /// [`WORDS_MAX`] words. Each has the stream, the number of its copies, and of each copy the
    /// target, the source and the bytes.
    pub(super) fn batch(self, stream: usize) -> Vec<Vec<u64>> {
        const COPIES_MAX: usize = (WORDS_MAX - 2) / 3;
        let word = |at: usize| self.number(8 * at, 8);
        let count = usize::try_from(word(3)).unwrap_or(0);
        let mut copies = words_at(word(0), count).zip(words_at(word(1), count));
        let mut sizes = words_at(word(2), count);
        let mut calls = Vec::new();
        for first in (0..count).step_by(COPIES_MAX) {
            let copies_of_call = COPIES_MAX.min(count - first);
            let mut words = vec![word(stream), copies_of_call as u64];
            let of_call = copies.by_ref().zip(sizes.by_ref()).take(copies_of_call);
            words.extend(of_call.flat_map(|((to, from), bytes)| [to, from, bytes]));
            calls.push(words);
        }
        calls
    }

    /// The first byte and the number of bytes of the tensor of a tensor map.
    pub(super) fn tensor(self) -> [u64; 2] {
        /// The size of an element by its type. Later types have less than a byte for an element.
        const BYTES: [u64; 13] = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4];
        const RANK_MAX: usize = 5;
        let [kind, rank] = [8, 12].map(|at| usize::try_from(self.number(at, 4)).unwrap_or(0));
        let [first, sizes, strides] = [16, 24, 32].map(|at| self.number(at, 8));
        let rank = rank.min(RANK_MAX);
        let mut sizes = words_at(sizes, rank);
        let row = sizes.next().unwrap_or(1).saturating_mul(*BYTES.get(kind).unwrap_or(&1));
        let steps = sizes.zip(words_at(strides, rank.saturating_sub(1)));
        let bytes = steps.fold(row, |bytes, (size, stride)| {
            bytes.saturating_add(size.saturating_sub(1).saturating_mul(stride))
        });
        [first, bytes]
    }

    /// The kernel, the stream and the arguments of a launch.
    pub(super) fn launch(self, form: LaunchForm) -> LaunchArguments {
        let word = |at| self.number(at, 8);
        match form {
            LaunchForm::Plain => LaunchArguments {
                kernel: word(0),
                stream: word(40),
                arguments: word(48),
                extra: word(56),
            },
            LaunchForm::Cooperative => {
                LaunchArguments { kernel: word(0), stream: word(40), arguments: word(48), extra: 0 }
            }
            // The stream is the word at 32 of the configuration. Seven numbers of 4 bytes and four
            // bytes of padding are before it.
            LaunchForm::Configured => LaunchArguments {
                kernel: word(8),
                stream: words_at(word(0), 5).nth(4).unwrap_or(0),
                arguments: word(16),
                extra: word(24),
            },
        }
    }
}

/// The pointer to an address of the program.
pub(super) fn pointer<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(usize::try_from(address).unwrap_or(0))
}

/// The first `count` words at an address that the program passed. A null pointer has zeros.
fn words_at(address: u64, count: usize) -> impl Iterator<Item = u64> {
    let from = pointer::<u64>(address);
    (0..count).map(move |at| {
        if from.is_null() {
            return 0;
        }
        let word = from.wrapping_add(at);
        // SAFETY: the driver reads or writes a structure of at least these bytes at this address,
        // and the call has not returned to the program. False for an address that the driver
        // refuses. Therefore results are read only after success; a structure that is no memory
        // also ends the program in the driver.
        unsafe { word.read_unaligned() }
    })
}

/// The arguments of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchArguments {
    pub(super) kernel: u64,
    pub(super) stream: u64,
    arguments: u64,
    extra: u64,
}

/// The numbers below are no addresses: the first pages of an address space are never mapped.
const ADDRESS_MIN: u64 = 1 << 16;
/// Addresses of the GPU and of the host are smaller.
const ADDRESS_END: u64 = 1 << 57;

impl LaunchArguments {
    /// Appends the words of the kernel's arguments that may be addresses. `layout` has the offset
    /// and the size of each argument in bytes.
    pub(super) fn addresses(&self, layout: &[(usize, usize)], out: &mut Vec<u64>) {
        let is_address = |word: &u64| (ADDRESS_MIN..ADDRESS_END).contains(word);
        if self.arguments != 0 {
            for (address, (offset, bytes)) in words_at(self.arguments, layout.len()).zip(layout) {
                // An argument of the kernel is aligned as in a structure, so its words are at
                // multiples of 8 of its offset.
                let skipped = offset.next_multiple_of(8) - offset;
                let count = bytes.saturating_sub(skipped) / 8;
                let room = WORDS_MAX.saturating_sub(out.len());
                let words = words_at(address.wrapping_add(skipped as u64), count);
                out.extend(words.filter(is_address).take(room));
            }
        } else if let Some((buffer, bytes)) = self.packed() {
            out.extend(words_at(buffer, bytes / 8).filter(is_address).take(WORDS_MAX));
        }
    }

    /// The address and the length of arguments that were passed as one buffer: the options 1 and 2
    /// of `extra`, whose end is 0.
    fn packed(&self) -> Option<(u64, usize)> {
        const OPTIONS_MAX: usize = 8;
        let (mut buffer, mut bytes) = (None, None);
        for option in 0..OPTIONS_MAX {
            let mut pair = words_at(self.extra.wrapping_add(16 * option as u64), 2);
            match (self.extra, pair.next()?, pair.next()?) {
                (0, ..) | (_, 0, _) => break,
                (_, 1, value) => buffer = Some(value),
                (_, 2, value) => bytes = words_at(value, 1).next(),
                _ => {}
            }
        }
        Some((buffer?, usize::try_from(bytes?).ok()?.min(8 * WORDS_MAX)))
    }
}
