//! Kernels that set every element of a span, `y[i] = value`. There is one kernel for each size of
//! an element, and a function that chooses the kernel.

pub(crate) mod host;

use super::elementwise::{declaration, twin};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::twin::Tile;
use crate::launch::{Kernel, Write, any_lengths};
use crate::memory::{AsViewMut, ViewMut};
use crate::stream::Stream;

/// The device code, generated from `fill.cu`.
pub(crate) const PTX: &str = include_str!("fill.ptx");

fn tile<T: bytemuck::Pod>(tile: &mut Tile<'_>) {
    host::fill(tile.scalar::<T>(0), tile.write::<T>(1));
}

/// Sets every element of a span of `f32`. Its arguments are `(value, &mut y)`.
pub static FILL_F32: Kernel<(f32, Write<f32>)> =
    // SAFETY: `fill_f32` takes (f32, f32*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_f32", PTX, any_lengths, twin(tile::<f32>))) };

/// Sets every element of a span of `u8`. Its arguments are `(value, &mut y)`.
pub static FILL_U8: Kernel<(u8, Write<u8>)> =
    // SAFETY: `fill_u8` takes (u8, u8*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_u8", PTX, any_lengths, twin(tile::<u8>))) };

/// Sets every element of a span of `u16`. Its arguments are `(value, &mut y)`.
pub static FILL_U16: Kernel<(u16, Write<u16>)> =
    // SAFETY: `fill_u16` takes (u16, u16*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_u16", PTX, any_lengths, twin(tile::<u16>))) };

/// Sets every element of a span of `u64`. Its arguments are `(value, &mut y)`.
pub static FILL_U64: Kernel<(u64, Write<u64>)> =
    // SAFETY: `fill_u64` takes (u64, u64*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_u64", PTX, any_lengths, twin(tile::<u64>))) };

/// Sets every element of a span of `u32`. Its arguments are `(value, &mut y)`.
pub static FILL_U32: Kernel<(u32, Write<u32>)> =
    // SAFETY: `fill_u32` takes (u32, u32*, u64) and writes only `y[..y_len]`.
    unsafe { Kernel::declare(declaration("fill_u32", PTX, any_lengths, twin(tile::<u32>))) };

impl Stream {
    /// Sets every element of `dst` to `value` asynchronously, by a kernel. An element has 1, 2, 4
    /// or 8 bytes; another size does not compile. [`Stream::fill_bytes`] needs no kernel. The first
    /// call for a size loads its kernel, as [`Device::load`](crate::Device::load) does.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let mut x = s.alloc::<f64>(3)?;
    /// s.fill(&mut x, -0.5)?;
    /// assert_eq!(s.download(&x)?, [-0.5; 3]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// ```compile_fail,E0080
    /// # use trijet::{Device, Select};
    /// # let device = Device::open(Select::Host(0))?;
    /// # let s = device.stream()?;
    /// let mut x = s.alloc::<[u8; 3]>(3)?;
    /// s.fill(&mut x, [1, 2, 3])?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for memory of another device, and for foreign memory that is not aligned to
    /// the size of an element; an error of the driver.
    #[track_caller]
    pub fn fill<W: AsViewMut + ?Sized>(&self, dst: &mut W, value: W::Element) -> Result<()> {
        const {
            let bytes = size_of::<W::Element>();
            assert!(matches!(bytes, 1 | 2 | 4 | 8), "`fill` takes elements of 1, 2, 4 or 8 bytes");
        }
        let (dst, value) = (dst.as_view_mut(), bytemuck::bytes_of(&value));
        let (address, size) = (dst.address(), value.len() as u64);
        if address % size != 0 {
            let cause =
                format!("address {address:#x} is not a multiple of the {size} bytes of an element");
            return Err(Error::new(ErrorKind::InvalidValue, "fill", cause));
        }
        let dst = dst.into_bytes();
        match size {
            1 => self.launch(&FILL_U8, (bytemuck::pod_read_unaligned::<u8>(value), dst)),
            2 => {
                let dst = ViewMut::<u16>::from_bytes(dst);
                self.launch(&FILL_U16, (bytemuck::pod_read_unaligned::<u16>(value), dst))
            }
            4 => {
                let dst = ViewMut::<u32>::from_bytes(dst);
                self.launch(&FILL_U32, (bytemuck::pod_read_unaligned::<u32>(value), dst))
            }
            _ => {
                let dst = ViewMut::<u64>::from_bytes(dst);
                self.launch(&FILL_U64, (bytemuck::pod_read_unaligned::<u64>(value), dst))
            }
        }
    }
}
