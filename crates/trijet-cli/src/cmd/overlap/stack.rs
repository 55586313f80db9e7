//! The input of `trijet overlap`: a stack of images in page-locked memory.
#![forbid(unsafe_code)]

use trijet::kernels::median::MedianPixel;
use trijet::kernels::{AFFINE_U8, AFFINE_U16, In, Out};
use trijet::{Bytes, Device, Error, ErrorKind, Kernel, PinnedBuffer, Result, Source};
use trijet_cli::format::Input;
use trijet_cli::micrograph::Micrograph;
use trijet_cli::picture::Pixels;

/// The side of generated images, in pixels.
const SIDE: u32 = 2048;
const SEED: u64 = 20_251_120;

/// A pixel type of the job, with its contrast stretch.
pub(super) trait Pixel: MedianPixel + Copy + PartialEq {
    /// The factor and the summand of the stretch.
    const CONTRAST: (f32, f32);
    /// The value that overwrites the result before a run, so that missing pixels show.
    const SENTINEL: Self;
    fn stretch() -> &'static Kernel<(f32, f32, In<Self>, Out<Self>)>;
    fn pixels(pixels: &[Self]) -> Pixels<'_>;
}

impl Pixel for u8 {
    const CONTRAST: (f32, f32) = (1.5, -64.0);
    const SENTINEL: Self = 0x5a;
    fn stretch() -> &'static Kernel<(f32, f32, In<Self>, Out<Self>)> {
        &AFFINE_U8
    }
    fn pixels(pixels: &[Self]) -> Pixels<'_> {
        Pixels::U8(pixels)
    }
}

impl Pixel for u16 {
    const CONTRAST: (f32, f32) = (1.5, -16384.0);
    const SENTINEL: Self = 0x5a5a;
    fn stretch() -> &'static Kernel<(f32, f32, In<Self>, Out<Self>)> {
        &AFFINE_U16
    }
    fn pixels(pixels: &[Self]) -> Pixels<'_> {
        Pixels::U16(pixels)
    }
}

/// A stack of images.
pub(super) struct Stack<T> {
    pub(super) name: String,
    pub(super) data: PinnedBuffer<T>,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) count: u64,
}

impl Stack<u16> {
    /// Generates about `size` bytes of noisy micrographs, on all CPU threads.
    pub(super) fn generate(device: &Device, size: Bytes) -> Result<Self> {
        let image = u64::from(SIDE) * u64::from(SIDE) * 2;
        let count = (size.0 / image).max(1);
        let (rows, row) = (count * u64::from(SIDE), SIDE as usize);
        let mut data = device.pinned::<u16>(Bytes(count * image).to_usize() / 2)?;
        let micrograph = Micrograph::new(row, u64::from(SIDE), SEED);
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let share = rows.div_ceil(threads as u64).max(1);
        let pixels = usize::try_from(share).unwrap_or(usize::MAX).saturating_mul(row);
        {
            let mut guard = data.write()?;
            std::thread::scope(|scope| {
                for (index, part) in (0u64..).zip(guard.chunks_mut(pixels)) {
                    let (first, micrograph) = (index * share, &micrograph);
                    let last = first + (part.len() / row) as u64;
                    scope.spawn(move || micrograph.fill(first..last, part));
                }
            });
        }
        Ok(Self {
            name: "generated micrographs".to_owned(),
            data,
            width: SIDE,
            height: SIDE,
            count,
        })
    }
}

impl<T: Pixel> Stack<T> {
    /// Reads all images of an input.
    pub(super) fn read(device: &Device, input: &Input) -> Result<Self> {
        let name = input.path().display().to_string();
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
        let layout = input.layout();
        let mut data = device.pinned::<T>(Bytes(layout.bytes()?).to_usize() / size_of::<T>())?;
        if data.is_empty() {
            return Err(refused("the stack has no pixels".to_owned()));
        }
        input.read(0..layout.rows, bytemuck::cast_slice_mut(&mut data.write()?))?;
        Ok(Self { name, data, width, height, count })
    }
}
