//! The resources that the measured calls need. They are created before the long kernel starts, and
//! dropped after it has ended.

use super::call::Call;
use crate::bare::lab::Lab;
use crate::bare::step::Held;
use crate::doctor::measure::work::Lane;
use std::rc::Rc;
use trijet::kernels::AXPY;
use trijet::{
    Buffer, Bytes, Device, Event, PageableBuffer, PinnedBuffer, Readiness, Result, Select, Stream,
};

const MIB: usize = 1 << 20;
const LARGE: usize = 16 * MIB;
const SMALL: usize = 4096;

/// A stream and buffers of a device handle that was opened again. This handle has not loaded any
/// kernel yet.
struct Fresh {
    stream: Stream,
    x: Buffer<f32>,
    y: Buffer<f32>,
}

pub(super) struct Stage<'a> {
    device: &'a Device,
    lab: Option<&'a Lab>,
    held: Held,
    /// The allocation that a call makes or frees.
    buffer: Option<Buffer<u8>>,
    fresh: Option<Fresh>,
    /// The event after the work that the measured call has enqueued.
    end: Rc<Event>,
    legacy: Lane,
    pinned: PinnedBuffer<u8>,
    pages: PageableBuffer<u8>,
    few_pages: PageableBuffer<u8>,
    far: Buffer<u8>,
    small: Buffer<u8>,
    small_too: Buffer<u8>,
}

/// The work that the measured call has enqueued. The kernel on b counts as ended only when this
/// work has ended as well.
pub(super) struct Side<'a> {
    lab: Option<&'a Lab>,
    end: Rc<Event>,
}

impl Side<'_> {
    pub(super) fn is_done(&self) -> Result<bool> {
        let bare = self.lab.map_or(Ok(true), Lab::ready)?;
        Ok(bare && self.end.query()? == Readiness::Ready)
    }
}

impl<'a> Stage<'a> {
    pub(super) fn new(device: &'a Device, lab: Option<&'a Lab>) -> Result<Self> {
        let s = device.stream()?;
        let mut this = Self {
            device,
            lab,
            held: Held::default(),
            buffer: None,
            fresh: None,
            end: Rc::new(device.event()?),
            legacy: Lane::new(device, device.legacy_stream()?)?,
            pinned: device.pinned(LARGE)?,
            pages: device.pageable(LARGE)?,
            few_pages: device.pageable(SMALL)?,
            far: s.alloc(LARGE)?,
            small: s.alloc(SMALL)?,
            small_too: s.alloc(SMALL)?,
        };
        this.pinned.write()?.fill(1);
        this.pages.write()?.fill(1);
        this.few_pages.write()?.fill(1);
        this.end.record(&s)?;
        Ok(this)
    }

    /// Drops the objects that a failed call has left.
    pub(super) fn reset(&mut self) {
        (self.held, self.buffer, self.fresh) = (Held::default(), None, None);
    }

    pub(super) fn side(&self) -> Side<'a> {
        Side { lab: self.lab, end: Rc::clone(&self.end) }
    }

    /// Creates the objects that `call` needs.
    pub(super) fn prepare(&mut self, call: Call, b: &Stream) -> Result<()> {
        match (call, self.lab) {
            (Call::Bare(step), Some(lab)) => lab.prepare(step, &mut self.held)?,
            (Call::Alloc(mib), _) => drop(b.alloc::<u8>(mib * MIB)?),
            (Call::Grow(_), _) => {
                self.device.synchronize()?;
                self.device.trim_memory(Bytes(0))?;
            }
            (Call::Free(mib), _) => self.buffer = Some(b.alloc(mib * MIB)?),
            (Call::Trim, _) => drop(b.alloc::<u8>(64 * MIB)?),
            (Call::FirstLaunch, _) => self.fresh = Some(self.open_again()?),
            _ => {}
        }
        Ok(())
    }

    /// Makes the measured call.
    pub(super) fn act(&mut self, call: Call, a: &Stream, b: &Stream) -> Result<()> {
        match call {
            Call::Nothing => Ok(()),
            Call::Bare(step) => match self.lab {
                Some(lab) => lab.act(step, &mut self.held),
                None => Ok(()),
            },
            Call::Alloc(mib) | Call::Grow(mib) => {
                self.buffer = Some(b.alloc(mib * MIB)?);
                Ok(())
            }
            Call::Free(_) => {
                self.buffer = None;
                Ok(())
            }
            Call::Trim => self.device.trim_memory(Bytes(0)),
            Call::Event => self.device.event().map(drop),
            Call::Stream => self.device.stream().map(drop),
            Call::Pinned => b.copy(&self.pinned, &mut self.far),
            Call::PageableOnB => b.copy(&self.pages, &mut self.far),
            Call::FewPagesOnA => a.copy(&self.few_pages, &mut self.small),
            Call::PageableOnA => a.copy(&self.pages.slice(..MIB), &mut self.far.slice_mut(..MIB)),
            Call::HostFn => b.host_fn(|| ()),
            Call::NowPageable => self.device.copy_now(&self.few_pages, &mut self.small),
            Call::NowOnDevice => self.device.copy_now(&self.small, &mut self.small_too),
            Call::NowFill => self.device.fill_now(&mut self.small, 1),
            Call::LegacyKernel => self.legacy.launch(1),
            Call::LegacyRecord => self.end.record(&self.legacy.stream),
            Call::FirstLaunch => match &mut self.fresh {
                Some(Fresh { stream, x, y }) => {
                    stream.launch(&AXPY, (1.0, &*x, y))?;
                    self.end.record(stream)
                }
                None => Ok(()),
            },
        }
    }

    /// Drops the objects that `call` has left. The caller guarantees that no work runs.
    pub(super) fn clean(&mut self, call: Call) -> Result<()> {
        if let (Call::Bare(step), Some(lab)) = (call, self.lab) {
            lab.clean(step, &mut self.held)?;
        }
        self.reset();
        Ok(())
    }

    fn open_again(&self) -> Result<Fresh> {
        let ordinal = self.device.id().0;
        let device = Device::open(match self.device.info().compute {
            (0, _) => Select::Host(ordinal),
            _ => Select::Cuda(ordinal),
        })?;
        let stream = device.stream()?;
        let (mut x, mut y) = (stream.alloc::<f32>(SMALL / 4)?, stream.alloc::<f32>(SMALL / 4)?);
        stream.fill_bytes(&mut x, 0)?;
        stream.fill_bytes(&mut y, 0)?;
        stream.synchronize()?;
        Ok(Fresh { stream, x, y })
    }
}
