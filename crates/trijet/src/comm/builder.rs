//! Options for opening a communicator.
#![forbid(unsafe_code)]

use super::communicator::Communicator;
use super::nccl::Nccl;
use crate::base::error::Result;
use crate::ranks::Ranks;
use crate::stream::Device;
use std::sync::Arc;

/// Options for opening a communicator, see [`Communicator::builder`].
///
/// ```
/// use trijet::comm::Communicator;
/// use trijet::sim::HostConfig;
/// use trijet::Device;
/// let devices = Device::host(HostConfig::new().devices(2))?;
/// let communicator = Communicator::builder().devices(&devices).open()?;
/// assert_eq!(communicator.len(), 2);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "no communicator is opened yet"]
pub struct CommunicatorBuilder<'a> {
    over: Participants<'a>,
    uses_nccl: bool,
}

/// The devices that take part: devices of this process, or one device of each process.
#[derive(Debug)]
enum Participants<'a> {
    Devices(&'a [Device]),
    Rank(&'a Device, &'a Arc<Ranks>),
}

impl Communicator {
    /// Starts the options of a communicator: its devices, and whether it uses NCCL.
    pub fn builder<'a>() -> CommunicatorBuilder<'a> {
        CommunicatorBuilder { over: Participants::Devices(&[]), uses_nccl: false }
    }
}

impl<'a> CommunicatorBuilder<'a> {
    /// Chooses devices of this process. The rank of a device is its index in `devices`. Without
    /// NCCL, a reduction combines the data of the devices in the order of `devices`.
    pub fn devices(mut self, devices: &'a [Device]) -> Self {
        self.over = Participants::Devices(devices);
        self
    }

    /// Chooses one device of each process of a group. The rank of a device is the rank of its
    /// process. All ranks must open the communicator.
    ///
    /// Without NCCL, this works on GPUs and on host devices. Data pass through host memory and the
    /// connections of the ranks. Elements are combined in the same order as for
    /// [devices](Self::devices) of one process. Each call waits for its data and for the other
    /// ranks. Use this for tests, for small data, and where NCCL is missing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use trijet::comm::Communicator;
    /// use trijet::kernels::Sum;
    /// use trijet::ranks::Ranks;
    /// use trijet::{Device, Result, Select};
    /// // Threads stand for processes here.
    /// let run = |rank: usize| -> Result<Vec<u32>> {
    ///     let ranks = Ranks::join(rank, 2, "127.0.0.1:29872", Duration::from_secs(60))?;
    ///     let device = Device::open(Select::Host(0))?;
    ///     let communicator = Communicator::builder().rank(&device, &Arc::new(ranks)).open()?;
    ///     let stream = device.stream()?;
    ///     let mut data = stream.upload(&[rank as u32 + 1, 10])?;
    ///     communicator.all_reduce(&mut [data.view_mut()], Sum)?;
    ///     stream.download(&data)
    /// };
    /// let other = std::thread::spawn(move || run(1));
    /// assert_eq!(run(0)?, [3, 20]);
    /// assert_eq!(other.join().expect("no panic")?, [3, 20]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn rank(mut self, device: &'a Device, ranks: &'a Arc<Ranks>) -> Self {
        self.over = Participants::Rank(device, ranks);
        self
    }

    /// Uses NCCL. The kernels of NCCL read the data of other GPUs and combine the data. For small
    /// data, NCCL is faster than the copies and kernels of this library. The kernels of NCCL occupy
    /// multiprocessors that other work could use.
    ///
    /// The library NCCL is opened at run time ([`probe::libraries`](crate::probe::libraries)).
    /// NVLink multicast stays off unless the environment sets `NCCL_NVLS_ENABLE=1`. NCCL determines
    /// the order in which it adds floating-point numbers. The bits of a sum are the same on all
    /// devices.
    ///
    /// NCCL does not have the combinations that a program defines. A call with such a combination
    /// uses the copies and kernels of this library. Between processes, the call then waits for its
    /// data and for the other ranks. Minima and maxima of floating-point numbers also use these
    /// copies and kernels, because NCCL ignores a NaN, and [`Min`](crate::kernels::Min) does not.
    ///
    /// NCCL may call any function of the driver while it makes a communicator. Such a call can
    /// invalidate a capture that another library has begun in the global mode.
    ///
    /// Between processes, [`CommunicatorBuilder::open`] and all later calls wait for another rank
    /// at most for the timeout of the ranks. [`Communicator::close`] frees the memory of NCCL.
    /// Without this call, the memory stays until the end of the process, because other ranks may
    /// still read it. If the group has ended, the drop of the communicator waits up to 5 s until
    /// NCCL has aborted the communicator. Otherwise, NCCL could crash a process that exits during
    /// the abort.
    pub fn nccl(mut self) -> Self {
        self.uses_nccl = true;
        self
    }

    /// Opens the communicator.
    ///
    /// # Errors
    /// `InvalidValue` for no device, for a device that is given twice, or for devices of different
    /// drivers. Errors of the driver. With ranks, `PeerLost`. With NCCL, `NoTwin` for host devices,
    /// `Unsupported` if NCCL is missing or older than 2.18, and errors of NCCL. If one rank has
    /// `NoTwin` or `Unsupported`, all other ranks have `Unsupported`.
    pub fn open(self) -> Result<Communicator> {
        match (self.over, self.uses_nccl) {
            (Participants::Devices(devices), false) => Communicator::of_devices(devices),
            (Participants::Devices(devices), true) => {
                let mut communicator = Communicator::of_devices(devices)?;
                communicator.nccl = Some(Arc::new(Nccl::new(communicator.members())?));
                Ok(communicator)
            }
            (Participants::Rank(device, ranks), false) => {
                let what = "the number of a communicator through host memory";
                Communicator::of_rank(device, ranks, what)
            }
            (Participants::Rank(device, ranks), true) => {
                let what = "the number of a communicator of NCCL";
                let mut communicator = Communicator::of_rank(device, ranks, what)?;
                communicator.nccl = Some(communicator.nccl_of_rank()?);
                Ok(communicator)
            }
        }
    }
}
