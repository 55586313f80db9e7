//! The parameters of a kernel as types, and the values that can stand for each: `&` reads, `&mut`
//! writes.
#![forbid(unsafe_code)]

use super::args::{Args, Passed};
use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::memory::{AsView, AsViewMut, Buffer, Element, View, ViewMut};
use bytemuck::NoUninit;
use std::marker::PhantomData;

/// A parameter that the kernel only reads: a pointer and its length.
#[derive(Debug)]
pub struct In<T>(PhantomData<fn() -> T>);
/// A parameter that the kernel only writes: a pointer and its length.
#[derive(Debug)]
pub struct Out<T>(PhantomData<fn() -> T>);
/// A parameter that the kernel reads and writes: a pointer and its length.
#[derive(Debug)]
pub struct InOut<T>(PhantomData<fn() -> T>);
/// The pointer of an [`In`], [`Out`] or [`InOut`] without its length, for kernels that get their
/// lengths in another way: `Ptr<In<f32>>` is `const float*`.
#[derive(Debug)]
pub struct Ptr<P>(PhantomData<fn() -> P>);
/// The parameters of a kernel that is known only at run time: the arguments that the caller collected
/// in [`Args`]. The check of the kernel's declaration says which lists the kernel takes.
#[derive(Debug)]
pub struct Dynamic;

/// The traits that keep other crates from implementing [`Arg`] and [`ArgsFor`]. Such an
/// implementation could pass an address, or a shared view to a kernel that writes, in safe code.
mod sealed {
    /// A value that can stand for the parameter `P`.
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait One<P> {}
    /// Values that can stand for all parameters `P`.
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait All<P> {}
}

/// A value that can stand for the parameter `P`. Sealed: the promise of a kernel's declaration
/// covers the implementations of this library only.
pub trait Arg<'a, P>: sealed::One<P> {
    /// Appends it.
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
    [In<T>] PointerAndLength;
    [Ptr<In<T>>] Pointer;
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
    [Out<T>] Write PointerAndLength;
    [InOut<T>] ReadWrite PointerAndLength;
    [Ptr<Out<T>>] Write Pointer;
    [Ptr<InOut<T>>] ReadWrite Pointer;
}

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
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V, H: W, I: X)
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V, H: W, I: X, J: Y)
    (A: P, B: Q, C: R, D: S, E: T, F: U, G: V, H: W, I: X, J: Y, K: Z)
}
