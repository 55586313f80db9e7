//! The stacks of calls, as files number them.

use crate::file::Call;

/// The stack of calls of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallStack {
    pub(crate) number: u32,
    /// Whether it is the stack of the first launch of the kernel, and not of this entry.
    pub(crate) is_of_first_launch: bool,
}

impl CallStack {
    /// The stack of a call.
    pub(crate) fn of(call: &Call<'_>) -> Option<Self> {
        call.stack.map(Self::of_entry)
    }

    /// The stack of an entry, by its number.
    pub(crate) fn of_entry(number: u32) -> Self {
        Self { number, is_of_first_launch: false }
    }
}
