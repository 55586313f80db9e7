//! Names that the program gives to streams, buffers and events, for findings and timelines.
//!
//! A name is kept as long as its object exists, so that a trace that starts later also has the
//! name.
#![forbid(unsafe_code)]

use super::thread;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Engine, LedgerNote, Named, Op, StreamClass};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The position of an entry that belongs to no stream.
pub(crate) const NOWHERE: Position = Position { lane: LaneId(u32::MAX), seq: 0 };

/// A name and the object that has this name.
#[derive(Debug, Clone)]
pub(super) struct Name {
    of: Named,
    device: DeviceId,
    stream: StreamClass,
    position: Position,
    text: String,
}

impl Name {
    /// The name of the stream that has the lane of `position`.
    pub(super) fn of_stream(
        device: DeviceId,
        stream: StreamClass,
        position: Position,
        text: &str,
    ) -> Self {
        Self { of: Named::Stream, device, stream, position, text: text.to_owned() }
    }

    /// The name of an allocation or an event of `device`.
    pub(super) fn of_object(of: Named, device: DeviceId, text: &str) -> Self {
        let stream = StreamClass::NonBlocking;
        Self { of, device, stream, position: NOWHERE, text: text.to_owned() }
    }

    /// Whether this is the name of the object `of`. If the object is a stream, `position` has the
    /// lane of the stream.
    fn names(&self, of: Named, position: Position) -> bool {
        self.of == of && self.position.lane == position.lane
    }

    pub(super) fn op(&self) -> Op {
        Op {
            stream: self.stream,
            label: Cow::Owned(self.text.clone()),
            thread: thread::number(),
            ..Op::new(LedgerNote::Name { of: self.of }, Engine::None, self.device, self.position)
        }
    }
}

/// The names that are in use in a domain.
#[derive(Debug, Default)]
pub(crate) struct UsedNames {
    /// Whether there may be any names. When an object ends, this flag is read first, to avoid the
    /// lock.
    any: AtomicBool,
    all: Mutex<Vec<Name>>,
}

impl UsedNames {
    /// The entries of all names, for a trace that starts now.
    pub(super) fn ops(&self) -> Vec<Op> {
        self.lock().iter().map(Name::op).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Name>> {
        self.all.lock().expect("no thread panicked while it held this lock")
    }

    /// Stores the name, which replaces an earlier name of the same object.
    pub(super) fn add(&self, name: &Name) {
        let mut all = self.lock();
        all.retain(|other| !other.names(name.of, name.position));
        all.push(name.clone());
        self.any.store(true, Ordering::Relaxed);
    }

    /// The name of an allocation or an event.
    pub(super) fn of_object(&self, of: Named) -> Option<String> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.lock().iter().find(|name| name.of == of).map(|name| name.text.clone())
    }

    /// The name of the stream that has a lane.
    pub(super) fn of_stream(&self, lane: LaneId) -> Option<String> {
        let all = self.lock();
        let found = all.iter().find(|name| name.of == Named::Stream && name.position.lane == lane);
        found.map(|name| name.text.clone())
    }

    pub(super) fn remove(&self, of: Named, position: Position) {
        if self.any.load(Ordering::Relaxed) {
            self.lock().retain(|name| !name.names(of, position));
        }
    }
}
