//! Typed buffers and views of buffers. A buffer owns a share of its block, and a view borrows the
//! share.
//!
//! Borrows state accesses: an operation reads through `&` and writes through `&mut`. The borrow
//! ends with the enqueue call. After the call, the block keeps the memory alive and knows the
//! operations that use it.
#![forbid(unsafe_code)]

use super::block::Block;
use super::heap::share::Share;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::Mode;
use crate::base::units::Bytes;
use crate::device::memory::{Space, Span};
use crate::order::track::Use;
use crate::stream::Device;
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

/// A type for which every bit pattern is a valid value, so that a device may return any bytes.
/// Every type that is `Pod`, `Send` and `Sync` is an element.
///
/// A structure is plain data if the derive macros of [`bytemuck`](crate::bytemuck) accept it:
///
/// ```
/// use trijet::bytemuck::{Pod, Zeroable};
/// use trijet::{Device, Select};
/// #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
/// #[bytemuck(crate = "trijet::bytemuck")]
/// #[repr(C)]
/// struct Particle {
///     place: [f32; 3],
///     charge: f32,
/// }
/// let stream = Device::open(Select::Host(0))?.stream()?;
/// let one = Particle { place: [1.0, 2.0, 3.0], charge: -1.0 };
/// let buffer = stream.upload(&[one; 10])?;
/// assert_eq!(stream.download(&buffer)?, [one; 10]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a buffer: a device may write bytes that are no \
               value of this type",
    label = "no element",
    note = "elements are numbers, arrays of them, and structures of them without padding: `#[repr(C)] \
            #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]`"
)]
pub trait Element: bytemuck::Pod + Send + Sync {}
#[diagnostic::do_not_recommend]
impl<T: bytemuck::Pod + Send + Sync> Element for T {}

/// Marks a buffer in device memory.
#[derive(Debug, Clone, Copy)]
pub struct OnDevice;
/// Marks a buffer in page-locked host memory.
#[derive(Debug, Clone, Copy)]
pub struct PageLocked;

/// Marks a buffer in ordinary host memory.
#[derive(Debug, Clone, Copy)]
pub struct Pageable;

/// Elements in device memory, or in host memory ([`crate::PinnedBuffer`] and
/// [`crate::PageableBuffer`]).
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let mut h = device.pinned::<u32>(4)?;
/// h.write()?.copy_from_slice(&[1, 2, 3, 4]);
/// let mut x = s.alloc::<u32>(4)?;
/// s.copy(&h, &mut x)?;
/// let (left, right) = x.split(1);
/// let mut back = device.pinned::<u32>(3)?;
/// device.stream()?.copy(&right, &mut back)?; // another stream: the wait is inserted
/// assert_eq!(&*back.read()?, &[2, 3, 4]);
/// assert_eq!(left.len(), 1);
/// # Ok::<(), trijet::Error>(())
/// ```
pub struct Buffer<T, S = OnDevice> {
    pub(crate) block: Share,
    /// The offset of the first element in the block, in bytes.
    pub(crate) start: u64,
    /// The number of elements.
    pub(crate) len: usize,
    types: PhantomData<(fn() -> T, S)>,
}

/// A borrow of elements of a buffer for reading.
pub struct View<'a, T> {
    block: &'a Arc<Block>,
    start: u64,
    len: usize,
    types: PhantomData<fn() -> T>,
}

/// An exclusive borrow of elements of a buffer for writing.
pub struct ViewMut<'a, T> {
    block: &'a Arc<Block>,
    start: u64,
    len: usize,
    types: PhantomData<fn() -> T>,
}

/// The size of `len` elements of type `T` in bytes.
pub(crate) fn bytes_of<T>(op: &'static str, len: usize) -> Result<Bytes> {
    let size = size_of::<T>();
    if size == 0 {
        return Err(Error::new(ErrorKind::InvalidValue, op, "an element has no bytes"));
    }
    match len.checked_mul(size) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(Bytes(bytes as u64)),
        _ => {
            let cause = format!("{len} elements of {size} bytes are more than memory can hold");
            Err(Error::new(ErrorKind::InvalidValue, op, cause))
        }
    }
}

/// The indices that `range` selects from `len` elements, as a range with a start and an end.
///
/// # Panics
/// If the range does not lie within `0..len`, as for a slice.
pub(crate) fn within(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "elements {start}..{end} are not in the range 0..{len}");
    start..end
}

impl<T: Element, S> Buffer<T, S> {
    /// Announces that several streams will use the buffer. From now on, an event is recorded right
    /// after each operation on the buffer. If the buffer was allocated in the stream `home`, an
    /// event is recorded in `home` now. So later waits wait for no more than necessary.
    pub(crate) fn expect_crossing(self, home: Option<&Stream>) -> Result<Self> {
        self.block.track.set_shared();
        if let Some(stream) = home {
            stream.lane().mark()?;
        }
        Ok(self)
    }

    /// Gives the allocation a name, which findings and timelines use. Parts that are split off the
    /// buffer have the same name.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let frames = device.pinned::<u16>(64)?.named("frames");
    /// assert_eq!(frames.len(), 64);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.block.name(name);
        self
    }

    pub(crate) fn new(block: Arc<Block>, len: usize) -> Self {
        Self::at(block, 0, len)
    }

    /// A buffer of `len` elements of a block. The first element is at the byte `start` of the
    /// block.
    pub(super) fn at(block: Arc<Block>, start: u64, len: usize) -> Self {
        Self { block: Share::new(block), start, len, types: PhantomData }
    }

    /// The address of the first element, as kernels and other libraries see it.
    #[must_use]
    pub fn address(&self) -> u64 {
        let bytes = (self.len * size_of::<T>()) as u64;
        self.block.expose(&(self.start..self.start + bytes))
    }

    /// The address of the first element, see [`probe::address`](crate::probe::address).
    pub(crate) fn unexposed_address(&self) -> u64 {
        self.block.unexposed_address(self.start)
    }

    /// The number of elements.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All elements, for reading.
    #[must_use]
    #[inline]
    pub fn view(&self) -> View<'_, T> {
        View { block: &self.block, start: self.start, len: self.len, types: PhantomData }
    }

    /// All elements, for writing.
    #[must_use]
    #[inline]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut { block: &self.block, start: self.start, len: self.len, types: PhantomData }
    }

    /// The elements `range`, for reading.
    ///
    /// # Panics
    /// If the range does not lie within the buffer, as for a slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        self.view().slice(range)
    }

    /// The elements `range`, for writing.
    ///
    /// # Panics
    /// If the range does not lie within the buffer, as for a slice.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        self.view_mut().slice(range)
    }

    /// Splits the buffer into the elements before `at` and the elements from `at` to the end.
    /// Different streams may use the two parts without waiting for each other.
    ///
    /// # Panics
    /// If `at` is greater than the length.
    #[must_use]
    pub fn split(self, at: usize) -> (Self, Self) {
        assert!(at <= self.len, "split at {at}, beyond the {} elements", self.len);
        self.block.track.set_parts();
        let start = self.start + (at * size_of::<T>()) as u64;
        let right =
            Self { block: self.block.clone(), start, len: self.len - at, types: PhantomData };
        (Self { len: at, ..self }, right)
    }
}

fn device_of(block: &Block) -> Option<DeviceId> {
    match block.whole().memory().space() {
        Space::Device(device) => Some(device),
        Space::Pinned | Space::Pageable => None,
    }
}

impl<T, S> Buffer<T, S> {
    /// Whether the buffer is in host memory.
    pub(crate) fn is_on_host(&self) -> bool {
        self.block.whole().memory().space().is_host()
    }

    /// The name of the allocation, if the program has named it.
    pub(crate) fn given_name(&self) -> Option<String> {
        self.block.given_name()
    }

    /// The device of the memory. `None` for host memory.
    pub(crate) fn device_id(&self) -> Option<DeviceId> {
        device_of(&self.block)
    }

    /// Forgets which streams have used the buffer. From now on, an event is recorded after each
    /// operation on the buffer only if two streams use the buffer.
    pub(crate) fn forget_lanes(&self) {
        self.block.track.forget_lanes();
    }

    /// Prepares the buffer for several users, each of a part of the buffer. The caller must be the
    /// only user of the buffer during this call.
    pub(crate) fn share_in_parts(&self) {
        self.block.track.set_parts();
    }

    /// The elements `range` as a second buffer in the same memory. The caller must order all uses
    /// of these elements, whichever of the two buffers they go through.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let start = self.start + (range.start * size_of::<T>()) as u64;
        Self { block: self.block.clone(), start, len: range.len(), types: PhantomData }
    }

    /// The elements `range` for writing, although `self` is a shared reference. Only one thread at
    /// a time may enqueue operations that use views from this function. The order of these
    /// operations must be the order of the tasks.
    pub(crate) fn shared_view_mut(&self, range: Range<usize>) -> ViewMut<'_, T> {
        let start = self.start + (range.start * size_of::<T>()) as u64;
        ViewMut { block: &self.block, start, len: range.len(), types: PhantomData }
    }
}

/// The functions that [`View`] and [`ViewMut`] both have.
macro_rules! of_both_views {
    ($view:ident) => {
        impl<'a, T: Element> $view<'a, T> {
            /// The address of the first element, as kernels and other libraries see it.
            #[must_use]
            pub fn address(&self) -> u64 {
                self.block.expose(&self.range())
            }

            /// The number of elements.
            #[must_use]
            #[inline]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are no elements.
            #[must_use]
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// The device of the memory. `None` for host memory.
            pub(crate) fn device_id(&self) -> Option<DeviceId> {
                device_of(self.block)
            }

            /// The device that the memory belongs to.
            pub(super) fn device(&self) -> Device {
                Device::of_shared(&self.block.device_handle())
            }

            #[inline]
            pub(crate) fn span(&self) -> Span {
                self.block.span(self.range())
            }

            /// The span of the view. If the view covers the whole block, borrows the span of the
            /// block. Otherwise stores a new span in `part`.
            #[inline]
            pub(crate) fn span_in<'s>(&self, part: &'s mut Option<Span>) -> &'s Span
            where
                'a: 's,
            {
                self.block.span_in(self.range(), part)
            }

            #[inline]
            pub(crate) fn range(&self) -> Range<u64> {
                self.start..self.start + (self.len * size_of::<T>()) as u64
            }

            fn part(self, range: impl RangeBounds<usize>) -> Self {
                let range = within(range, self.len);
                let start = self.start + (range.start * size_of::<T>()) as u64;
                Self { start, len: range.end - range.start, ..self }
            }

            /// The same bytes as elements of another type.
            fn elements<U>(self) -> $view<'a, U> {
                let len = self.len * size_of::<T>() / size_of::<U>();
                $view { block: self.block, start: self.start, len, types: PhantomData }
            }
        }
    };
}
of_both_views!(View);
of_both_views!(ViewMut);

impl<'a, T: Element> View<'a, T> {
    /// The elements `range` of the view.
    ///
    /// # Panics
    /// If the range does not lie within the view, as for a slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'a, T> {
        self.part(range)
    }

    #[inline]
    pub(crate) fn read_use(&self) -> Use<'a> {
        Use { track: &self.block.track, range: self.range(), mode: Mode::Read }
    }

    pub(crate) fn as_bytes(&self) -> View<'a, u8> {
        self.elements()
    }

    pub(crate) fn from_bytes(bytes: &View<'a, u8>) -> Self {
        bytes.elements()
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// The elements `range` of the view.
    ///
    /// # Panics
    /// If the range does not lie within the view, as for a slice.
    #[must_use]
    pub fn slice(self, range: impl RangeBounds<usize>) -> ViewMut<'a, T> {
        self.part(range)
    }

    /// A shorter borrow of the same elements, for example for one call.
    #[must_use]
    #[inline]
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { block: self.block, start: self.start, len: self.len, types: PhantomData }
    }

    #[inline]
    pub(crate) fn write_use(&self, mode: Mode) -> Use<'a> {
        Use { track: &self.block.track, range: self.range(), mode }
    }

    pub(crate) fn into_bytes(self) -> ViewMut<'a, u8> {
        self.elements()
    }

    pub(crate) fn from_bytes(bytes: ViewMut<'a, u8>) -> Self {
        bytes.elements()
    }
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<'_, T> {}

/// Memory that an operation can read: buffers and views of any kind of memory.
pub trait AsView {
    /// The element type.
    type Element: Element;
    /// The elements.
    fn as_view(&self) -> View<'_, Self::Element>;
}

/// Memory that an operation can write: buffers and mutable views of any kind of memory.
pub trait AsViewMut {
    /// The element type.
    type Element: Element;
    /// The elements.
    fn as_view_mut(&mut self) -> ViewMut<'_, Self::Element>;
}

impl<T: Element, S> AsView for Buffer<T, S> {
    type Element = T;
    #[inline]
    fn as_view(&self) -> View<'_, T> {
        self.view()
    }
}

impl<T: Element> AsView for View<'_, T> {
    type Element = T;
    #[inline]
    fn as_view(&self) -> View<'_, T> {
        *self
    }
}

impl<T: Element, S> AsViewMut for Buffer<T, S> {
    type Element = T;
    #[inline]
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        self.view_mut()
    }
}

impl<T: Element> AsView for ViewMut<'_, T> {
    type Element = T;
    #[inline]
    fn as_view(&self) -> View<'_, T> {
        View { block: self.block, start: self.start, len: self.len, types: PhantomData }
    }
}

impl<T: Element> AsViewMut for ViewMut<'_, T> {
    type Element = T;
    #[inline]
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        self.reborrow()
    }
}

impl<'a, V: AsView + ?Sized> From<&'a V> for View<'a, V::Element> {
    fn from(memory: &'a V) -> Self {
        memory.as_view()
    }
}

impl<'a, V: AsViewMut + ?Sized> From<&'a mut V> for ViewMut<'a, V::Element> {
    fn from(memory: &'a mut V) -> Self {
        memory.as_view_mut()
    }
}

impl<T, S> fmt::Debug for Buffer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer of {} elements of {}", self.len, std::any::type_name::<T>())
    }
}

impl<T> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "view of {} elements of {}", self.len, std::any::type_name::<T>())
    }
}

impl<T> fmt::Debug for ViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mutable view of {} elements of {}", self.len, std::any::type_name::<T>())
    }
}
