//! Copies and fills: asynchronous copies in every direction, batches of copies, asynchronous fills,
//! and synchronous copies and fills in the legacy stream.
#![forbid(unsafe_code)]

use super::buffer::{AsView, AsViewMut};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::Mode;
use crate::device::driver::{Action, CopySpans, Form, SourceOrder};
use crate::device::memory::{Space, Span};
use crate::log::calling;
use crate::order::lane_ref::LaneRef;
use crate::order::peers::Reach;
use crate::order::track::Use;
use crate::stream::{Device, Stream};
use smallvec::SmallVec;
use std::panic::Location;

#[cold]
fn differ(src: usize, dst: usize) -> Error {
    Error::new(
        ErrorKind::InvalidValue,
        "copy",
        format!("the source has {src} elements, and the target has {dst}"),
    )
}

#[cold]
fn overlap() -> Error {
    Error::new(ErrorKind::InvalidValue, "copy", "the source and the target overlap")
}

/// A copy whose arguments have been checked.
struct Copy<'s, 'a> {
    dst: &'s Span,
    src: &'s Span,
    uses: [Use<'a>; 2],
}

/// The new spans of a copy. A source or a target that is a part of a block needs a new span. The
/// caller of [`Copy::new`] owns the new spans, so that no span moves.
#[derive(Default)]
struct CopyParts {
    dst: Option<Span>,
    src: Option<Span>,
}

impl<'s, 'a> Copy<'s, 'a> {
    /// Checks the arguments of a copy. Returns `None` if there is nothing to copy.
    #[inline(always)]
    fn new<R, W>(src: &'a R, dst: &'a mut W, parts: &'s mut CopyParts) -> Result<Option<Self>>
    where
        R: AsView + ?Sized,
        W: AsViewMut<Element = R::Element> + ?Sized,
        'a: 's,
    {
        let (src, dst) = (src.as_view(), dst.as_view_mut());
        if src.len() != dst.len() {
            return Err(differ(src.len(), dst.len()));
        }
        let uses = [src.read_use(), dst.write_use(Mode::Write)];
        let (src, dst) = (src.span_in(&mut parts.src), dst.span_in(&mut parts.dst));
        if src.overlaps(dst) {
            return Err(overlap());
        }
        if src.bytes() == 0 {
            return Ok(None);
        }
        Ok(Some(Self { dst, src, uses }))
    }

    #[inline(always)]
    fn action(&self, form: Form) -> Action<'_> {
        Action::Copy { dst: self.dst, src: self.src, form }
    }
}

/// Copies that are enqueued together as one operation of a stream. The copies have no order among
/// each other (law [A19](crate::laws#a19)).
#[derive(Debug, Default)]
pub struct Batch<'a> {
    copies: SmallVec<[CopySpans; 4]>,
    uses: SmallVec<[Use<'a>; 8]>,
}

impl<'a> Batch<'a> {
    /// Maximum number of copies per batch. An operation has at most 64 accesses, and a copy makes
    /// two accesses.
    pub const COPIES_MAX: usize = 32;

    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a copy of `src` to `dst`.
    ///
    /// # Errors
    /// `InvalidValue` if the lengths differ, if the batch has [`Batch::COPIES_MAX`] copies already,
    /// or if the copies have different directions (upload, download, within a device).
    /// `InvalidValue` also if one copy of the batch would write bytes that it or another copy
    /// accesses.
    pub fn add<R, W>(&mut self, src: &'a R, dst: &'a mut W) -> Result<()>
    where
        R: AsView + ?Sized,
        W: AsViewMut<Element = R::Element> + ?Sized,
    {
        let mut parts = CopyParts::default();
        let Some(copy) = Copy::new(src, dst, &mut parts)? else { return Ok(()) };
        let refuse = |cause: &'static str| Error::new(ErrorKind::InvalidValue, "batch", cause);
        if self.copies.len() == Self::COPIES_MAX {
            return Err(refuse("a batch holds at most 32 copies; put this copy in another batch"));
        }
        let Copy { dst, src, uses } = copy;
        let copy = CopySpans { dst: dst.clone(), src: src.clone() };
        if self.copies.first().is_some_and(|first| first.engine() != copy.engine()) {
            return Err(refuse(
                "the copies of a batch have the same direction, and this copy has another one; put \
                 it in another batch",
            ));
        }
        let (dst, src) = (&copy.dst, &copy.src);
        let touches = |other: &CopySpans| {
            other.dst.overlaps(dst) || other.dst.overlaps(src) || other.src.overlaps(dst)
        };
        if self.copies.iter().any(touches) {
            return Err(refuse("two copies of a batch access the same bytes, and one writes them"));
        }
        self.copies.push(copy);
        self.uses.extend(uses);
        Ok(())
    }
}

impl Stream {
    /// Copies `src` to `dst` asynchronously, in any direction. The two have the same number of
    /// elements.
    ///
    /// A copy between two devices uses their link. Without a link, the bytes go through page-locked
    /// memory ([`Device::can_access`]).
    ///
    /// # Errors
    /// `InvalidValue` if the lengths differ, if `src` and `dst` overlap, or if one of them belongs
    /// to another driver than the stream; an error of the driver.
    #[track_caller]
    pub fn copy<R, W>(&self, src: &R, dst: &mut W) -> Result<()>
    where
        R: AsView + ?Sized,
        W: AsViewMut<Element = R::Element> + ?Sized,
    {
        let (src, mut dst, mut parts) = (src.as_view(), dst.as_view_mut(), CopyParts::default());
        let Some(copy) = Copy::new(&src, &mut dst, &mut parts)? else { return Ok(()) };
        match self.reach(copy.dst, copy.src)? {
            Reach::Direct => self.enqueue(copy.action(Form::Async), &copy.uses, Location::caller()),
            Reach::None => self.copy_unlinked(&src, dst),
        }
    }

    /// Copies all pairs of `batch` as one operation of the stream. The copies have no order among
    /// each other (law [A19](crate::laws#a19)). `order` determines when the driver may read the
    /// sources.
    ///
    /// ```
    /// use trijet::SourceOrder;
    /// use trijet::{Batch, Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let (mut a, mut b) = (device.pinned::<u8>(3)?, device.pinned::<u8>(5)?);
    /// a.write()?.fill(1);
    /// b.write()?.fill(2);
    /// let (mut x, mut y) = (s.alloc::<u8>(3)?, s.alloc::<u8>(5)?);
    /// let mut batch = Batch::new();
    /// batch.add(&a, &mut x)?;
    /// batch.add(&b, &mut y)?;
    /// s.copy_batch(batch, SourceOrder::Stream)?;
    /// s.copy(&x, &mut a)?;
    /// assert_eq!(&*a.read()?, &[1, 1, 1]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` if some memory belongs to another driver than the driver of the stream;
    /// `Unsupported` if the driver is older than CUDA 12.8; an error of the driver.
    #[track_caller]
    pub fn copy_batch(&self, batch: Batch<'_>, order: SourceOrder) -> Result<()> {
        calling::refuse("batch")?;
        if batch.copies.is_empty() {
            return self.lane().refuse_recorded("batch");
        }
        let site = Location::caller();
        if order != SourceOrder::Stream {
            // The driver may read the sources before earlier work of the stream has run. So the
            // writers of the sources must be complete now.
            for source in batch.uses.iter().filter(|access| access.mode == Mode::Read) {
                let domain = &self.lane().domain;
                domain.own("batch", source.track.domain)?;
                domain.host_wait_for(source.track, source.range.clone(), Mode::Read, site)?;
            }
        }
        for copy in &batch.copies {
            if self.reach(&copy.dst, &copy.src)? == Reach::None {
                let cause = "there is no link between the devices; enqueue the copies one by \
                             one, then they go through the host";
                return Err(Error::new(ErrorKind::Unsupported, "batch", cause));
            }
        }
        self.enqueue(Action::Batch { copies: &batch.copies, order }, &batch.uses, site)
    }

    /// If memory of a copy belongs to another device, gives the device of the stream access to that
    /// memory. Returns [`Reach::None`] if there is no link between the two devices.
    #[inline(always)]
    fn reach(&self, dst: &Span, src: &Span) -> Result<Reach> {
        let device = self.lane().device;
        for span in [dst, src] {
            if let Space::Device(owner) = span.memory().space()
                && owner != device
                && self.reach_device(owner)? == Reach::None
            {
                return Ok(Reach::None);
            }
        }
        Ok(Reach::Direct)
    }

    #[cold]
    fn reach_device(&self, owner: DeviceId) -> Result<Reach> {
        calling::refuse("copy")?;
        let LaneRef { domain, device, .. } = self.lane();
        let reached = domain.peers.reach(&**domain.driver(), *device, owner);
        reached.map_err(|error| domain.failed(*device, error))
    }

    /// Sets every byte of `dst` to `value`, asynchronously.
    ///
    /// # Errors
    /// `InvalidValue` for memory that the device cannot access; an error of the driver.
    #[track_caller]
    pub fn fill_bytes<W: AsViewMut + ?Sized>(&self, dst: &mut W, value: u8) -> Result<()> {
        let dst = dst.as_view_mut();
        if dst.is_empty() {
            return Ok(());
        }
        let span = dst.span();
        check_reach(&span, self.lane().device)?;
        let uses = [dst.write_use(Mode::Write)];
        let fill = Action::Fill { dst: &span, value, form: Form::Async };
        self.enqueue(fill, &uses, Location::caller())
    }
}

impl Device {
    /// Copies `src` to `dst` in the legacy stream, and waits as law [A18](crate::laws#a18) states.
    /// When the call returns, a download is complete, and so is an upload from page-locked memory.
    /// An upload from pageable memory may still run, but the source may be changed. The call does
    /// not wait for a copy within a device.
    ///
    /// # Errors
    /// The errors of [`Stream::copy`].
    #[track_caller]
    pub fn copy_now<R, W>(&self, src: &R, dst: &mut W) -> Result<()>
    where
        R: AsView + ?Sized,
        W: AsViewMut<Element = R::Element> + ?Sized,
    {
        let (src, mut dst, mut parts) = (src.as_view(), dst.as_view_mut(), CopyParts::default());
        let Some(copy) = Copy::new(&src, &mut dst, &mut parts)? else { return Ok(()) };
        let stream = self.legacy_stream()?;
        match stream.reach(copy.dst, copy.src)? {
            Reach::Direct => {
                stream.enqueue(copy.action(Form::Sync), &copy.uses, Location::caller())
            }
            Reach::None => {
                stream.copy_unlinked(&src, dst)?;
                stream.synchronize()
            }
        }
    }

    /// Sets every byte of `dst` to `value` in the legacy stream. If `dst` is page-locked memory,
    /// waits until the fill is complete. Otherwise does not wait (law [A18](crate::laws#a18)).
    ///
    /// # Errors
    /// The errors of [`Stream::fill_bytes`].
    #[track_caller]
    pub fn fill_now<W: AsViewMut + ?Sized>(&self, dst: &mut W, value: u8) -> Result<()> {
        let dst = dst.as_view_mut();
        if dst.is_empty() {
            return Ok(());
        }
        let (stream, span) = (self.legacy_stream()?, dst.span());
        check_reach(&span, self.id())?;
        let uses = [dst.write_use(Mode::Write)];
        let fill = Action::Fill { dst: &span, value, form: Form::Sync };
        stream.enqueue(fill, &uses, Location::caller())
    }
}

fn check_reach(span: &Span, device: DeviceId) -> Result<()> {
    if span.is_reached_by(device) {
        return Ok(());
    }
    let cause = format!("{device} cannot access {span}");
    Err(Error::new(ErrorKind::InvalidValue, "fill", cause))
}
