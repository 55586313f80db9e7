//! Access of devices to each other's memory.

use super::api::need;
use super::context::{CudaDriver, cu};
use super::error::check;
use crate::base::error::Result;
use crate::base::id::DeviceId;

impl CudaDriver {
    pub(super) fn peer_possible(&self, device: DeviceId, peer: DeviceId) -> Result<bool> {
        let here = self.ordinal("peer possible", device)?;
        let there = self.ordinal("peer possible", peer)?;
        let mut possible = 0;
        cu!(
            self,
            "cuDeviceCanAccessPeer",
            peer_possible(&raw mut possible, here, there),
            "both ordinals are of this driver; the call writes the local variable `possible`"
        )?;
        Ok(possible != 0)
    }

    pub(super) fn peer_enable(&self, device: DeviceId, peer: DeviceId) -> Result<()> {
        self.range_peer(device, peer, true)?;
        let _entered = self.enter("peer enable", device)?;
        let _relaxed = self.relaxed();
        let there = self.context("peer enable", peer)?.raw;
        cu!(
            self,
            "cuCtxEnablePeerAccess",
            peer_enable(there, 0),
            "`there` is retained until `self` drops, and 0 is the only defined flag; the access is \
             that of the current context, which is the one of `device`"
        )
    }

    pub(super) fn peer_disable(&self, device: DeviceId, peer: DeviceId) -> Result<()> {
        self.range_peer(device, peer, false)?;
        let _entered = self.enter("peer disable", device)?;
        let there = self.context("peer disable", peer)?.raw;
        cu!(
            self,
            "cuCtxDisablePeerAccess",
            peer_disable(there),
            "`there` is retained until `self` drops; without access the driver refuses the call. \
             No kernel of `device` uses memory of `peer` any more, for which the caller is \
             responsible"
        )
    }
}
