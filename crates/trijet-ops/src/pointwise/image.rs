//! An image that an operation keeps in the memory of each device.
#![forbid(unsafe_code)]

use crate::call::refused;
use crate::elements::{Element, RealType, elements, with_element};
use std::fmt;
use std::sync::Mutex;
use trijet::{Buffer, Device, Dtype, Error, ErrorKind, Result, Stream};
use xxhash_rust::xxh3::xxh3_128;

/// An image that an operation combines with each image of a stack, for example the mean of images
/// without light. Its pixels are kept as `f64`, in the memory of each device that uses them.
pub struct Image {
    height: u64,
    width: u64,
    dtype: Dtype,
    /// The hash of the bytes of the image.
    hash: u128,
    pixels: Vec<f64>,
    copies: Mutex<Vec<(Device, Buffer<f64>)>>,
}

impl Image {
    /// An image of `height` rows of `width` pixels of the type `dtype`, whose bytes are `bytes`.
    ///
    /// ```
    /// use trijet::Dtype;
    /// let dark = trijet_ops::Image::new(Dtype::U16, [2, 3], &[0; 12])?;
    /// assert!(trijet_ops::Image::new(Dtype::U16, [2, 3], &[0; 11]).is_err());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for bytes that are not the bytes of such an image.
    pub fn new(dtype: Dtype, [height, width]: [u64; 2], bytes: &[u8]) -> Result<Self> {
        let real = RealType::of("image", dtype)?;
        let wanted = height.checked_mul(width).and_then(|all| all.checked_mul(dtype.bytes()));
        if wanted != u64::try_from(bytes.len()).ok() {
            let len = bytes.len();
            let cause =
                format!("{len} bytes are not {height} x {width} pixels of the type {dtype}");
            return Err(refused("image", cause));
        }
        let pixels = with_element!(real, A => elements::<A>(bytes).map(A::real).collect());
        let (hash, copies) = (xxh3_128(bytes), Mutex::new(Vec::new()));
        Ok(Self { height, width, dtype, hash, pixels, copies })
    }

    /// The height and the width.
    pub(super) fn size(&self) -> [u64; 2] {
        [self.height, self.width]
    }

    /// Copies the pixels to a device that has no copy yet.
    pub(super) fn load(&self, device: &Device) -> Result<()> {
        let stream = device.stream()?;
        let mut copies = self.copies.lock().map_err(|_| poisoned())?;
        if !copies.iter().any(|(device, _)| device.owns(&stream)) {
            copies.push((device.clone(), stream.upload(&self.pixels)?));
        }
        Ok(())
    }

    /// Calls `run` with the copy on the device of a stream.
    pub(super) fn with<R>(
        &self,
        stream: &Stream,
        run: impl FnOnce(&Buffer<f64>) -> Result<R>,
    ) -> Result<R> {
        let copies = self.copies.lock().map_err(|_| poisoned())?;
        let found = copies.iter().find(|(device, _)| device.owns(stream));
        let (_, copy) = found.ok_or_else(|| {
            let cause = "the device of the stream has no copy of the image; call `load` first";
            refused("image", cause)
        })?;
        run(copy)
    }
}

/// The error after a panic of another thread.
fn poisoned() -> Error {
    let cause = "another thread panicked while it copied the image to a device";
    Error::new(ErrorKind::InvalidValue, "image", cause)
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { height, width, dtype, hash, .. } = self;
        write!(f, "{height} x {width} {dtype} {hash:032x}")
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An image may have millions of pixels.
        write!(f, "Image({self})")
    }
}
