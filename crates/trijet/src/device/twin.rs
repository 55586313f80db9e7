//! Host twins: the computation of a kernel, written for the host device.
//!
//! A twin computes one *tile* at a time. Every written argument is cut into parts of
//! `tile_elements` elements. A tile owns one part of each written argument, and may read every
//! read-only argument as a whole. The tiles of one launch write disjoint bytes. So the executor may
//! run them in any order or at once, and no twin can have a data race.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::device::args::ArgBlock;
use crate::device::asked::AskedArgument;
use crate::device::launch_config::LaunchConfig;
use crate::device::tiling::{Matrix, Tiling};
use bytemuck::Pod;
use smallvec::SmallVec;

/// The cost of a launch on the modelled GPU.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Bytes moved through device memory.
    pub bytes: u64,
    /// Simple integer or float operations.
    pub ops: u64,
}

/// The host twin of a kernel: the functions that a host device calls in place of the kernel's code.
#[derive(Debug, Clone, Copy)]
pub struct Twin {
    /// The number of elements of each written argument that one tile owns.
    pub tile_elements: fn(&ArgBlock) -> u64,
    /// Computes one tile.
    pub run: fn(&mut Tile<'_>),
    /// The cost of the whole launch, for the modelled clock.
    pub cost: fn(&ArgBlock) -> Cost,
}

/// The bytes of the tile in each written span, with the index of the argument of the span.
pub(in crate::device) type TileWrites<'a> = SmallVec<[(usize, &'a mut [u8]); 2]>;

/// The arguments of a twin for one tile.
#[derive(Debug)]
pub struct Tile<'a> {
    pub(in crate::device) args: &'a ArgBlock,
    /// The configuration of the launch.
    pub config: LaunchConfig,
    /// The index of the first element of this tile in each written argument.
    pub first: usize,
    pub(in crate::device) reads: &'a [(usize, &'a [u8])],
    pub(in crate::device) writes: TileWrites<'a>,
}

/// The inputs of a tile: the scalars and the read-only spans of its launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileInputs<'a> {
    args: &'a ArgBlock,
    reads: &'a [(usize, &'a [u8])],
}

impl<'a> TileInputs<'a> {
    /// See [`Tile::scalar`].
    pub(crate) fn scalar<T: Pod>(&self, index: usize) -> T {
        self.args.scalar(index)
    }

    /// See [`Tile::read`].
    pub(crate) fn read<T: Pod>(&self, index: usize) -> &'a [T] {
        self.expect::<T>(AskedArgument::Read, index);
        let (_, bytes) = self.reads.iter().find(|(i, _)| *i == index).expect("a read-only span");
        // An empty slice has no address that could be aligned.
        if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
    }

    /// Panics unless argument `index` has the requested form and type.
    pub(crate) fn expect<T: Pod>(&self, asked: AskedArgument, index: usize) {
        self.args.compare::<T>(asked, index).unwrap_or_else(|why| panic!("{why}"));
    }

    /// The number of arguments.
    pub(crate) fn count(&self) -> usize {
        self.args.count()
    }

    /// For each written span, the index of its argument and the size of an element in bytes.
    pub(crate) fn written(&self) -> impl Iterator<Item = (usize, u64)> {
        let written = self.args.spans().iter().filter(|arg| arg.mode.writes());
        written.map(|arg| (arg.index, arg.element_bytes))
    }
}

impl<'a> Tile<'a> {
    /// The inputs of the tile.
    pub(crate) fn inputs(&self) -> TileInputs<'a> {
        TileInputs { args: self.args, reads: self.reads }
    }

    /// The scalar at argument `index`. A pointer and its length are two arguments, as for the
    /// kernel. [`Tile::args`] needs no indices.
    ///
    /// # Panics
    /// When argument `index` is no scalar of exactly the type `T`. The message lists the arguments,
    /// and the error of the launch contains it.
    #[must_use]
    pub fn scalar<T: Pod>(&self, index: usize) -> T {
        self.args.scalar(index)
    }

    /// Panics unless the kernel has `count` arguments.
    pub(crate) fn expect_count(&self, count: usize) {
        self.args.compare_count(count).unwrap_or_else(|why| panic!("{why}"));
    }

    /// The whole read-only span whose address is argument `index`.
    ///
    /// # Panics
    /// When `index` is not a read-only span of exactly the type `T`. The message lists the
    /// arguments.
    #[must_use]
    pub fn read<T: Pod>(&self, index: usize) -> &'a [T] {
        self.inputs().read(index)
    }

    /// The whole matrix that is argument `index`. The kernel reads this matrix box by box.
    ///
    /// # Panics
    /// When `index` is not a read-only tiling of `T`.
    #[must_use]
    pub fn matrix<T: Pod>(&self, index: usize) -> Matrix<'a, T> {
        Matrix { elements: self.read(index), tiling: self.tiling(index) }
    }

    /// The tiling that is argument `index`. If the tiling is written, the tile's part is a range of
    /// the tiling's span. This range includes the elements between the rows. The kernel does not
    /// write these elements.
    ///
    /// # Panics
    /// When `index` is not a tiling.
    #[must_use]
    pub fn tiling(&self, index: usize) -> Tiling {
        let found = self.args.tiled().iter().find(|arg| arg.index == index);
        found.unwrap_or_else(|| panic!("argument {index} of the kernel is no tiling")).tiling
    }

    /// This tile's part of the written span whose address is argument `index`. Each part can be
    /// taken only once.
    ///
    /// # Panics
    /// When `index` is not a written span of exactly the type `T`, or was taken before. The message
    /// lists the arguments.
    #[must_use]
    pub fn write<T: Pod>(&mut self, index: usize) -> &'a mut [T] {
        self.inputs().expect::<T>(AskedArgument::Write, index);
        self.write_words(index)
    }

    /// The same as [`Tile::write`], with elements of another type of the same size.
    pub(crate) fn write_words<T: Pod>(&mut self, index: usize) -> &'a mut [T] {
        let Some(at) = self.writes.iter().position(|(i, _)| *i == index) else {
            panic!("argument {index} was taken before; a twin takes each written span once");
        };
        let bytes = self.writes.swap_remove(at).1;
        if bytes.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(bytes) }
    }
}

/// Refuses a launch in which a written span overlaps another span, because the tiles would not be
/// disjoint. The borrow checker excludes this for arguments of this library, but not for memory of
/// other libraries.
///
/// # Errors
/// [`ErrorKind::InvalidValue`] naming the two arguments.
pub(in crate::device) fn check_disjoint(kernel: &str, args: &ArgBlock) -> Result<()> {
    let spans = args.spans();
    for (i, a) in spans.iter().enumerate() {
        for b in &spans[i + 1..] {
            if (a.mode.writes() || b.mode.writes()) && a.span.overlaps(&b.span) {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    "launch",
                    format!("arguments {} and {} of `{kernel}` overlap", a.index, b.index),
                ));
            }
        }
    }
    Ok(())
}
