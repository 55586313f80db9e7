//! Inputs that are not files: streams, and arrays of the program.

use super::{Input, Slice};
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::format::npy::{Content, read_stream};
use crate::format::{Format, HEADERLESS, NPY, Opened, Reader};
use crate::plain::Plain;
use crate::stream::StreamReader;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use trijet::Result;

impl Input {
    /// Reads an array from a stream, such as the standard input. Without `plain`, the stream is an
    /// `.npy` file; otherwise it is plain bytes. Each read must start at the start of the read
    /// before it or later, so the input keeps the rows of a read in memory. A run with such an
    /// input cannot be resumed. Messages name the stream `-`.
    ///
    /// ```
    /// use trijet::Source;
    /// use trijet_io::{Array, Dtype, Input, Plain};
    /// let plain = Plain::new(Array::new(Dtype::U8, vec![3, 2])?);
    /// let input = Input::from_stream(&[1, 2, 3, 4, 5, 6][..], Some(plain))?;
    /// let mut rows = [0; 4];
    /// input.read(0..2, &mut rows)?;
    /// input.read(1..3, &mut rows)?;
    /// assert_eq!(rows, [3, 4, 5, 6]);
    /// assert!(input.read(0..2, &mut rows).is_err());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Io` for a stream that cannot be read, or has no whole header. `InvalidValue` for an array
    /// that is not supported, and for Fortran order.
    pub fn from_stream(stream: impl Read + Send + 'static, plain: Option<Plain>) -> Result<Self> {
        let path = Path::new("-");
        let mut stream: Box<dyn Read + Send> = Box::new(stream);
        let (array, order, format) = match &plain {
            Some(plain) => {
                let skipped =
                    io::copy(&mut stream.by_ref().take(plain.header_bytes()), &mut io::sink())
                        .map_err(|error| file_error::io("read", path, error))?;
                if skipped < plain.header_bytes() {
                    return Err(file_error::damaged("read", path, "ends within the header"));
                }
                (plain.array().clone(), plain.byte_order(), HEADERLESS)
            }
            None => {
                let Content { array, order, is_transposed, .. } = read_stream(&mut stream, path)?;
                if is_transposed {
                    let cause = "the elements are in Fortran order, which cannot be read from a \
                                 stream; use the name of the file";
                    return Err(file_error::refused("read", path, cause));
                }
                (array, order, NPY)
            }
        };
        let reader = Arc::new(StreamReader::new(stream, path, array.clone(), order));
        let opened = Opened {
            array: array.clone(),
            granule: 1,
            whole_rows: 1,
            items: Vec::new(),
            left_out: Vec::new(),
            annotations: Annotations::default(),
            reader: Box::new(Arc::clone(&reader)),
        };
        let header = plain.map_or(0, |plain| plain.header_bytes());
        Ok(Self::without_files(path, format, header, opened, Some(reader)))
    }

    /// An input whose rows come from `reader`, such as an array in the memory of the program.
    /// Messages call it `name`. `granule` is the number of rows at whose multiples reads start and
    /// end. A run with such an input cannot be resumed by another process, because the input has no
    /// files whose states could be compared.
    ///
    /// ```
    /// use std::ops::Range;
    /// use trijet::{Result, Source};
    /// use trijet_io::format::Reader;
    /// use trijet_io::{Array, Dtype, Input};
    ///
    /// #[derive(Debug)]
    /// struct Zeros;
    ///
    /// impl Reader for Zeros {
    ///     fn read(&self, _rows: Range<u64>, into: &mut [u8]) -> Result<()> {
    ///         into.fill(0);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let array = Array::new(Dtype::U8, vec![3, 2])?;
    /// let input = Input::from_reader("zeros", array, 1, Box::new(Zeros));
    /// let mut rows = [1; 4];
    /// input.read(0..2, &mut rows)?;
    /// assert_eq!(rows, [0; 4]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn from_reader(name: &str, array: Array, granule: u64, reader: Box<dyn Reader>) -> Self {
        let opened = Opened {
            array: array.clone(),
            granule,
            whole_rows: 1,
            items: Vec::new(),
            left_out: Vec::new(),
            annotations: Annotations::default(),
            reader,
        };
        Self::without_files(Path::new(name), HEADERLESS, 0, opened, None)
    }

    /// An input that has no files.
    fn without_files(
        path: &Path,
        format: &'static dyn Format,
        header: u64,
        opened: Opened,
        stream: Option<Arc<StreamReader>>,
    ) -> Self {
        let slice = Slice { indices: None, array: opened.array.clone(), first_row: 0 };
        let granule = opened.granule;
        Self {
            inner: None,
            path: path.to_owned(),
            canonical: path.to_owned(),
            format,
            opened,
            header,
            slice,
            names: Vec::new(),
            has_swapped_axes: false,
            granule,
            is_as_stored: false,
            damaged: None,
            stream,
            has_files: false,
        }
    }
}
