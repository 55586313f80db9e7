//! The input of `trijet overlap`: a stack of images in page-locked memory.
#![forbid(unsafe_code)]

use crate::micrograph::Micrograph;
use crate::picture::Pixels;
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use trijet::kernels::median::MedianPixel;
use trijet::kernels::{AFFINE_U8, AFFINE_U16, Read, Write};
use trijet::{Bytes, Device, Error, ErrorKind, Kernel, PinnedBuffer, Result, Source};
use trijet_io::{Input, shown};

/// The side of generated images, in pixels.
const SIDE: u32 = 2048;
const SEED: u64 = 20_251_120;

/// A pixel type of the job, with its contrast stretch.
pub(super) trait Pixel: MedianPixel + Copy + PartialEq {
    /// The factor and the offset of the stretch.
    const CONTRAST: (f32, f32);
    /// The value that overwrites the result before a run, so that missing pixels show.
    const SENTINEL: Self;
    fn stretch() -> &'static Kernel<(f32, f32, Read<Self>, Write<Self>)>;
    fn pixels(pixels: &[Self]) -> Pixels<'_>;
}

impl Pixel for u8 {
    const CONTRAST: (f32, f32) = (1.5, -64.0);
    const SENTINEL: Self = 0x5a;
    fn stretch() -> &'static Kernel<(f32, f32, Read<Self>, Write<Self>)> {
        &AFFINE_U8
    }
    fn pixels(pixels: &[Self]) -> Pixels<'_> {
        Pixels::U8(pixels)
    }
}

impl Pixel for u16 {
    const CONTRAST: (f32, f32) = (1.5, -16384.0);
    const SENTINEL: Self = 0x5a5a;
    fn stretch() -> &'static Kernel<(f32, f32, Read<Self>, Write<Self>)> {
        &AFFINE_U16
    }
    fn pixels(pixels: &[Self]) -> Pixels<'_> {
        Pixels::U16(pixels)
    }
}

/// The shape and the origin of a stack of images.
pub(super) struct Images {
    pub(super) name: String,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) count: u64,
}

impl Images {
    /// About `size` bytes of generated images. If `size` is not a whole number of images, the name
    /// states `size` and the size of an image.
    pub(super) fn generated(size: Bytes) -> Self {
        let image = u64::from(SIDE) * u64::from(SIDE) * 2;
        let count = (size.0 / image).max(1);
        let name = match size.0 == count * image {
            true => "generated micrographs".to_owned(),
            false => format!("generated micrographs ({size} in whole images of {})", Bytes(image)),
        };
        Self { name, width: SIDE, height: SIDE, count }
    }

    /// All images of an input.
    pub(super) fn of(input: &Input) -> Result<Self> {
        let name = shown(input.path()).to_string();
        let refused = |cause: String| {
            Error::new(ErrorKind::InvalidValue, "overlap", format!("{name}: {cause}"))
        };
        let Some((width, height, count)) = input.array().image() else {
            return Err(refused(format!("{} is not an image or a stack of images", input.array())));
        };
        let side = |pixels: u64| {
            u32::try_from(pixels).map_err(|_| {
                refused(format!("a side has {pixels} pixels; at most 2^32 - 1 are supported"))
            })
        };
        let (width, height) = (side(width)?, side(height)?);
        if input.layout().bytes()? == 0 {
            return Err(refused("the stack has no pixels".to_owned()));
        }
        Ok(Self { name, width, height, count })
    }

    /// The pixels of all images.
    pub(super) fn pixels(&self) -> u64 {
        self.count.saturating_mul(u64::from(self.width) * u64::from(self.height))
    }
}

/// Generates noisy micrographs, on all CPU threads.
pub(super) fn generate(device: &Device, images: &Images) -> Result<PinnedBuffer<u16>> {
    let (rows, row) = (images.count * u64::from(images.height), images.width as usize);
    let mut data = device.pinned::<u16>(usize::try_from(images.pixels()).unwrap_or(usize::MAX))?;
    let micrograph = Micrograph::new(row, u64::from(images.height), SEED);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = rows.div_ceil(threads as u64).max(1);
    let pixels = usize::try_from(share).unwrap_or(usize::MAX).saturating_mul(row);
    {
        let mut guard = data.write()?;
        let parts = Mutex::new((0u64..).zip(guard.chunks_mut(pixels)));
        let fill = || {
            let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((index, part)) = next() {
                let first = index * share;
                micrograph.fill(first..first + (part.len() / row) as u64, part);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If the system refuses to start a thread, the other threads do its work.
                drop(Builder::new().spawn_scoped(scope, fill));
            }
            fill();
        });
    }
    Ok(data)
}

/// Reads all images of an input.
pub(super) fn read<T: Pixel>(device: &Device, input: &Input) -> Result<PinnedBuffer<T>> {
    let layout = input.layout();
    let mut data = device.pinned::<T>(Bytes(layout.bytes()?).to_usize() / size_of::<T>())?;
    input.read(0..layout.rows, bytemuck::cast_slice_mut(&mut data.write()?))?;
    Ok(data)
}
