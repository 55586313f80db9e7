//! Names that the program gave to streams, allocations and events, as the trace has them. The names
//! in the options take precedence.
#![forbid(unsafe_code)]

use super::names::Names;
use crate::base::id::{BlockId, LaneId};
use crate::base::ledger::{HostStep, LedgerNote, Named, Op, OpKind};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of freed blocks whose names are kept.
const FREED_MAX: usize = 1024;

/// The names that the program gave to streams, allocations and events.
#[derive(Debug, Clone, Default)]
pub(super) struct ProgramNames {
    lanes: HashMap<LaneId, Arc<str>>,
    blocks: HashMap<BlockId, Arc<str>>,
    freed: VecDeque<BlockId>,
    events: Vec<u64>,
}

impl ProgramNames {
    /// The name of the stream that has the lane.
    #[inline]
    pub(super) fn lane(&self, lane: LaneId) -> Option<Arc<str>> {
        if self.lanes.is_empty() { None } else { self.lanes.get(&lane).cloned() }
    }

    pub(super) fn block(&self, block: BlockId) -> Option<Arc<str>> {
        self.blocks.get(&block).cloned()
    }

    /// Notes that the block was freed. Its name is kept for a while, because findings may still
    /// name the block.
    pub(super) fn free(&mut self, block: BlockId) {
        if !self.blocks.contains_key(&block) {
            return;
        }
        self.freed.push_back(block);
        if self.freed.len() > FREED_MAX
            && let Some(first) = self.freed.pop_front()
        {
            self.blocks.remove(&first);
        }
    }

    /// Reads an entry. The entry may give a name, or end the use of a name.
    pub(super) fn note(&mut self, op: &Op, names: &mut Names) {
        if op.kind == OpKind::Host(HostStep::Open) {
            self.lanes.remove(&op.position.lane);
        } else if let OpKind::Note(LedgerNote::Gone { event }) = &op.kind {
            if let Some(index) = self.events.iter().position(|other| other == event) {
                self.events.swap_remove(index);
                names.events.remove(event);
            }
        } else if let OpKind::Note(LedgerNote::Name { of }) = &op.kind {
            let name: Arc<str> = Arc::from(&*op.label);
            match of {
                Named::Stream => drop(self.lanes.insert(op.position.lane, name)),
                Named::Block(block) => drop(self.blocks.insert(*block, name)),
                Named::Event(event) => self.name_event(*event, op, names),
            }
        }
    }

    fn name_event(&mut self, event: u64, op: &Op, names: &mut Names) {
        let is_given = self.events.contains(&event);
        if !is_given && names.events.contains_key(&event) {
            return;
        }
        names.events.insert(event, op.label.clone().into_owned());
        if !is_given {
            self.events.push(event);
        }
    }
}
