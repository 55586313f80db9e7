//! The arguments of a launch as they are collected: the words that the kernel gets, and the uses of
//! memory that order it.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::device::args::{ArgBlock, SPANS_MAX};
use crate::memory::{Element, View, ViewMut};
use crate::order::track::Use;
use arrayvec::ArrayVec;
use bytemuck::NoUninit;

/// The arguments of one launch. A kernel with typed parameters takes a tuple of values instead; a
/// kernel with [`Dynamic`](super::Dynamic) parameters takes this.
///
/// `read`, `write` and `read_write` pass a pointer and a 64-bit length in elements, as the kernels of
/// this library take them. The methods ending in `_ptr` pass the pointer alone, for kernels that get
/// their lengths in another way.
#[derive(Debug, Default)]
pub struct Args<'a> {
    pub(super) block: ArgBlock,
    pub(super) uses: ArrayVec<Use<'a>, SPANS_MAX>,
}

/// The words that a span becomes.
#[derive(Clone, Copy)]
pub(super) enum Passed {
    PointerAndLength,
    Pointer,
}

impl<'a> Args<'a> {
    /// No arguments yet.
    #[must_use]
    #[inline(always)]
    pub fn new() -> Self {
        Self::default()
    }

    /// A scalar, or a structure that the kernel takes by value.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn scalar<T: NoUninit>(mut self, value: T) -> Result<Self> {
        self.block.push_scalar(value)?;
        Ok(self)
    }

    /// Elements that the kernel reads: a pointer and a length.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn read<T: Element>(mut self, view: View<'a, T>) -> Result<Self> {
        self.push_view(view, Passed::PointerAndLength)?;
        Ok(self)
    }

    /// Elements that the kernel writes: a pointer and a length.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn write<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::Write, Passed::PointerAndLength)?;
        Ok(self)
    }

    /// Elements that the kernel reads and writes: a pointer and a length.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn read_write<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::ReadWrite, Passed::PointerAndLength)?;
        Ok(self)
    }

    /// Elements that the kernel reads: a pointer alone.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn read_ptr<T: Element>(mut self, view: View<'a, T>) -> Result<Self> {
        self.push_view(view, Passed::Pointer)?;
        Ok(self)
    }

    /// Elements that the kernel writes: a pointer alone.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn write_ptr<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::Write, Passed::Pointer)?;
        Ok(self)
    }

    /// Elements that the kernel reads and writes: a pointer alone.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn read_write_ptr<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::ReadWrite, Passed::Pointer)?;
        Ok(self)
    }

    #[inline(always)]
    pub(super) fn push_view<T: Element>(
        &mut self,
        view: View<'a, T>,
        passed: Passed,
    ) -> Result<()> {
        let (elements, bytes) = (view.len() as u64, size_of::<T>() as u64);
        match passed {
            Passed::PointerAndLength => {
                self.block.push_span(view.span(), Mode::Read, elements, bytes)?;
            }
            Passed::Pointer => self.block.push_pointer(view.span(), Mode::Read, elements, bytes)?,
        }
        self.uses.push(view.read_use());
        Ok(())
    }

    #[inline(always)]
    pub(super) fn push_view_mut<T: Element>(
        &mut self,
        view: &ViewMut<'a, T>,
        mode: Mode,
        passed: Passed,
    ) -> Result<()> {
        let (elements, bytes) = (view.len() as u64, size_of::<T>() as u64);
        match passed {
            Passed::PointerAndLength => self.block.push_span(view.span(), mode, elements, bytes)?,
            Passed::Pointer => self.block.push_pointer(view.span(), mode, elements, bytes)?,
        }
        self.uses.push(view.write_use(mode));
        Ok(())
    }
}
