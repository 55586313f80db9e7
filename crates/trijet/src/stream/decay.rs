//! The thread that returns memory of a heap to the device if the memory was not needed for some
//! time.
#![forbid(unsafe_code)]

use super::device::Device;
use super::shared::{MemorySource, OpenDevice};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::Clock;
use crate::heap::Trim;
use crate::log::calling;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

impl Device {
    /// Starts a thread that returns unneeded memory of the heap to the device. `after` is the
    /// length of a period. At the end of each period, the heap keeps as much memory as the highest
    /// amount that was allocated at one time during the period. The heap returns the remaining
    /// memory to the device, in the pieces in which the heap took the memory. `None` ends the
    /// thread. The drop of the last handle of the device ends the thread too. An error also ends
    /// the thread, and [`Device::close`] returns the error.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Cuda(0))?;
    /// device.decay_memory(Some(Duration::from_secs(10)))?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` for a device that allocates from a pool, and for a device with modelled time;
    /// `InvalidValue` for a period of zero; `Io` if the thread cannot be started.
    pub fn decay_memory(&self, after: Option<Duration>) -> Result<()> {
        const OP: &str = "memory decay";
        calling::refuse(OP)?;
        let shared = self.shared();
        let mut thread = shared.decay.lock().expect("no thread panicked while it held this lock");
        *thread = None;
        let Some(after) = after else { return Ok(()) };
        if matches!(shared.source, MemorySource::Pool(..)) || shared.info.clock == Clock::Model {
            let cause =
                "memory decay needs a heap and real time; this device has a pool or modelled time";
            return Err(Error::new(ErrorKind::Unsupported, OP, cause));
        }
        if after.is_zero() {
            return Err(Error::new(ErrorKind::InvalidValue, OP, "the period is 0"));
        }
        *thread = Some(start(Arc::downgrade(shared), after)?);
        Ok(())
    }
}

fn start(device: Weak<OpenDevice>, after: Duration) -> Result<Sender<()>> {
    let (sender, receiver) = channel::<()>();
    let run = move || {
        while receiver.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
            let Some(device) = device.upgrade() else { return };
            if let Err(error) = device.decay_once() {
                return device.keep_error(error);
            }
        }
    };
    let thread = std::thread::Builder::new().name("trijet-decay".to_owned()).spawn(run);
    thread.map(|_| sender).map_err(|error| {
        let cause = format!("the thread could not be started: {error}");
        Error::new(ErrorKind::Io, "memory decay", cause).caused_by(error)
    })
}

impl OpenDevice {
    /// Ends a period. The heap keeps as much memory as the highest amount that was allocated at one
    /// time during the period. The heap returns the remaining memory to the device.
    fn decay_once(&self) -> Result<()> {
        let MemorySource::Heap(heap) = &self.source else { return Ok(()) };
        let needed = heap.live.end_period();
        self.watch_release(|| self.trim_heap(heap, Trim::Keep(needed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Bytes;
    use crate::device::HostConfig;

    /// The test ends each period itself.
    #[test]
    fn memory_that_was_not_needed_in_a_period_returns() -> Result<()> {
        const MIB: usize = 1 << 20;
        let device = Device::host(HostConfig::default())?.remove(0);
        let s = device.stream()?;
        let held = || Ok::<_, Error>(device.memory_stats()?.reserved.to_usize());
        let small = s.alloc::<u8>(MIB)?;
        for _ in 0..3 {
            let large: Vec<_> = (0..4).map(|_| s.alloc::<u8>(40 * MIB)).collect::<Result<_>>()?;
            drop(large);
            s.synchronize()?;
            device.shared().decay_once()?;
            assert!(held()? >= 160 * MIB, "the memory was needed in this period");
        }
        device.shared().decay_once()?;
        let kept = held()?;
        assert!((MIB..80 * MIB).contains(&kept), "{kept} bytes are kept, but 1 MiB is in use");
        drop(small);
        s.synchronize()?;
        device.shared().decay_once()?;
        device.shared().decay_once()?;
        assert_eq!(held()?, 0);
        Ok(())
    }

    #[test]
    fn the_thread_returns_memory_and_ends_with_the_device() -> Result<()> {
        let device = Device::host(HostConfig::default())?.remove(0);
        drop(device.stream()?.alloc::<u8>(1 << 20)?);
        device.decay_memory(Some(Duration::from_micros(1)))?;
        while device.memory_stats()?.reserved != Bytes(0) {
            std::thread::yield_now();
        }
        device.decay_memory(None)?;
        let error = device.decay_memory(Some(Duration::ZERO)).expect_err("no period");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        device.close()
    }
}
