//! The kernels of the sequences, and the tools of a device. The kernels exist as PTX for drivers
//! that compile PTX, and as twins for the other drivers. The tools are a stream and loaded kernels
//! that belong to no sequence.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::args::ArgBlock;
use crate::device::driver::{
    Action, Driver, Form, FunctionHandle, Image, Launch, StreamHandle, StreamKind,
};
use crate::device::launch_config::LaunchConfig;
use crate::device::twin::{Cost, Tile, Twin};
use std::borrow::Cow;

/// `mix(x, n, k)` computes x = 3 x + k, so the result of several launches depends on their order.
/// `mask(x, n, y, m, k)` computes y = x xor k. `hold(k)` does nothing.
pub(super) const PTX: &str = include_str!("kernels.ptx");
/// The number of bytes that the modelled GPU moves in about one second.
const HOLD_BYTES: u64 = 1 << 42;

fn whole_mix(args: &ArgBlock) -> u64 {
    args.spans().first().map_or(0, |arg| arg.span.bytes() / arg.element_bytes)
}

fn mix(tile: &mut Tile<'_>) {
    let k: u32 = tile.scalar(2);
    for value in tile.write::<u32>(0) {
        *value = value.wrapping_mul(3).wrapping_add(k);
    }
}

fn mask(tile: &mut Tile<'_>) {
    let k: u32 = tile.scalar(4);
    let (from, to) = (tile.read::<u32>(0), tile.write::<u32>(2));
    for (to, from) in to.iter_mut().zip(from) {
        *to = from ^ k;
    }
}

fn no_cost(_: &ArgBlock) -> Cost {
    Cost::default()
}

fn long_cost(_: &ArgBlock) -> Cost {
    Cost { bytes: HOLD_BYTES, ops: 0 }
}

pub(super) const MIX: Twin = Twin { tile_elements: whole_mix, run: mix, cost: no_cost };
pub(super) const MASK: Twin = Twin { tile_elements: whole_mix, run: mask, cost: no_cost };
const HOLD: Twin = Twin { tile_elements: |_| 1, run: |_| {}, cost: long_cost };

/// The tools of a device: objects that belong to no sequence.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) stream: StreamHandle,
    pub(super) mix: FunctionHandle,
    pub(super) mask: FunctionHandle,
    pub(super) hold: FunctionHandle,
}

impl Tools {
    pub(super) fn new(driver: &dyn Driver, device: DeviceId) -> Result<Self> {
        let module = driver.module_load(device, "conformance", Image::Ptx(PTX))?;
        let this = Self {
            stream: driver.stream_create(device, StreamKind::NonBlocking, 0)?,
            mix: driver.function(module, "mix", 0, Some(MIX))?,
            mask: driver.function(module, "mask", 0, Some(MASK))?,
            hold: driver.function(module, "hold", 0, Some(HOLD))?,
        };
        this.warm_up(driver, device)?;
        Ok(this)
    }

    /// Runs a fill and a copy. The first fill and the first copy of a process load kernels of the
    /// driver. Loading them may wait for all work (law A42).
    fn warm_up(&self, driver: &dyn Driver, device: DeviceId) -> Result<()> {
        let memory = driver.device_alloc(device, Bytes(128))?;
        let (all, low, high) = (memory.span(0..128), memory.span(0..64), memory.span(64..128));
        let form = Form::Async;
        driver.submit(self.stream, &Action::Fill { dst: &all, value: 0, form })?;
        driver.submit(self.stream, &Action::Copy { dst: &low, src: &high, form })?;
        driver.stream_synchronize(self.stream)?;
        driver.device_free(&memory)
    }
}

/// Enqueues the kernel that lasts for a second of modelled time.
pub(super) fn enqueue_hold(
    driver: &dyn Driver,
    stream: StreamHandle,
    function: FunctionHandle,
) -> Result<()> {
    let mut args = ArgBlock::default();
    args.push_scalar(0u32)?;
    let name = &Cow::Borrowed("hold");
    let launch = Launch { function, name, config: LaunchConfig::new([1; 3], [1; 3]), args: &args };
    driver.submit(stream, &Action::Launch(launch))
}
