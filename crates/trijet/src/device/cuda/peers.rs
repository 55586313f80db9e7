//! What devices may do with each other's memory.

use super::api::need;
use super::context::{CudaDriver, cu};
use super::error::check;
use crate::base::error::Result;
use crate::base::id::DeviceId;

impl CudaDriver {
    pub(super) fn peer_possible(&self, device: DeviceId, peer: DeviceId) -> Result<bool> {
        let here = self.context("peer possible", device)?.ordinal;
        let there = self.context("peer possible", peer)?.ordinal;
        let mut possible = 0;
        cu!(
            self,
            "cuDeviceCanAccessPeer",
            peer_possible(&raw mut possible, here, there),
            "two devices of this driver and one number to write"
        )?;
        Ok(possible != 0)
    }

    pub(super) fn peer_enable(&self, device: DeviceId, peer: DeviceId) -> Result<()> {
        self.enter("peer enable", device)?;
        let there = self.context("peer enable", peer)?.raw;
        cu!(
            self,
            "cuCtxEnablePeerAccess",
            peer_enable(there, 0),
            "a context retained for the process, and the only defined flags"
        )
    }

    pub(super) fn peer_disable(&self, device: DeviceId, peer: DeviceId) -> Result<()> {
        self.enter("peer disable", device)?;
        let there = self.context("peer disable", peer)?.raw;
        cu!(
            self,
            "cuCtxDisablePeerAccess",
            peer_disable(there),
            "a context retained for the process"
        )
    }
}
