//! Copies of values to a device and back.

use trijet::{AsView, Buffer, Device, Element, Result, Stream};

/// A device buffer that holds `values`.
pub(crate) fn upload<T: Element>(
    _device: &Device,
    stream: &Stream,
    values: &[T],
) -> Result<Buffer<T>> {
    stream.upload(values)
}

/// Copies the values of a buffer or a view to the host, after all operations that write them.
pub(crate) fn download<R: AsView>(
    _device: &Device,
    stream: &Stream,
    source: &R,
) -> Result<Vec<R::Element>> {
    stream.download(source)
}
