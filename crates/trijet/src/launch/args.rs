//! The arguments of a launch while they are collected: the words that the kernel gets, and the uses
//! of memory that order the launch.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::device::args::{ArgBlock, SPANS_MAX};
use crate::device::tiling::TiledElement;
use crate::memory::{Element, TiledView, TiledViewMut, View, ViewMut};
use crate::order::track::Use;
use arrayvec::ArrayVec;
use bytemuck::NoUninit;

/// The arguments of one launch of a kernel with [`Dynamic`](super::Dynamic) parameters. The
/// arguments of a kernel with typed parameters are a tuple of values instead.
///
/// `read`, `write` and `update` pass a pointer and a 64-bit length in elements, which the kernels
/// of this library expect. The methods with names in `_ptr` pass the pointer alone, for kernels
/// that get their lengths in another way.
#[derive(Debug, Default)]
pub struct Args<'a> {
    pub(super) block: ArgBlock,
    pub(super) uses: ArrayVec<Use<'a>, SPANS_MAX>,
}

/// The words that a span becomes in the arguments of a kernel.
#[derive(Clone, Copy)]
pub(super) enum Passed {
    PointerAndLength,
    Pointer,
}

impl<'a> Args<'a> {
    /// A list without arguments.
    #[must_use]
    #[inline(always)]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of the arguments, for another launch.
    pub(crate) fn again(&self) -> Args<'_> {
        let uses = self.uses.iter().map(|of| Use { range: of.range.clone(), ..*of });
        Args { block: self.block.clone(), uses: uses.collect() }
    }

    /// Appends a scalar, or a structure that the kernel takes by value.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn scalar<T: NoUninit>(mut self, value: T) -> Result<Self> {
        self.block.push_scalar(value)?;
        Ok(self)
    }

    /// Appends elements that the kernel reads: a pointer and a length.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn read<T: Element>(mut self, view: View<'a, T>) -> Result<Self> {
        self.push_view(view, Passed::PointerAndLength)?;
        Ok(self)
    }

    /// Appends elements that the kernel writes: a pointer and a length.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn write<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::Write, Passed::PointerAndLength)?;
        Ok(self)
    }

    /// Appends elements that the kernel reads and writes: a pointer and a length.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn update<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::Update, Passed::PointerAndLength)?;
        Ok(self)
    }

    /// Appends elements that the kernel reads: a pointer alone.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn read_ptr<T: Element>(mut self, view: View<'a, T>) -> Result<Self> {
        self.push_view(view, Passed::Pointer)?;
        Ok(self)
    }

    /// Appends elements that the kernel writes: a pointer alone.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn write_ptr<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::Write, Passed::Pointer)?;
        Ok(self)
    }

    /// Appends elements that the kernel reads and writes: a pointer alone.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn update_ptr<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::Update, Passed::Pointer)?;
        Ok(self)
    }

    #[inline(always)]
    pub(super) fn push_view<T: Element>(
        &mut self,
        view: View<'a, T>,
        passed: Passed,
    ) -> Result<()> {
        let (span, elements) = (view.span(), view.len() as u64);
        match passed {
            Passed::PointerAndLength => self.block.push_span::<T>(span, Mode::Read, elements)?,
            Passed::Pointer => self.block.push_pointer::<T>(span, Mode::Read, elements)?,
        }
        self.uses.push(view.read_use());
        Ok(())
    }

    pub(super) fn push_tiled<T: TiledElement>(&mut self, tiled: &TiledView<'a, T>) -> Result<()> {
        let TiledView { view, tiling } = tiled;
        let elements = view.len() as u64;
        self.block.push_tiled::<T>(view.span(), Mode::Read, elements, *tiling)?;
        self.uses.push(view.read_use());
        Ok(())
    }

    pub(super) fn push_tiled_mut<T: TiledElement>(
        &mut self,
        tiled: &TiledViewMut<'a, T>,
        mode: Mode,
    ) -> Result<()> {
        let TiledViewMut { view, tiling } = tiled;
        self.block.push_tiled::<T>(view.span(), mode, view.len() as u64, *tiling)?;
        self.uses.push(view.write_use(mode));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn push_view_mut<T: Element>(
        &mut self,
        view: &ViewMut<'a, T>,
        mode: Mode,
        passed: Passed,
    ) -> Result<()> {
        let (span, elements) = (view.span(), view.len() as u64);
        match passed {
            Passed::PointerAndLength => self.block.push_span::<T>(span, mode, elements)?,
            Passed::Pointer => self.block.push_pointer::<T>(span, mode, elements)?,
        }
        self.uses.push(view.write_use(mode));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Args;
    use crate::base::error::Result;
    use crate::base::ledger::Mode;
    use crate::device::{Executor, HostConfig, Order};
    use crate::stream::Device;

    /// The index counts the arguments of the kernel. A pointer and its length are two arguments.
    #[test]
    fn each_way_to_pass_memory_has_its_words_and_its_access() -> Result<()> {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let s = device.stream()?;
        let x = s.alloc::<u16>(5)?;
        let (mut a, mut b) = (s.alloc::<u16>(6)?, s.alloc::<u16>(7)?);
        let (mut c, mut d) = (s.alloc::<u16>(8)?, s.alloc::<u16>(9)?);
        let args = Args::new().read(x.view())?.read_ptr(x.view())?.write(a.view_mut())?;
        let args = args.write_ptr(b.view_mut())?.scalar([1_u64, 2])?;
        let args = args.update(c.view_mut())?.update_ptr(d.view_mut())?;
        let spans: Vec<_> =
            args.block.spans().iter().map(|arg| (arg.index, arg.elements, arg.mode)).collect();
        let wanted = [
            (0, 5, Mode::Read),
            (2, 5, Mode::Read),
            (3, 6, Mode::Write),
            (5, 7, Mode::Write),
            (7, 8, Mode::Update),
            (9, 9, Mode::Update),
        ];
        assert_eq!(spans, wanted);
        assert_eq!(args.block.count(), 10);
        assert_eq!(args.block.scalar::<[u64; 2]>(6), [1, 2], "a structure by value");
        assert_eq!(args.block.scalar::<u64>(8), 8, "the length follows the pointer");
        let modes: Vec<Mode> = args.uses.iter().map(|access| access.mode).collect();
        assert_eq!(modes, wanted.map(|(_, _, mode)| mode));
        Ok(())
    }
}
