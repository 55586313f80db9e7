//! Names that the program gives to streams, buffers and events, for findings and timelines.
//!
//! They are kept as long as what they name, so that a record that begins later has them too.
#![forbid(unsafe_code)]

use super::lane::LaneRef;
use super::noted::NOWHERE;
use super::recorders::Recorders;
use super::thread;
use crate::base::id::{BlockId, DeviceId, Position};
use crate::base::ledger::{Engine, Named, Op, OpKind, StreamClass};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

#[derive(Debug, Clone)]
struct Name {
    of: Named,
    device: DeviceId,
    stream: StreamClass,
    position: Position,
    text: String,
}

impl Name {
    fn names(&self, of: Named, position: Position) -> bool {
        self.of == of && self.position.lane == position.lane
    }

    fn op(&self) -> Op {
        Op {
            stream: self.stream,
            label: Cow::Owned(self.text.clone()),
            thread: thread::number(),
            ..Op::new(OpKind::Name { of: self.of }, Engine::None, self.device, self.position)
        }
    }
}

/// The names that are in use in a universe.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Whether there are any: what ends looks here first.
    any: AtomicBool,
    all: Mutex<Vec<Name>>,
}

impl Names {
    /// The entries of a record that begins now.
    pub(super) fn ops(&self) -> Vec<Op> {
        self.lock().iter().map(Name::op).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Name>> {
        self.all.lock().expect("no panic under this lock")
    }

    fn remove(&self, of: Named, position: Position) {
        if self.any.load(Ordering::Relaxed) {
            self.lock().retain(|name| !name.names(of, position));
        }
    }
}

impl Recorders {
    fn name(&self, name: Name) {
        let mut all = self.names.lock();
        all.retain(|other| !other.names(name.of, name.position));
        all.push(name.clone());
        self.names.any.store(true, Ordering::Relaxed);
        drop(all);
        // Afterwards: a record that begins meanwhile has it at least once.
        self.note(|| name.op());
    }

    /// Names an allocation or an event of `device`.
    pub(crate) fn name_object(&self, of: Named, device: DeviceId, text: &str) {
        let stream = StreamClass::NonBlocking;
        self.name(Name { of, device, stream, position: NOWHERE, text: text.to_owned() });
    }

    /// The allocation is no more.
    pub(crate) fn forget_block(&self, block: BlockId) {
        self.names.remove(Named::Block(block), NOWHERE);
    }

    pub(super) fn forget_event(&self, event: u64) {
        self.names.remove(Named::Event(event), NOWHERE);
    }

    /// The lane passes to another stream.
    pub(super) fn forget_stream(&self, position: Position) {
        self.names.remove(Named::Stream, position);
    }
}

impl LaneRef {
    /// Names the stream that has the lane.
    pub(crate) fn name(&self, text: &str) {
        let position = Position { lane: self.id, seq: self.lane().lock().seq };
        let (device, stream) = (self.device, self.class());
        let text = text.to_owned();
        self.universe.recorders.name(Name { of: Named::Stream, device, stream, position, text });
    }
}
