//! The order inside of a graph: its nodes as entries on chains, each a stream of its own.
//!
//! Checkers of their own judge the entries, once for each content of a graph. So the entries need
//! no order with the work of the program, and a launch costs what a launch of one operation costs.

use super::access::{accesses_of, possible_accesses, whole};
use super::{CallReader, LedgerPart, Step};
use crate::captures::GraphWork;
use crate::file::Call;
use crate::memory::Memory;
use crate::nodes::{EdgeOrder, GraphNode, NodeStep, NodeWork};
use crate::streams::StreamOf;
use std::borrow::Cow;
use std::collections::HashMap;
use trijet_ledger::base::id::{LaneId, Position};
use trijet_ledger::base::ledger::{
    Asked, Declared, Engine, LedgerNote, Mode, OpKind, Place, StreamClass, StreamMark, StreamWork,
};

/// The lane before the chains of graphs. Streams have smaller numbers. A page shows the number.
pub(crate) const CHAINS_AFTER: u32 = 1_000_000_000;

/// The event of a node. The driver gives no event such a handle.
fn event_of(node: u32) -> u64 {
    (1 << 63) | u64::from(node)
}

/// The chains while their nodes become entries.
struct ChainState<'a, 'call> {
    call: &'a Call<'call>,
    on: StreamOf,
    /// The number of operations on each chain.
    counts: HashMap<u32, u64>,
}

impl ChainState<'_, '_> {
    fn entry(&self, kind: impl Into<OpKind>, chain: u32) -> Step {
        let lane = LaneId(CHAINS_AFTER + 1 + chain);
        let position = Position { lane, seq: self.counts.get(&chain).copied().unwrap_or(0) };
        let on = StreamOf { class: StreamClass::NonBlocking, position, ..self.on };
        let step = CallReader::entry(kind, Engine::None, on, self.call);
        Step { stack: None, part: LedgerPart::Graph, ..step }
    }
}

impl CallReader {
    /// Makes entries of the nodes of a graph at its first launch. Returns whether their order is
    /// known, or does not matter.
    pub(super) fn examine_order(
        &mut self,
        call: &Call<'_>,
        work: &GraphWork,
        add: &mut impl FnMut(Step),
    ) -> bool {
        if !work.has_several_nodes() {
            return true;
        }
        if !self.has_graph_order || !work.has_order() {
            return false;
        }
        if let Some(is_examined) = self.graphs.is_examined(call.word(0)) {
            return is_examined;
        }
        let steps = work.nodes.steps();
        self.graphs.note_examined(call.word(0), steps.is_some());
        let Some(steps) = steps else { return false };
        let key = Self::key(call, call.word(1));
        let on = self.streams.of(key, call.context);
        let mut chains = ChainState { call, on, counts: HashMap::new() };
        // A graph without memory of its own needs no copy.
        let has_memory = !work.allocations.is_empty() || !work.frees.is_empty();
        let mut own = has_memory.then(|| self.memory.clone());
        for step in steps {
            match step {
                NodeStep::Work { chain, node } => {
                    let node = work.nodes.node(node);
                    let mut made = chains.entry(StreamWork::Fill, chain);
                    made.stack = node.stack;
                    if self.of_node(&mut made, node, work, &mut own) {
                        made.op.position.seq += 1;
                        chains.counts.insert(chain, made.op.position.seq);
                        add(made);
                    }
                }
                NodeStep::Record { chain, node } => {
                    let mark = StreamMark::Record { event: event_of(node), by: Asked::User };
                    add(chains.entry(mark, chain));
                }
                NodeStep::Wait { chain, earlier, from, order } => {
                    let on = chains.entry(StreamWork::Fill, from).op.position;
                    let event = event_of(earlier);
                    let mark = StreamMark::Wait { event, on, by: Asked::User };
                    let mut wait = chains.entry(mark, chain);
                    if order == EdgeOrder::Programmatic {
                        wait.part = LedgerPart::Programmatic;
                    }
                    add(wait);
                }
                NodeStep::Forget { chain, node } => {
                    add(chains.entry(LedgerNote::Gone { event: event_of(node) }, chain));
                }
            }
        }
        if let Some(own) = own {
            self.memory.number_after(&own);
        }
        true
    }

    /// Completes the entry of a node. Returns false if the node accesses nothing.
    fn of_node(
        &mut self,
        made: &mut Step,
        node: &GraphNode,
        work: &GraphWork,
        own: &mut Option<Memory>,
    ) -> bool {
        let memory = own.as_ref().unwrap_or(&self.memory);
        match node.work {
            NodeWork::Nothing => return false,
            NodeWork::Declared(label) => {
                let touched = &work.declared[node.declared.clone()];
                made.op.label = Cow::Borrowed(label);
                made.op.accesses = accesses_of(memory, touched, true);
                made.possible = accesses_of(memory, touched, false);
            }
            NodeWork::Kernel(kernel) => {
                made.op.kind = StreamWork::Kernel.into();
                made.op.declared = Declared::Nothing;
                made.op.label = self.kernel_name(kernel);
                let addresses = &work.addresses[node.addresses.clone()];
                made.possible = possible_accesses(memory, addresses, Mode::Update);
            }
            NodeWork::Allocation(index) => {
                let (Some(of), Some(own)) = (work.allocations.get(index), own) else {
                    return false;
                };
                let block = own.allocate(of.range.clone(), Place::Device);
                let bytes = of.range.end - of.range.start;
                self.made.insert(block.block.0, (bytes, of.function.clone(), of.stack));
                made.op.kind = StreamWork::Alloc.into();
                made.op.label = Cow::Borrowed("allocation");
                made.op.accesses.push(whole(&block));
            }
            NodeWork::Free(address) => {
                let Some(freed) = own.as_mut().and_then(|own| own.free(address)) else {
                    return false;
                };
                made.op.kind = StreamWork::Free.into();
                made.op.label = Cow::Borrowed("free");
                made.op.accesses.push(whole(&freed));
            }
        }
        !made.op.accesses.is_empty() || !made.possible.is_empty()
    }
}
