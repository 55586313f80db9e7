//! The devices of memory blocks, and the other devices that a copy between devices is ordered with
//! (law A38).
#![forbid(unsafe_code)]

use crate::base::hash::NumberMap;
use crate::base::id::{BlockId, DeviceId};
use crate::base::ledger::{Access, Effect, Engine, Op, OpKind, Place, StreamWork};
use std::collections::BTreeSet;

/// The device of each live block whose allocation is in the ledger.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockDevices(NumberMap<BlockId, DeviceId>);

fn on_device(op: &Op) -> impl Iterator<Item = &Access> {
    op.accesses.iter().filter(|access| access.place == Place::Device)
}

impl BlockDevices {
    /// Reads an entry: an allocation adds blocks, a free removes them.
    pub(super) fn note(&mut self, op: &Op) {
        match op.kind.effect() {
            Effect::Allocates | Effect::Obtains => {
                self.0.extend(on_device(op).map(|access| (access.block, op.device)));
            }
            Effect::Frees | Effect::Returns => {
                for access in on_device(op) {
                    self.0.remove(&access.block);
                }
            }
            Effect::Uses | Effect::Announces => {}
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The devices other than `own` whose blocking streams are ordered with `op`. There are none
    /// unless `op` is a synchronous copy between devices in the legacy stream. `devices` are all
    /// known devices.
    pub(super) fn peers_of_copy(
        &self,
        op: &Op,
        own: DeviceId,
        devices: impl Iterator<Item = DeviceId>,
    ) -> Vec<DeviceId> {
        if op.kind != OpKind::Work(StreamWork::CopyNow) || op.engine != Engine::Peer {
            return Vec::new();
        }
        let of_blocks: BTreeSet<Option<DeviceId>> =
            on_device(op).map(|access| self.0.get(&access.block).copied()).collect();
        let known = of_blocks.iter().flatten().copied().filter(|device| *device != own);
        let known: Vec<DeviceId> = known.collect();
        if !known.is_empty() || !of_blocks.contains(&None) {
            return known;
        }
        // The device of a block that was allocated before the ledger began is unknown. If there is
        // only one other device, the block must be on that device.
        let mut others = devices.filter(|device| *device != own);
        match (others.next(), others.next()) {
            (Some(other), None) => vec![other],
            _ => known,
        }
    }
}
