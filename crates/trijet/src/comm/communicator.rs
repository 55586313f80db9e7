//! Devices that communicate, and what they may do.
#![forbid(unsafe_code)]

use super::member::Member;
use super::nccl::Nccl;
use super::ring;
use crate::base::error::{Error, ErrorKind, Result};
use crate::graph::Recording;
use crate::kernels::Reduction;
use crate::memory::{Element, ViewMut};
use crate::stream::Device;

/// Devices of a process that communicate.
///
/// A clone of the devices is kept, and the communicator may be used by several threads: operations of one call come in the
/// same order on all devices.
#[derive(Debug)]
pub struct Communicator {
    members: Vec<Member>,
    /// `None` for the ring of this library.
    nccl: Option<Nccl>,
}

fn refused(op: &'static str, cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause)
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Some(nccl) = &self.nccl {
            nccl.close(&self.members);
        }
    }
}

impl Communicator {
    /// A communicator over these devices. Their order is that of the parts of a reduction.
    ///
    /// # Errors
    /// `InvalidValue` for no device, for the same one twice, or for devices of different drivers; what the driver reports.
    pub fn over(devices: &[Device]) -> Result<Self> {
        const OP: &str = "communicator";
        let Some(first) = devices.first() else {
            return Err(refused(OP, "there is no device".to_owned()));
        };
        let mut members = Vec::new();
        for (number, device) in devices.iter().enumerate() {
            first.shared().domain.own(OP, device.shared().domain.id())?;
            if devices[..number].iter().any(|other| other.id() == device.id()) {
                return Err(refused(OP, format!("{} is there twice", device.id())));
            }
            members.push(Member::new(device)?);
        }
        Ok(Self { members, nccl: None })
    }

    /// A communicator over these GPUs that uses NCCL, whose kernels combine what they read from other GPUs. It is faster than
    /// [`Communicator::over`] for small data, and takes multiprocessors from other work.
    ///
    /// The library is opened at run time ([`probe::libraries`](crate::probe::libraries)). NVLink multicast stays off unless the environment
    /// says `NCCL_NVLS_ENABLE=1`. The sum of floating-point numbers has the bits that NCCL gives it, which are the same on all
    /// devices.
    ///
    /// # Errors
    /// As for [`Communicator::over`]; `NoTwin` for host devices; `Unsupported` if NCCL is missing or older than 2.18; what NCCL
    /// reports.
    pub fn with_nccl(devices: &[Device]) -> Result<Self> {
        let mut communicator = Self::over(devices)?;
        communicator.nccl = Some(Nccl::new(&communicator.members)?);
        Ok(communicator)
    }

    /// The same communicator in streams of a recording: what it enqueues becomes a part of the graph. The data are
    /// [arguments](Recording::argument) of the graph, or memory of its own.
    ///
    /// # Errors
    /// `Unsupported` for a communicator that uses NCCL, whose work only its own calls can enqueue; `InvalidValue` for devices of
    /// another driver; what the driver reports.
    pub fn recorded(&self, recording: &Recording) -> Result<Self> {
        if self.nccl.is_some() {
            let cause = "the work of NCCL cannot be recorded; `Communicator::over` can";
            return Err(Error::new(ErrorKind::Unsupported, "record", cause));
        }
        let member = |member: &Member| member.recorded(recording);
        Ok(Self { members: self.members.iter().map(member).collect::<Result<_>>()?, nccl: None })
    }

    /// The number of devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no devices, which never holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Combines the elements of all devices, and writes the results to each: `data` has those of each device, in the order of
    /// the communicator, and as many on each.
    ///
    /// The elements are cut into as many segments as there are devices, as equal as they can be. The elements of segment `k` are
    /// combined in the order of the devices, beginning with device `k` and going on with device 0 behind the last one. So the
    /// result has the same bits in each run and on each device, also where the sum of floating-point numbers depends on the
    /// order.
    ///
    /// All of this is so without NCCL. Transfers use copy engines then, and only the combinations use multiprocessors: those of `n` devices send and combine
    /// `2 (n - 1) / n` and `(n - 1) / n` of the data.
    ///
    /// # Errors
    /// `InvalidValue` if the views are not one for each device, not on these devices, or of different lengths; `OutOfMemory`;
    /// what the enqueue calls report. After an error the data may have any values.
    #[track_caller]
    pub fn all_reduce<T: Element, R: Reduction<T>>(
        &self,
        _how: R,
        data: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        const OP: &str = "all_reduce";
        self.demand_fit(OP, data)?;
        match &self.nccl {
            _ if data[0].is_empty() => Ok(()),
            Some(nccl) => nccl.all_reduce::<T, R>(&self.members, data),
            None => ring::all_reduce::<T, R>(&self.members, data),
        }
    }

    /// Refuses views that are not one for each device, of equal lengths.
    fn demand_fit<T: Element>(&self, op: &'static str, data: &[ViewMut<'_, T>]) -> Result<()> {
        let (count, given) = (self.members.len(), data.len());
        if count != given {
            return Err(refused(op, format!("{given} views for {count} devices")));
        }
        for (place, (member, view)) in self.members.iter().zip(data).enumerate() {
            let device = member.device.id();
            if view.device_id() != Some(device) {
                let cause = format!("view {place} is not in the memory of {device}");
                return Err(refused(op, cause));
            }
            let (len, first) = (view.len(), data[0].len());
            if len != first {
                let cause = format!("view {place} has {len} elements, and view 0 has {first}");
                return Err(refused(op, cause));
            }
        }
        Ok(())
    }
}
