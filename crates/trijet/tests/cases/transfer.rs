//! Copies of values to a device and back.

use trijet::{AsView, Buffer, Device, Element, Result, Stream};

/// A device buffer that holds `values`.
pub(crate) fn upload<T: Element>(
    device: &Device,
    stream: &Stream,
    values: &[T],
) -> Result<Buffer<T>> {
    let mut staged = device.pinned::<T>(values.len())?;
    staged.write()?.copy_from_slice(values);
    let mut buffer = stream.alloc::<T>(values.len())?;
    stream.copy(&staged, &mut buffer)?;
    Ok(buffer)
}

/// The values of a buffer or a view, when everything that writes them is complete.
pub(crate) fn download<R: AsView>(
    device: &Device,
    stream: &Stream,
    source: &R,
) -> Result<Vec<R::Element>> {
    let mut landed = device.pinned::<R::Element>(source.as_view().len())?;
    stream.copy(source, &mut landed)?;
    Ok(landed.read()?.to_vec())
}
