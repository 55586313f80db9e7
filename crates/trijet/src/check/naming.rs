//! Names that the program gives in its record. Those of the options go before them.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::Checker;
use crate::base::id::{BlockId, LaneId};
use crate::base::ledger::{Named, Op, OpKind};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Blocks that were freed and keep their names.
const FREED_MAX: usize = 1024;

/// What the program named.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    lanes: HashMap<LaneId, Arc<str>>,
    blocks: HashMap<BlockId, Arc<str>>,
    freed: VecDeque<BlockId>,
    events: Vec<u64>,
}

impl Given {
    /// The name of the stream that has the lane.
    #[inline]
    pub(super) fn lane(&self, lane: LaneId) -> Option<Arc<str>> {
        if self.lanes.is_empty() { None } else { self.lanes.get(&lane).cloned() }
    }

    pub(super) fn block(&self, block: BlockId) -> Option<Arc<str>> {
        self.blocks.get(&block).cloned()
    }

    /// The block is freed; its name is still of use for a while.
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
}

impl Checker {
    /// Takes in what the record names, and what loses its name.
    pub(super) fn name(&mut self, op: &Op) {
        match &op.kind {
            OpKind::Open => drop(self.given.lanes.remove(&op.position.lane)),
            OpKind::Gone { event } => {
                if let Some(index) = self.given.events.iter().position(|other| other == event) {
                    self.given.events.swap_remove(index);
                    self.options.names.events.remove(event);
                }
            }
            OpKind::Name { of } => {
                let name: Arc<str> = Arc::from(&*op.label);
                match of {
                    Named::Stream => drop(self.given.lanes.insert(op.position.lane, name)),
                    Named::Block(block) => drop(self.given.blocks.insert(*block, name)),
                    Named::Event(event) => {
                        let names = &mut self.options.names.events;
                        let is_given = self.given.events.contains(event);
                        if !is_given && names.contains_key(event) {
                            return;
                        }
                        names.insert(*event, op.label.clone().into_owned());
                        if !is_given {
                            self.given.events.push(*event);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}
