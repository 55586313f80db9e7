//! Access of devices to each other's memory.
//!
//! A copy between two devices uses the link between them if the device of the copy's stream has
//! access to the memory of the other device. Without access, the driver moves the bytes through the
//! host. The driver then also refuses memory that is mapped into a range of addresses, such as the
//! memory of a heap. So the first copy between two devices enables the access if there is a link.
//! If there is no link, the library moves the bytes through the host.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::device::driver::{Driver, PoolAccess, PoolHandle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The code of the driver for access that other code has enabled.
const ALREADY_ENABLED: i32 = 704;
/// A pair of devices has a bit in the words of [`Peers`] if the numbers of both devices are smaller
/// than this number.
const QUICK: u32 = 8;

/// A device that uses memory, and the device that owns the memory.
type DevicePair = (DeviceId, DeviceId);

/// Whether operations of a device can access the memory of another device directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Direct,
    /// There is no link.
    None,
}

/// The access of devices to the memory of other devices.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// The pairs whose access is set or known to be impossible, one bit each. Every copy between
    /// devices reads this word.
    settled: AtomicU64,
    /// The settled pairs that have no link, one bit each.
    unlinked: AtomicU64,
    state: Mutex<PeersState>,
}

#[derive(Debug, Default)]
struct PeersState {
    given: Vec<DevicePair>,
    /// Pairs that have no link.
    impossible: Vec<DevicePair>,
    /// The pools that devices allocate from.
    pools: Vec<(DeviceId, PoolHandle)>,
}

/// The bit of a pair; 0 if the pair has no bit.
fn bit((user, owner): DevicePair) -> u64 {
    if user.0 < QUICK && owner.0 < QUICK { 1 << (user.0 * QUICK + owner.0) } else { 0 }
}

impl Peers {
    /// Gives the device `user` access to the memory of `owner`, if there is a link between them and
    /// `user` has no access yet.
    ///
    /// # Errors
    /// Errors of the driver.
    #[inline]
    pub(crate) fn reach(
        &self,
        driver: &dyn Driver,
        user: DeviceId,
        owner: DeviceId,
    ) -> Result<Reach> {
        let bit = bit((user, owner));
        if user == owner {
            return Ok(Reach::Direct);
        }
        if self.settled.load(Ordering::Acquire) & bit == 0 {
            return self.reach_first(driver, user, owner);
        }
        let is_unlinked = self.unlinked.load(Ordering::Relaxed) & bit != 0;
        Ok(if is_unlinked { Reach::None } else { Reach::Direct })
    }

    #[cold]
    fn reach_first(&self, driver: &dyn Driver, user: DeviceId, owner: DeviceId) -> Result<Reach> {
        let (pair, mut state) = ((user, owner), self.state());
        if !state.given.contains(&pair) && !state.impossible.contains(&pair) {
            if driver.peer_possible(user, owner)? {
                state.give(driver, pair)?;
                for (_, pool) in state.pools.iter().filter(|(device, _)| *device == owner) {
                    driver.pool_set_access(*pool, user, PoolAccess::ReadWrite)?;
                }
            } else {
                state.impossible.push(pair);
            }
        }
        let is_unlinked = state.impossible.contains(&pair);
        if is_unlinked {
            self.unlinked.fetch_or(bit(pair), Ordering::Relaxed);
        }
        self.settled.fetch_or(bit(pair), Ordering::Release);
        Ok(if is_unlinked { Reach::None } else { Reach::Direct })
    }

    /// Sets or removes the access of `user` to the memory of `owner` outside of pools.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn set(
        &self,
        driver: &dyn Driver,
        (user, owner): DevicePair,
        has: bool,
    ) -> Result<()> {
        let (pair, mut state) = ((user, owner), self.state());
        match (state.given.contains(&pair), has) {
            (false, true) => state.give(driver, pair)?,
            (true, false) => {
                driver.peer_disable(user, owner)?;
                state.given.retain(|given| *given != pair);
                self.settled.fetch_and(!bit(pair), Ordering::AcqRel);
            }
            (true, true) | (false, false) => {}
        }
        Ok(())
    }

    /// Whether `user` has access to the memory of `owner` outside of pools.
    pub(crate) fn has(&self, user: DeviceId, owner: DeviceId) -> bool {
        user == owner || self.state().given.contains(&(user, owner))
    }

    /// Notes a pool that a device allocates from. Devices with access to the memory of that device
    /// get access to the pool.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn note_pool(
        &self,
        driver: &dyn Driver,
        device: DeviceId,
        pool: PoolHandle,
    ) -> Result<()> {
        let mut state = self.state();
        if state.pools.contains(&(device, pool)) {
            return Ok(());
        }
        for (user, _) in state.given.iter().filter(|(_, owner)| *owner == device) {
            driver.pool_set_access(pool, *user, PoolAccess::ReadWrite)?;
        }
        state.pools.push((device, pool));
        Ok(())
    }

    /// Forgets a pool before it is destroyed.
    pub(crate) fn forget_pool(&self, pool: PoolHandle) {
        self.state().pools.retain(|(_, known)| *known != pool);
    }

    fn state(&self) -> MutexGuard<'_, PeersState> {
        self.state.lock().expect("no thread panicked while it held this lock")
    }
}

impl PeersState {
    fn give(&mut self, driver: &dyn Driver, (user, owner): DevicePair) -> Result<()> {
        match driver.peer_enable(user, owner) {
            // Other code of the process gave the access.
            Err(error) if error.code() == Some(ALREADY_ENABLED) => {}
            given => given?,
        }
        self.given.push((user, owner));
        Ok(())
    }
}
