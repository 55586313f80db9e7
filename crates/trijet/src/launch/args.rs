//! The arguments of a launch, typed against the kernel's declaration: `&` reads, `&mut` writes.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::device::args::{ArgBlock, SPANS_MAX};
use crate::memory::{AsView, AsViewMut, Buffer, Element, View, ViewMut};
use crate::order::track::Use;
use arrayvec::ArrayVec;
use bytemuck::NoUninit;
use std::marker::PhantomData;

/// A parameter that the kernel only reads: a pointer and its length.
#[derive(Debug)]
pub struct In<T>(PhantomData<fn() -> T>);
/// A parameter that the kernel only writes.
#[derive(Debug)]
pub struct Out<T>(PhantomData<fn() -> T>);
/// A parameter that the kernel reads and writes.
#[derive(Debug)]
pub struct InOut<T>(PhantomData<fn() -> T>);
/// The parameters of a kernel that is known only at run time: whatever the caller collected in
/// [`Args`]. What of it the kernel takes is for its [`KernelSpec::check`](super::KernelSpec::check)
/// to say.
#[derive(Debug)]
pub struct Dynamic;

/// The arguments of one launch as they are collected.
#[derive(Debug, Default)]
pub struct Args<'a> {
    pub(crate) block: ArgBlock,
    pub(crate) uses: ArrayVec<Use<'a>, SPANS_MAX>,
}

impl<'a> Args<'a> {
    /// No arguments yet.
    #[must_use]
    #[inline(always)]
    pub fn new() -> Self {
        Self::default()
    }

    /// A scalar.
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
        self.push_view(view)?;
        Ok(self)
    }

    /// Elements that the kernel writes: a pointer and a length.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    pub fn write<T: Element>(mut self, view: ViewMut<'a, T>) -> Result<Self> {
        self.push_view_mut(&view, Mode::Write)?;
        Ok(self)
    }

    #[inline(always)]
    fn push_view<T: Element>(&mut self, view: View<'a, T>) -> Result<()> {
        self.block.push_span(view.span(), Mode::Read, view.len() as u64, size_of::<T>() as u64)?;
        self.uses.push(view.read_use());
        Ok(())
    }

    #[inline(always)]
    fn push_view_mut<T: Element>(&mut self, view: &ViewMut<'a, T>, mode: Mode) -> Result<()> {
        self.block.push_span(view.span(), mode, view.len() as u64, size_of::<T>() as u64)?;
        self.uses.push(view.write_use(mode));
        Ok(())
    }
}

/// What only this module may implement: an argument of another make could pass an address, or a
/// shared view to a kernel that writes, without a word of `unsafe`.
mod sealed {
    /// A value that can stand for the parameter `P`.
    #[expect(unnameable_types, reason = "nobody else is to implement it")]
    pub trait One<P> {}
    /// Values that can stand for all parameters `P`.
    #[expect(unnameable_types, reason = "nobody else is to implement it")]
    pub trait All<P> {}
}

/// A value that can stand for the parameter `P`. Sealed: a kernel's promise covers these alone.
pub trait Arg<'a, P>: sealed::One<P> {
    /// Appends it.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    fn push(self, args: &mut Args<'a>) -> Result<()>;
}

macro_rules! scalars {
    ($($type:ty),*) => {$(
        impl sealed::One<$type> for $type {}

        impl<'a> Arg<'a, $type> for $type {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.block.push_scalar(self)
            }
        }
    )*};
}
scalars!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

impl<T: Element, S> sealed::One<In<T>> for &Buffer<T, S> {}

impl<'a, T: Element, S> Arg<'a, In<T>> for &'a Buffer<T, S> {
    #[inline(always)]
    fn push(self, args: &mut Args<'a>) -> Result<()> {
        args.push_view(self.as_view())
    }
}

impl<T: Element> sealed::One<In<T>> for View<'_, T> {}

impl<'a, T: Element> Arg<'a, In<T>> for View<'a, T> {
    #[inline(always)]
    fn push(self, args: &mut Args<'a>) -> Result<()> {
        args.push_view(self)
    }
}

macro_rules! written {
    ($($param:ident: $mode:ident),*) => {$(
        impl<T: Element, S> sealed::One<$param<T>> for &mut Buffer<T, S> {}
        impl<T: Element> sealed::One<$param<T>> for ViewMut<'_, T> {}
        impl<T: Element> sealed::One<$param<T>> for &mut ViewMut<'_, T> {}

        impl<'a, T: Element, S> Arg<'a, $param<T>> for &'a mut Buffer<T, S> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view_mut(&self.as_view_mut(), Mode::$mode)
            }
        }

        impl<'a, T: Element> Arg<'a, $param<T>> for ViewMut<'a, T> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view_mut(&self, Mode::$mode)
            }
        }

        impl<'a, T: Element> Arg<'a, $param<T>> for &'a mut ViewMut<'_, T> {
            #[inline(always)]
            fn push(self, args: &mut Args<'a>) -> Result<()> {
                args.push_view_mut(&self.reborrow(), Mode::$mode)
            }
        }
    )*};
}
written!(Out: Write, InOut: ReadWrite);

/// Values that can stand for all parameters `P` of a kernel. Sealed, like [`Arg`].
pub trait ArgsFor<'a, P>: sealed::All<P> {
    /// Appends them in order.
    ///
    /// # Errors
    /// `InvalidValue` when there are too many arguments.
    fn push_all(self, args: &mut Args<'a>) -> Result<()>;
}

impl sealed::All<Dynamic> for Args<'_> {}

impl<'a> ArgsFor<'a, Dynamic> for Args<'a> {
    #[inline(always)]
    fn push_all(self, args: &mut Args<'a>) -> Result<()> {
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
}
