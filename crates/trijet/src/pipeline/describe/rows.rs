//! Typed rows. Sources are slices, iterators and functions; sinks are vectors, slices and
//! functions.
//!
//! A typed source or sink puts its element type `T` into its layout, and a run refuses stages of
//! another element type. The same memory is used as bytes and as elements: `T` is an [`Element`],
//! so every bit pattern is a value.
#![forbid(unsafe_code)]

use super::sink::Sink;
use super::source::Source;
use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::Element;
use crate::pipeline::plan::layout::Layout;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Mutex;

fn invalid(op: &'static str, cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause)
}

fn index(row: u64) -> usize {
    usize::try_from(row).expect("the rows are in memory")
}

/// A source of data in memory: a slice, an array or a vector, as rows of `row_len` elements.
///
/// A run refuses data that are not a whole number of rows.
///
/// ```
/// use trijet::kernels::AXPY;
/// use trijet::Pipeline;
/// use trijet::pipeline::rows_of;
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let x = vec![2.0f32; 6000];
/// let mut y: Vec<f32> = Vec::new();
/// Pipeline::on(&device)
///     .source(rows_of(&x, 10))
///     .stage(|s, x, mut y| {
///         s.fill_bytes(&mut y, 0)?;
///         s.launch(&AXPY, (1.5f32, x, y))
///     })
///     .sink(&mut y)
///     .run()?;
/// assert_eq!(y, vec![3.0; 6000]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[must_use]
pub fn rows_of<T: Element>(data: impl AsRef<[T]> + Send + Sync, row_len: usize) -> impl Source {
    MemoryRows { data, row_len, elements: PhantomData::<fn() -> T> }
}

struct MemoryRows<T, D> {
    data: D,
    row_len: usize,
    elements: PhantomData<fn() -> T>,
}

impl<T: Element, D: AsRef<[T]> + Send + Sync> Source for MemoryRows<T, D> {
    fn layout(&self) -> Layout {
        let rows = self.data.as_ref().len().checked_div(self.row_len).unwrap_or(0);
        Layout::of::<T>(rows as u64, self.row_len)
    }

    fn check(&self) -> Result<()> {
        let (len, row_len) = (self.data.as_ref().len(), self.row_len);
        if !len.is_multiple_of(row_len) {
            let cause = format!("{len} elements is not a whole number of rows of {row_len}");
            return Err(invalid("rows_of", cause));
        }
        Ok(())
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let first = index(rows.start) * self.row_len;
        let end = index(rows.end) * self.row_len;
        into.copy_from_slice(bytemuck::cast_slice(&self.data.as_ref()[first..end]));
        Ok(())
    }
}

/// A source of rows that an iterator yields: vectors, arrays or slices of `row_len` elements. The
/// run takes the first `rows` rows.
///
/// An iterator cannot go back. The next chunk may need rows of the previous chunk as its halo. So
/// the source keeps these rows. A run fails if the iterator ends early or a row has another length.
///
/// ```
/// use trijet::Pipeline;
/// use trijet::pipeline::rows_from_iter;
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let countdown = (0..4u32).rev().map(|n| [n, 10 * n]);
/// let mut copies: Vec<u32> = Vec::new();
/// Pipeline::on(&device)
///     .source(rows_from_iter(countdown, 4, 2))
///     .stage::<u32, u32>(|s, x, mut y| s.copy(&x, &mut y))
///     .sink(&mut copies)
///     .run()?;
/// assert_eq!(copies, [3, 30, 2, 20, 1, 10, 0, 0]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[must_use]
pub fn rows_from_iter<T: Element, R: AsRef<[T]> + Send>(
    iter: impl IntoIterator<Item = R, IntoIter: Send>,
    rows: u64,
    row_len: usize,
) -> impl Source {
    let window = RowWindow { iter: iter.into_iter(), kept: VecDeque::new(), first: 0 };
    let layout = Layout::of::<T>(rows, row_len);
    Forward { layout, row_len, window: Mutex::new(window), elements: PhantomData::<fn() -> T> }
}

struct Forward<T, I: Iterator> {
    layout: Layout,
    row_len: usize,
    window: Mutex<RowWindow<I>>,
    elements: PhantomData<fn() -> T>,
}

/// An iterator, and the yielded rows that a later chunk may need.
struct RowWindow<I: Iterator> {
    iter: I,
    kept: VecDeque<I::Item>,
    /// The number of the first row in `kept`. If `kept` is empty, the number of the row that the
    /// iterator yields next.
    first: u64,
}

impl<T: Element, I: Iterator<Item: AsRef<[T]> + Send> + Send> Forward<T, I> {
    /// Takes the row after the kept rows from the iterator.
    fn next(&self, window: &mut RowWindow<I>) -> Result<I::Item> {
        let row = window.first + window.kept.len() as u64;
        let Some(values) = window.iter.next() else {
            let cause = format!("the iterator ended after {row} of {} rows", self.layout.rows);
            return Err(invalid("rows_from_iter", cause));
        };
        let (len, row_len) = (values.as_ref().len(), self.row_len);
        if len != row_len {
            let cause = format!("row {row} has {len} elements; every row must have {row_len}");
            return Err(invalid("rows_from_iter", cause));
        }
        Ok(values)
    }
}

impl<T: Element, I: Iterator<Item: AsRef<[T]> + Send> + Send> Source for Forward<T, I> {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let window = &mut *self.window.lock().expect("an iterator that panicked ends the run");
        if rows.start < window.first {
            let cause = format!(
                "row {} was asked for after row {}; an iterator only goes forwards",
                rows.start, window.first
            );
            return Err(invalid("rows_from_iter", cause));
        }
        while window.first < rows.start {
            if window.kept.pop_front().is_none() {
                self.next(window)?;
            }
            window.first += 1;
        }
        let row_bytes = self.row_len * size_of::<T>();
        for (number, into) in into.chunks_exact_mut(row_bytes).enumerate() {
            if number == window.kept.len() {
                let values = self.next(window)?;
                window.kept.push_back(values);
            }
            into.copy_from_slice(bytemuck::cast_slice(window.kept[number].as_ref()));
        }
        Ok(())
    }
}

/// A source of `rows` rows of `row_len` elements, which a function computes or reads.
///
/// `read` is called with a range of row numbers and a slice for the elements of these rows. `read`
/// fills the whole slice, which may have elements of an earlier chunk. A row that lies in the halos
/// of several chunks is read once for each of these chunks.
///
/// ```
/// use trijet::Pipeline;
/// use trijet::pipeline::rows_from_fn;
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let squares = rows_from_fn(100, 1, |rows, values: &mut [u64]| {
///     for (row, value) in rows.zip(values) {
///         *value = row * row;
///     }
///     Ok(())
/// });
/// let mut found: Vec<u64> = Vec::new();
/// Pipeline::on(&device)
///     .source(squares)
///     .stage::<u64, u64>(|s, x, mut y| s.copy(&x, &mut y))
///     .sink(&mut found)
///     .run()?;
/// assert_eq!(found[99], 9801);
/// # Ok::<(), trijet::Error>(())
/// ```
#[must_use]
pub fn rows_from_fn<T: Element>(
    rows: u64,
    row_len: usize,
    read: impl Fn(Range<u64>, &mut [T]) -> Result<()> + Send + Sync,
) -> impl Source {
    let layout = Layout::of::<T>(rows, row_len);
    RowsReads { layout, read, elements: PhantomData::<fn() -> T> }
}

struct RowsReads<T, F> {
    layout: Layout,
    read: F,
    elements: PhantomData<fn() -> T>,
}

impl<T: Element, F> Source for RowsReads<T, F>
where
    F: Fn(Range<u64>, &mut [T]) -> Result<()> + Send + Sync,
{
    fn layout(&self) -> Layout {
        self.layout
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        if let Ok(values) = bytemuck::try_cast_slice_mut(into) {
            return (self.read)(rows, values);
        }
        // `into` may not be aligned for the elements.
        let mut values: Vec<T> = bytemuck::pod_collect_to_vec(into);
        (self.read)(rows, &mut values)?;
        into.copy_from_slice(bytemuck::cast_slice(&values));
        Ok(())
    }
}

/// A vector as a sink. A run appends its results to the vector. After an error, the vector has the
/// rows that were finished before the error.
///
/// A run refuses rows of another element type than `T`, except for `u8`, which means plain bytes. A
/// `Vec<u8>` takes rows of any type as their bytes. A vector of any type takes rows of `u8` that
/// consist of whole elements.
///
/// ```
/// use trijet::Pipeline;
/// use trijet::pipeline::rows_of;
/// use trijet::{Device, ErrorKind, Select};
/// let device = Device::open(Select::Host(0))?;
/// let mut all = vec![7u8];
/// Pipeline::on(&device).source(rows_of([1u8, 2, 3], 1)).sink(&mut all).run()?;
/// assert_eq!(all, [7, 1, 2, 3]);
///
/// let mut bytes: Vec<u8> = Vec::new();
/// Pipeline::on(&device).source(rows_of([1.5f32], 1)).sink(&mut bytes).run()?;
/// assert_eq!(bytes, 1.5f32.to_ne_bytes());
///
/// let mut numbers: Vec<u32> = Vec::new();
/// let refused = Pipeline::on(&device).source(rows_of([1.5f32], 1)).sink(&mut numbers).run();
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidValue);
/// # Ok::<(), trijet::Error>(())
/// ```
impl<T: Element> Sink for Vec<T> {
    fn check(&self, results: Layout) -> Result<()> {
        results.check_elements::<T>()
    }

    fn write(&mut self, _: Range<u64>, bytes: &[u8]) -> Result<()> {
        let (held, more) = (self.len(), bytes.len().checked_div(size_of::<T>()).unwrap_or(0));
        self.resize(held + more, T::zeroed());
        bytemuck::cast_slice_mut(&mut self[held..]).copy_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A slice as a sink. A run writes each row at its index: row 0 at the start of the slice. A run
/// refuses a slice that is too short for all rows, and rows of another element type than `T`,
/// except for `u8`, which means plain bytes.
///
/// ```
/// use trijet::Pipeline;
/// use trijet::pipeline::rows_of;
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let mut all = [0u8; 4];
/// let source = rows_of([1u8, 2, 3], 1);
/// Pipeline::on(&device).source(source).sink(&mut all[..]).rows(vec![1..3]).run()?;
/// assert_eq!(all, [0, 2, 3, 0]);
/// # Ok::<(), trijet::Error>(())
/// ```
impl<T: Element> Sink for [T] {
    fn check(&self, results: Layout) -> Result<()> {
        results.check_elements::<T>()?;
        let (wanted, held) = (results.bytes()?, size_of_val(self));
        if wanted > held as u64 {
            let cause =
                format!("the results have {wanted} bytes, but the slice has only {held} bytes");
            return Err(invalid("sink", cause));
        }
        Ok(())
    }

    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let row_bytes = bytes.len().checked_div(index(rows.end - rows.start)).unwrap_or(0);
        let first = index(rows.start) * row_bytes;
        let all: &mut [u8] = bytemuck::cast_slice_mut(self);
        all[first..first + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A sink that calls a function with a range of row numbers and the elements of these rows, in the
/// order of the rows. A run refuses rows of another element type than `T`, except for `u8`, which
/// means plain bytes.
///
/// ```
/// use trijet::Pipeline;
/// use trijet::pipeline::{rows_of, rows_to_fn};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let data: Vec<u32> = (0..1000).collect();
/// let mut sum = 0;
/// let add = |_rows, values: &[u32]| {
///     sum += values.iter().sum::<u32>();
///     Ok(())
/// };
/// Pipeline::on(&device).source(rows_of(&data, 10)).sink(rows_to_fn(add)).run()?;
/// assert_eq!(sum, 499_500);
/// # Ok::<(), trijet::Error>(())
/// ```
#[must_use]
pub fn rows_to_fn<T: Element>(
    write: impl FnMut(Range<u64>, &[T]) -> Result<()> + Send,
) -> impl Sink {
    RowCalls { write, elements: PhantomData::<fn() -> T> }
}

struct RowCalls<T, F> {
    write: F,
    elements: PhantomData<fn() -> T>,
}

impl<T: Element, F: FnMut(Range<u64>, &[T]) -> Result<()> + Send> Sink for RowCalls<T, F> {
    fn check(&self, results: Layout) -> Result<()> {
        results.check_elements::<T>()
    }

    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        match bytemuck::try_cast_slice(bytes) {
            Ok(values) => (self.write)(rows, values),
            // `bytes` may not be aligned for the elements.
            Err(_) => (self.write)(rows, &bytemuck::pod_collect_to_vec::<u8, T>(bytes)),
        }
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
