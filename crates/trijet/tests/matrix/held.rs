//! The handles that a cell has, and the small job that shows whether a device works.

use trijet::check::CheckOptions;
use trijet::sim::{Fault, FaultKind, HostConfig, Verb};
use trijet::{Buffer, Device, DeviceBuilder, PinnedBuffer, Result, Select, Stream};

/// Opens the device of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// A new host device.
    Host,
    /// The first CUDA device.
    Cuda,
}

impl Open {
    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn named(name: &str) -> Self {
        let all = [Self::Host, Self::Cuda];
        all.into_iter().find(|one| one.name() == name).expect("devices of this name")
    }

    pub(crate) fn builder(self) -> DeviceBuilder {
        match self {
            Self::Host => Device::builder().host(HostConfig::new().devices(2)),
            Self::Cuda => Device::builder().select(Select::Cuda(0)),
        }
    }

    /// Opens the devices. On the host, a checker reads their calls. If `is_to_be_lost` is set, the
    /// first change of a graph loses a device.
    pub(crate) fn devices(self, is_to_be_lost: bool) -> Result<Vec<Device>> {
        // A checker belongs to a driver, and CUDA has one driver per process. The checker would
        // report findings of earlier cells.
        let builder = match self {
            Self::Cuda => self.builder(),
            Self::Host => self.builder().check(CheckOptions::default()),
        };
        if !is_to_be_lost {
            return builder.open_all();
        }
        let faults = vec![Fault { verb: Verb::GraphUpdate, nth: 1, kind: FaultKind::DeviceLost }];
        builder.host(HostConfig::new().devices(2).faults(faults)).open_all()
    }
}

/// The number of elements of each buffer.
pub(crate) const LEN: usize = 64;
/// The bytes of `x`, `y` and `h` before the call.
pub(crate) const BEFORE: [u8; 3] = [1, 2, 3];
/// The value that verbs write.
pub(crate) const WRITTEN: u8 = 7;

/// The handles of a program.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) open: Open,
    pub(crate) device: Device,
    /// This device, and another one of its driver if there is one.
    pub(crate) devices: Vec<Device>,
    /// A stream that has pending work on the buffers.
    pub(crate) other: Stream,
    pub(crate) x: Buffer<u8>,
    pub(crate) y: Buffer<u8>,
    pub(crate) h: PinnedBuffer<u8>,
}

impl Held {
    pub(crate) fn new(open: Open, is_to_be_lost: bool) -> Result<Self> {
        let devices = open.devices(is_to_be_lost)?;
        let device = devices[0].clone();
        let other = device.stream()?;
        let (mut x, mut y) = (other.alloc(LEN)?, other.alloc(LEN)?);
        let mut h = device.pinned(LEN)?;
        h.write()?.fill(BEFORE[2]);
        other.fill_bytes(&mut x, BEFORE[0])?;
        other.fill_bytes(&mut y, BEFORE[1])?;
        Ok(Self { open, device, devices, other, x, y, h })
    }

    /// A stream that belongs to the program, which may capture it.
    pub(crate) fn of_program(&self) -> Result<Stream> {
        let theirs = self.device.stream()?;
        // SAFETY: the owner of the new stream is the stream that it stands for.
        unsafe { self.device.stream_from_raw(theirs.as_raw(), theirs) }
    }

    /// The bytes of `x`, the bytes of `y` after the first four, and the bytes of `h`.
    pub(crate) fn bytes(&self) -> Result<[Vec<u8>; 3]> {
        let s = self.device.stream()?;
        Ok([s.download(&self.x)?, s.download(&self.y.slice(4..))?, self.h.read()?.to_vec()])
    }
}

/// A small job in a new stream. Returns whether its bytes are right.
pub(crate) fn job(device: &Device) -> Result<bool> {
    let s = device.stream()?;
    let mut x = s.upload(&[5_u8; LEN])?;
    let mut y = s.alloc::<u8>(LEN)?;
    s.copy(&x, &mut y)?;
    s.fill_bytes(&mut x, 6)?;
    let bytes = [s.download(&x)?, s.download(&y)?];
    device.synchronize()?;
    Ok(bytes == [vec![6; LEN], vec![5; LEN]])
}
