//! The parameters of a kernel as types, and the values that may be passed for each parameter: `&`
//! for memory that the kernel reads, `&mut` for memory that it writes.
#![forbid(unsafe_code)]

use super::args::{Args, Passed};
use crate::base::error::Result;
use crate::base::error::{Error, ErrorKind};
use crate::base::ledger::Mode;
use crate::device::tiling::TiledElement;
use crate::memory::{AsView, AsViewMut, Buffer, Element, TiledView, TiledViewMut, View, ViewMut};
use bytemuck::NoUninit;
use std::marker::PhantomData;

/// A parameter that the kernel only reads: a pointer and its length.
#[derive(Debug)]
pub struct Read<T>(PhantomData<fn() -> T>);
/// A parameter that the kernel only writes: a pointer and its length.
#[derive(Debug)]
pub struct Write<T>(PhantomData<fn() -> T>);
/// A parameter that the kernel reads and writes: a pointer and its length.
#[derive(Debug)]
pub struct Update<T>(PhantomData<fn() -> T>);
/// The pointer of a [`Read`], [`Write`] or [`Update`] without its length, for kernels that get
/// their lengths in another way: `Ptr<Read<f32>>` is `const float*`.
#[derive(Debug)]
pub struct Ptr<P>(PhantomData<fn() -> P>);
/// A [`Read`], [`Write`] or [`Update`] that the kernel copies in boxes of a matrix (Tensor Memory
/// Accelerator). `Tiled<Read<f32>>` is `const __grid_constant__ CUtensorMap`, a structure of 128
/// bytes, aligned to 64. Its arguments are [views with a tiling](crate::View::tiled).
#[derive(Debug)]
pub struct Tiled<P>(PhantomData<fn() -> P>);
/// The parameters of a kernel that is known only at run time. The arguments are an [`Args`], which
/// the caller has collected. The check of the kernel's declaration decides which lists the kernel
/// accepts.
#[derive(Debug)]
pub struct Dynamic;

/// The traits of this module have no name outside of the crate, so other crates cannot implement
/// [`Arg`] and [`ArgsFor`]. In safe code, such an implementation could pass an address. It could
/// also pass a shared view to a kernel that writes to the view.
mod sealed {
    /// A value that may be passed for the parameter `P`.
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait One<P> {}
    /// Values that may be passed for all parameters `P`.
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait All<P> {}
}

/// A value that may be passed for the parameter `P`. The trait is sealed: the promise of a kernel's
/// declaration covers only the implementations of this library.
#[diagnostic::on_unimplemented(
    message = "an argument of the type `{Self}` does not fit the parameter `{P}` of the kernel",
    label = "the kernel takes `{P}` here",
    note = "a number has exactly the type of its parameter, as in `2.0_f32`; `Read` takes `&buffer` or a view, `Write` and \
            `Update` take `&mut buffer` or a mutable view"
)]
pub trait Arg<'a, P>: sealed::One<P> {
    /// Appends the value.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    fn push(self, args: &mut Args<'a>) -> Result<()>;
}

impl<T: NoUninit> sealed::One<T> for T {}

/// A scalar, or a structure that the kernel takes by value.
impl<'a, T: NoUninit> Arg<'a, T> for T {
    #[inline(always)]
    fn push(self, args: &mut Args<'a>) -> Result<()> {
        args.block.push_scalar(self)
    }
}

macro_rules! read {
    ($([$($param:tt)*] $passed:ident;)*) => {$(
        impl<T: Element, S> sealed::One<$($param)*> for &Buffer<T, S> {}
        impl<T: Element> sealed::One<$($param)*> for View<'_, T> {}

        impl<'a, T: Element, S> Arg<'a, $($param)*> for &'a Buffer<T, S> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view(self.as_view(), Passed::$passed)
            }
        }

        impl<'a, T: Element> Arg<'a, $($param)*> for View<'a, T> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view(self, Passed::$passed)
            }
        }
    )*};
}
read! {
    [Read<T>] PointerAndLength;
    [Ptr<Read<T>>] Pointer;
}

macro_rules! written {
    ($([$($param:tt)*] $mode:ident $passed:ident;)*) => {$(
        impl<T: Element, S> sealed::One<$($param)*> for &mut Buffer<T, S> {}
        impl<T: Element> sealed::One<$($param)*> for ViewMut<'_, T> {}
        impl<T: Element> sealed::One<$($param)*> for &mut ViewMut<'_, T> {}

        impl<'a, T: Element, S> Arg<'a, $($param)*> for &'a mut Buffer<T, S> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view_mut(&self.as_view_mut(), Mode::$mode, Passed::$passed)
            }
        }

        impl<'a, T: Element> Arg<'a, $($param)*> for ViewMut<'a, T> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view_mut(&self, Mode::$mode, Passed::$passed)
            }
        }

        impl<'a, T: Element> Arg<'a, $($param)*> for &'a mut ViewMut<'_, T> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view_mut(&self.reborrow(), Mode::$mode, Passed::$passed)
            }
        }
    )*};
}
written! {
    [Write<T>] Write PointerAndLength;
    [Update<T>] Update PointerAndLength;
    [Ptr<Write<T>>] Write Pointer;
    [Ptr<Update<T>>] Update Pointer;
}

impl<T: TiledElement> sealed::One<Tiled<Read<T>>> for TiledView<'_, T> {}

impl<'a, T: TiledElement> Arg<'a, Tiled<Read<T>>> for TiledView<'a, T> {
    fn push(self, args: &mut Args<'a>) -> Result<()> {
        args.push_tiled(&self)
    }
}

macro_rules! tiled {
    ($($param:ident $mode:ident;)*) => {$(
        impl<T: TiledElement> sealed::One<Tiled<$param<T>>> for TiledViewMut<'_, T> {}

        impl<'a, T: TiledElement> Arg<'a, Tiled<$param<T>>> for TiledViewMut<'a, T> {
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_tiled_mut(&self, Mode::$mode)
            }
        }
    )*};
}
tiled! {
    Write Write;
    Update Update;
}

/// Values that may be passed for all parameters `P` of a kernel. The trait is sealed, like [`Arg`].
pub trait ArgsFor<'a, P>: sealed::All<P> {
    /// Appends the values in order.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    fn push_all(self, args: &mut Args<'a>) -> Result<()>;
}

impl sealed::All<Dynamic> for Args<'_> {}

impl<'a> ArgsFor<'a, Dynamic> for Args<'a> {
    #[inline(always)]
    fn push_all(self, args: &mut Args<'a>) -> Result<()> {
        if !self.block.tiled().is_empty() {
            let cause = "a kernel with dynamic parameters takes no tilings";
            return Err(Error::new(ErrorKind::InvalidValue, "launch", cause));
        }
        *args = self;
        Ok(())
    }
}

macro_rules! tuples {
    ($(($($value:ident: $param:ident),*))*) => {$(
        impl<$($value, $param),*> sealed::All<($($param,)*)> for ($($value,)*)
        where
            $($value: sealed::One<$param>),*
        {}

        impl<'a, $($value, $param),*> ArgsFor<'a, ($($param,)*)> for ($($value,)*)
        where
            $($value: Arg<'a, $param>),*
        {
            #[inline(always)]
            fn push_all(self, args: &mut Args<'a>) -> Result<()> {
                #[expect(non_snake_case, reason = "the names of the type parameters")]
                let ($($value,)*) = self;
                $($value.push(args)?;)*
                Ok(())
            }
        }
    )*};
}
tuples! {
    (A: P)
    (A: P, B: Q)
    (A: P, B: Q, C: R)
    (A: P, B: Q, C: R, D: S)
    (A: P, B: Q, C: R, D: S, E: T)
    (A: P, B: Q, C: R, D: S, E: T, F: U)
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V)
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V, H: W)
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V, H: W, I: X)
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V, H: W, I: X, J: Y)
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V, H: W, I: X, J: Y, K: Z)
}

#[cfg(test)]
mod tests {
    use super::{Arg, ArgsFor, Dynamic, Read, Tiled, Update};
    use crate::base::dtype::Dtype;
    use crate::base::error::{ErrorKind, Result};
    use crate::base::ledger::Mode;
    use crate::device::HostConfig;
    use crate::device::tiling::Tiling;
    use crate::launch::Args;
    use crate::stream::Device;

    const TILING: Tiling = Tiling::new([10, 10], [8, 16]);

    #[test]
    fn a_tiling_is_one_argument_and_uses_its_view() -> Result<()> {
        let s = Device::host(HostConfig::default())?.remove(0).stream()?;
        let (x, mut y) = (s.alloc::<u64>(100)?, s.alloc::<u64>(120)?);
        let mut args = Args::new();
        let (from, to) = (x.view().tiled(TILING)?, y.view_mut().tiled(TILING.pitch(12))?);
        Arg::<u32>::push(7, &mut args)?;
        Arg::<Tiled<Read<u64>>>::push(from, &mut args)?;
        Arg::<Tiled<Update<u64>>>::push(to, &mut args)?;
        Arg::<u32>::push(8, &mut args)?;
        assert_eq!(args.block.sizes(), [4, 128, 128, 4]);
        assert_eq!(args.block.scalar::<u32>(3), 8, "behind the room for the encoded form");
        let spans = args.block.spans().iter().map(|arg| (arg.index, arg.elements, arg.mode));
        assert_eq!(spans.collect::<Vec<_>>(), [(1, 100, Mode::Read), (2, 120, Mode::Update)]);
        let tiled = args.block.tiled().iter().map(|arg| (arg.index, arg.tiling.pitch, arg.element));
        assert_eq!(tiled.collect::<Vec<_>>(), [(1, 10, Dtype::U64), (2, 12, Dtype::U64)]);
        let uses = args.uses.iter().map(|access| (access.range.clone(), access.mode));
        assert_eq!(uses.collect::<Vec<_>>(), [(0..800, Mode::Read), (0..960, Mode::Update)]);
        Ok(())
    }

    /// The check of a kernel with dynamic parameters sees lists of pointers and scalars, and need
    /// not handle tilings.
    #[test]
    fn a_kernel_with_dynamic_parameters_takes_no_tilings() -> Result<()> {
        let s = Device::host(HostConfig::default())?.remove(0).stream()?;
        let x = s.alloc::<u64>(100)?;
        let mut args = Args::new();
        Arg::<Tiled<Read<u64>>>::push(x.view().tiled(TILING)?, &mut args)?;
        let refused = ArgsFor::<Dynamic>::push_all(args, &mut Args::new()).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidValue);
        assert!(refused.to_string().contains("takes no tilings"), "{refused}");
        Ok(())
    }

    #[test]
    fn a_fifth_tiling_is_refused() -> Result<()> {
        let s = Device::host(HostConfig::default())?.remove(0).stream()?;
        let x = s.alloc::<u64>(100)?;
        let mut args = Args::new();
        let mut push = || Arg::<Tiled<Read<u64>>>::push(x.view().tiled(TILING)?, &mut args);
        (0..4).try_for_each(|_| push())?;
        let refused = push().expect_err("refused");
        assert!(refused.to_string().contains("16 spans and 4 tilings"), "{refused}");
        Ok(())
    }
}
