//! Host functions that use host memory. The enqueue call declares the memory, and the function gets
//! slices of the memory when the stream reaches it.
//!
//! The declaration orders the function like any other operation, on every stream. The function
//! follows the writers of its inputs and the users of its outputs, and later users follow the
//! function. The function accesses the bytes under the same locks as the operations of the host
//! device. So if the program orders the memory manually and makes a mistake, the result is wrong,
//! but there is no data race.
#![forbid(unsafe_code)]

use super::buffer::{AsView, AsViewMut, Buffer, Element};
use super::pinned::OnHost;
use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::device::memory::Span;
use crate::device::region::RangeGuard;
use crate::order::track::Use;
use crate::stream::Stream;
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::panic::Location;

/// The memory that a host function declares.
#[derive(Debug, Default)]
pub struct DeclaredMemory<'b> {
    uses: SmallVec<[Use<'b>; 4]>,
    touches: SmallVec<[(Span, Mode); 4]>,
}

mod sealed {
    #[expect(unnameable_types, reason = "only this crate implements it")]
    pub trait Sealed {}
}

/// Host memory that a host function can use: `&` of a buffer for reading, `&mut` of a buffer for
/// writing, or a tuple of these. Only this crate implements this trait.
pub trait HostUse<'b>: sealed::Sealed {
    /// A counted reference to the memory. It is kept until the function has run.
    type Held: Send + 'static;
    /// The bytes, which are locked while the function runs.
    type Locked<'a>;
    /// The argument that the function gets: slices of the elements.
    type Slice<'a>;

    /// Adds the use of this memory to `declared`.
    fn declare(self, declared: &mut DeclaredMemory<'b>) -> Self::Held;
    /// Locks the bytes for the run of the function.
    fn lock(held: &Self::Held) -> Self::Locked<'_>;
    /// The slices of the locked elements.
    fn slice<'a>(locked: &'a mut Self::Locked<'_>) -> Self::Slice<'a>;
}

/// A counted reference to the memory of a buffer.
#[derive(Debug)]
pub struct Held<T>(Span, PhantomData<fn() -> T>);

/// Locked elements. While the host function runs, no other operation writes the elements. If the
/// host function may write the elements, no other operation reads them.
#[derive(Debug)]
pub struct Locked<'a>(RangeGuard<'a>);

impl<T> Held<T> {
    fn lock(&self, mode: Mode) -> Locked<'_> {
        let guard = self.0.lock(mode);
        Locked(
            guard.expect(
                "another use of the same bytes runs now; the program must order the two uses",
            ),
        )
    }
}

impl<T: Element, S: OnHost> sealed::Sealed for &Buffer<T, S> {}
impl<T: Element, S: OnHost> sealed::Sealed for &mut Buffer<T, S> {}

impl<'b, T: Element, S: OnHost> HostUse<'b> for &'b Buffer<T, S> {
    type Held = Held<T>;
    type Locked<'a> = Locked<'a>;
    type Slice<'a> = &'a [T];

    fn declare(self, declared: &mut DeclaredMemory<'b>) -> Held<T> {
        let view = self.as_view();
        declared.uses.push(view.read_use());
        declared.touches.push((view.span(), Mode::Read));
        Held(view.span(), PhantomData)
    }

    fn lock(held: &Held<T>) -> Locked<'_> {
        held.lock(Mode::Read)
    }

    fn slice<'a>(locked: &'a mut Locked<'_>) -> &'a [T] {
        bytemuck::cast_slice(locked.0.bytes())
    }
}

impl<'b, T: Element, S: OnHost> HostUse<'b> for &'b mut Buffer<T, S> {
    type Held = Held<T>;
    type Locked<'a> = Locked<'a>;
    type Slice<'a> = &'a mut [T];

    fn declare(self, declared: &mut DeclaredMemory<'b>) -> Held<T> {
        let view = self.as_view_mut();
        declared.uses.push(view.write_use(Mode::Update));
        declared.touches.push((view.span(), Mode::Update));
        Held(view.span(), PhantomData)
    }

    fn lock(held: &Held<T>) -> Locked<'_> {
        held.lock(Mode::Update)
    }

    fn slice<'a>(locked: &'a mut Locked<'_>) -> &'a mut [T] {
        bytemuck::cast_slice_mut(locked.0.bytes_mut())
    }
}

macro_rules! tuples {
    ($(($($use:ident $at:tt),*))*) => {$(
        impl<$($use: sealed::Sealed),*> sealed::Sealed for ($($use,)*) {}

        impl<'b, $($use: HostUse<'b>),*> HostUse<'b> for ($($use,)*) {
            type Held = ($($use::Held,)*);
            type Locked<'a> = ($($use::Locked<'a>,)*);
            type Slice<'a> = ($($use::Slice<'a>,)*);

            fn declare(self, declared: &mut DeclaredMemory<'b>) -> Self::Held {
                ($(self.$at.declare(declared),)*)
            }

            fn lock(held: &Self::Held) -> Self::Locked<'_> {
                ($($use::lock(&held.$at),)*)
            }

            fn slice<'a>(locked: &'a mut Self::Locked<'_>) -> Self::Slice<'a> {
                ($($use::slice(&mut locked.$at),)*)
            }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}

impl Stream {
    /// Enqueues a host function that uses host memory, like [`Stream::host_fn`]. `uses` is a buffer
    /// or a tuple of up to four buffers: `&` for reading, `&mut` for writing. `run` gets slices of
    /// their elements. The uses order the function on every stream. The function follows the
    /// writers of its inputs and the users of its outputs, and later users follow the function (law
    /// [A27](crate::laws#a27)).
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (s, other) = (device.stream()?, device.stream()?);
    /// let (mut h, mut sums) = (device.pinned::<u32>(4)?, device.pinned::<u32>(1)?);
    /// s.fill_bytes(&mut h, 1)?;
    /// other.host_fn_with((&h, &mut sums), |(h, sums)| sums[0] = h.iter().sum())?;
    /// assert_eq!(sums.read()?[0], 4 * 0x0101_0101);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Stream::host_fn`]; `InvalidValue` for a buffer of a driver other than the
    /// driver of the stream.
    #[track_caller]
    pub fn host_fn_with<'b, U: HostUse<'b>>(
        &self,
        uses: U,
        run: impl for<'a> FnOnce(U::Slice<'a>) + Send + 'static,
    ) -> Result<()> {
        let mut declared = DeclaredMemory::default();
        let held = uses.declare(&mut declared);
        let run = move || {
            let mut locked = U::lock(&held);
            run(U::slice(&mut locked));
        };
        let DeclaredMemory { uses, touches } = &declared;
        self.enqueue_host_fn(Box::new(run), uses, touches, Location::caller())
    }
}
