//! The arguments of a twin as one tuple, with the types of the kernel's parameters. With this
//! tuple, a twin needs no indices of arguments.
#![forbid(unsafe_code)]

use super::params::{Ptr, Read, Tiled, Update, Write};
use crate::device::tiling::{Matrix, Tiling};
use crate::device::twin::Tile;
use bytemuck::Pod;

/// The trait of one parameter. Other crates need only [`TwinParams`].
mod sealed {
    use crate::device::twin::Tile;

    /// A parameter that a twin takes.
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait TwinParam {
        /// The type of the argument in the twin.
        type Taken<'a>;
        /// Takes the argument `index`, and sets `index` to the index of the next argument.
        fn take<'a>(tile: &mut Tile<'a>, index: &mut usize) -> Self::Taken<'a>;
    }
}
use sealed::TwinParam;

/// The parameters of a kernel that has a twin: a tuple with up to eleven parameters. The twin takes
/// the arguments with [`Tile::args`].
///
/// | parameter | the twin gets |
/// |---|---|
/// | a scalar `T` | `T` |
/// | `Read<T>`, `Ptr<Read<T>>` | `&[T]`: the whole span |
/// | `Write<T>`, `Ptr<Write<T>>` | `&mut [T]`: the part of this tile |
/// | `Update<T>`, `Ptr<Update<T>>` | `&mut [T]`: the part of this tile |
/// | `Tiled<Read<T>>` | `Matrix<T>`: the whole matrix |
/// | `Tiled<Write<T>>`, `Tiled<Update<T>>` | `(&mut [T], Tiling)`: the part of this tile |
pub trait TwinParams {
    /// The tuple of arguments.
    type Taken<'a>;

    /// Takes all arguments of a tile.
    ///
    /// # Panics
    /// The panics of [`Tile::args`].
    fn take<'a>(tile: &mut Tile<'a>) -> Self::Taken<'a>;
}

impl<'a> Tile<'a> {
    /// Takes all arguments, with the types of the kernel's parameters `P`. A twin calls this once
    /// per tile.
    ///
    /// ```
    /// use trijet::kernels::{Code, Cost, Read, KernelSpec, Write, Shape, Twin};
    /// use trijet::{Device, Kernel, Select};
    /// type Params = (Read<f32>, Write<f32>, f32);
    /// const TWIN: Twin = Twin {
    ///     tile_elements: |_| 4096,
    ///     run: |tile| {
    ///         let (x, y, factor) = tile.args::<Params>();
    ///         let x = &x[tile.first..];
    ///         y.iter_mut().zip(x).for_each(|(y, x)| *y = factor * x);
    ///     },
    ///     cost: |args| Cost { bytes: args.spans().iter().map(|arg| arg.bytes()).sum(), ops: 0 },
    /// };
    /// static GAIN: Kernel<Params> = {
    ///     let spec = KernelSpec::new("gain", Code::ptx(""), Shape::Elements { per_thread: 1 });
    ///     // SAFETY: there is no code that could break a promise.
    ///     unsafe { Kernel::declare(spec.check(trijet::kernels::equal_lengths).twin(TWIN)) }
    /// };
    /// let s = Device::open(Select::Host(0))?.stream()?;
    /// let (x, mut y) = (s.upload(&[1.0_f32, 2.0, 3.0])?, s.alloc(3)?);
    /// s.launch(&GAIN, (&x, &mut y, 2.0))?;
    /// assert_eq!(s.download(&y)?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the kernel has other parameters, or if the twin has taken an argument before. The message
    /// of the panic lists the arguments. The launch returns this message as its error.
    #[must_use]
    pub fn args<P: TwinParams>(&mut self) -> P::Taken<'a> {
        P::take(self)
    }
}

impl<T: Pod> TwinParam for T {
    type Taken<'a> = T;

    fn take<'a>(tile: &mut Tile<'a>, index: &mut usize) -> T {
        *index += 1;
        tile.scalar(*index - 1)
    }
}

impl<T: Pod> TwinParam for Tiled<Read<T>> {
    type Taken<'a> = Matrix<'a, T>;

    fn take<'a>(tile: &mut Tile<'a>, index: &mut usize) -> Matrix<'a, T> {
        *index += 1;
        tile.matrix(*index - 1)
    }
}

macro_rules! spans {
    ($([$($param:tt)*] $verb:ident $taken:ty, $arguments:literal;)*) => {$(
        impl<T: Pod> TwinParam for $($param)* {
            type Taken<'a> = $taken;

            fn take<'a>(tile: &mut Tile<'a>, index: &mut usize) -> $taken {
                *index += $arguments;
                tile.$verb(*index - $arguments)
            }
        }
    )*};
}
spans! {
    [Read<T>] read &'a [T], 2;
    [Write<T>] write &'a mut [T], 2;
    [Update<T>] write &'a mut [T], 2;
    [Ptr<Read<T>>] read &'a [T], 1;
    [Ptr<Write<T>>] write &'a mut [T], 1;
    [Ptr<Update<T>>] write &'a mut [T], 1;
}

macro_rules! tiled {
    ($($param:ident)*) => {$(
        impl<T: Pod> TwinParam for Tiled<$param<T>> {
            type Taken<'a> = (&'a mut [T], Tiling);

            fn take<'a>(tile: &mut Tile<'a>, index: &mut usize) -> (&'a mut [T], Tiling) {
                *index += 1;
                (tile.write(*index - 1), tile.tiling(*index - 1))
            }
        }
    )*};
}
tiled! { Write Update }

macro_rules! tuples {
    ($(($($param:ident),*))*) => {$(
        impl<$($param: TwinParam),*> TwinParams for ($($param,)*) {
            type Taken<'a> = ($($param::Taken<'a>,)*);

            fn take<'a>(tile: &mut Tile<'a>) -> Self::Taken<'a> {
                let mut index = 0;
                let taken = ($($param::take(tile, &mut index),)*);
                tile.expect_count(index);
                taken
            }
        }
    )*};
}
tuples! {
    (P) (P, Q) (P, Q, R) (P, Q, R, S) (P, Q, R, S, T) (P, Q, R, S, T, U) (P, Q, R, S, T, U, V)
    (P, Q, R, S, T, U, V, W) (P, Q, R, S, T, U, V, W, X) (P, Q, R, S, T, U, V, W, X, Y)
    (P, Q, R, S, T, U, V, W, X, Y, Z)
}
