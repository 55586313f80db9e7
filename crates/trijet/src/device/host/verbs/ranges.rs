//! The verbs about ranges of addresses.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{RangeSizes, Ranges};
use crate::device::host::HostDriver;
use crate::device::host::engine::refuse;
use crate::device::host::engine::touches::Object;
use crate::device::host::fault::Verb;
use crate::device::host::memory::mapped;
use crate::device::host::run::HostRun;
use crate::device::memory::{Memory, Space};
use std::ops::Range;

impl Ranges for HostDriver {
    fn range_sizes(&self, device: DeviceId) -> Result<RangeSizes> {
        self.check_device("range sizes", device)?;
        if !self.config.ranges {
            let cause = "the host device was configured without ranges of addresses";
            return Err(Error::new(ErrorKind::Unsupported, "range sizes", cause).on(device));
        }
        Ok(mapped::sizes())
    }

    fn range_reserve(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        self.check_device("range reserve", device)?;
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.ranges.reserve(device, bytes)
    }

    fn range_map(&self, range: &Memory, at: Range<u64>) -> Result<()> {
        let op = "range map";
        let Space::Device(device) = range.space() else {
            return Err(refuse::value(op, "the range is not in device memory"));
        };
        let mut state = self.begin(Verb::RangeMap, device)?;
        state.touch(Object::Pools, true);
        let (free, _) = state.pools.free_bytes(device);
        state.pools.ranges.map(range, &at, free.0)
    }

    fn range_unmap(&self, range: &Memory, at: Range<u64>) -> Result<()> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        // A GPU does not wait for the operations that use this memory, and their later accesses
        // would fault. So the call is refused.
        let bytes = range.span(at.clone());
        let is_running =
            matches!(&state.run, HostRun::Threads(workers) if workers.has_user(&bytes));
        if is_running || state.queues.has_user(&bytes) {
            let cause = "a pending operation uses bytes of the range; wait for the operation first";
            return Err(refuse::value("range unmap", cause));
        }
        state.pools.ranges.unmap(range, &at)
    }

    fn range_free(&self, range: &Memory) -> Result<()> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.ranges.free(range)
    }
}
