//! Steps that record graphs and launch them with other memory.

use super::luck::{Checked, Luck, caught, explode, finish, must};
use super::memory::{BLEND, Cell, Part, STIR, Slot, blend, mix};
use super::step::{End, Node};
use super::world::{Recorded, World};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use trijet::Uses;
use trijet::graph::Recording;
use trijet::{AsView, ErrorKind, Result, Stream, ViewMut};

/// The memory of a kernel keeps its place modulo this many bytes.
const ALIGNMENT: u64 = 256;

/// The parts of a recording.
struct Job<'a> {
    nodes: &'a [(usize, Node)],
    /// A number that is added to each salt.
    salt: u32,
    calls: &'a Arc<AtomicU64>,
    end: End,
    /// Takes a stream of the recording, if there is one.
    left: Option<&'a Mutex<Option<Stream>>>,
}

/// Two views. The second one is written.
fn both<'v>(
    views: &'v mut [ViewMut<'_, u32>],
    a: usize,
    b: usize,
) -> Option<(trijet::View<'v, u32>, ViewMut<'v, u32>)> {
    let [x, y] = views.get_disjoint_mut([a, b]).ok()?;
    let len = x.len().min(y.len());
    Some((x.as_view().slice(..len), y.reborrow().slice(..len)))
}

fn record_node(
    (recording, s): (&Recording, &Stream),
    views: &mut [ViewMut<'_, u32>],
    node: &Node,
    job: &Job<'_>,
) -> Result<()> {
    let salted = |salt: u32| salt.wrapping_add(job.salt) & 0x7fff_ffff;
    match *node {
        Node::Fill(a, part, value) => {
            let range = part.of(views[a].len());
            s.fill(&mut views[a].reborrow().slice(range), salted(value))
        }
        Node::FillBytes(a, part, value) => {
            let range = part.of(views[a].len());
            s.fill_bytes(&mut views[a].reborrow().slice(range), value)
        }
        Node::Stir(a, part, salt) => {
            let range = part.of(views[a].len());
            s.launch(&STIR, (salted(salt), views[a].reborrow().slice(range)))
        }
        Node::Copy(a, b) => {
            let Some((x, mut y)) = both(views, a, b) else { return Ok(()) };
            s.copy(&x, &mut y)
        }
        Node::Blend(a, b, salt) => {
            let Some((x, y)) = both(views, a, b) else { return Ok(()) };
            s.launch(&BLEND, (salted(salt), x, y))
        }
        Node::Through(a, b, salt) => {
            let Some((x, y)) = both(views, a, b) else { return Ok(()) };
            let mut between = s.alloc::<u32>(x.len())?;
            s.copy(&x, &mut between)?;
            s.launch(&BLEND, (salted(salt), &between, y))
        }
        Node::Host(end) => {
            let calls = Arc::clone(job.calls);
            recording.host_fn(s, move || {
                calls.fetch_add(1, Relaxed);
                if let End::Panic(kind) = end {
                    explode(kind);
                }
            })
        }
    }
}

fn record(recording: &Recording, views: &mut [ViewMut<'_, u32>], job: &Job<'_>) -> Result<()> {
    for view in views.iter() {
        recording.argument(view)?;
    }
    let streams = [recording.stream()?, recording.stream()?];
    for (stream, node) in job.nodes {
        record_node((recording, &streams[*stream]), views, node, job)?;
    }
    let [first, _] = streams;
    if let Some(left) = job.left {
        *left.lock().unwrap_or_else(|e| e.into_inner()) = Some(first);
    }
    finish(job.end)
}

/// Applies a node to the values of the arguments.
fn perform(node: &Node, args: &mut [Vec<Cell>]) {
    let masked = |salt: u32| salt & 0x7fff_ffff;
    match *node {
        Node::Fill(a, part, value) => {
            let range = part.of(args[a].len());
            args[a][range].fill(Some(masked(value)));
        }
        Node::FillBytes(a, part, value) => {
            let range = part.of(args[a].len());
            args[a][range].fill(Some(u32::from_ne_bytes([value; 4])));
        }
        Node::Stir(a, part, salt) => {
            let range = part.of(args[a].len());
            args[a][range].iter_mut().for_each(|y| *y = y.map(|y| mix(masked(salt), 0, y)));
        }
        Node::Copy(a, b) | Node::Blend(a, b, _) | Node::Through(a, b, _) => {
            let Ok([x, y]) = args.get_disjoint_mut([a, b]) else { return };
            let len = x.len().min(y.len());
            match *node {
                Node::Blend(.., salt) | Node::Through(.., salt) => {
                    blend(masked(salt), &x[..len], &mut y[..len]);
                }
                _ => y[..len].copy_from_slice(&x[..len]),
            }
        }
        Node::Host(_) => {}
    }
}

/// The same node with another salt.
fn salted(node: &Node, by: u32) -> Node {
    let salted = |salt: u32| salt.wrapping_add(by) & 0x7fff_ffff;
    match *node {
        Node::Fill(a, part, value) => Node::Fill(a, part, salted(value)),
        Node::Stir(a, part, salt) => Node::Stir(a, part, salted(salt)),
        Node::Blend(a, b, salt) => Node::Blend(a, b, salted(salt)),
        Node::Through(a, b, salt) => Node::Through(a, b, salted(salt)),
        Node::FillBytes(..) | Node::Copy(..) | Node::Host(_) => node.clone(),
    }
}

impl World {
    /// Views of parts of different slots on one device; `None` if the slots are not so.
    fn views(&mut self, parts: &[(usize, Range<usize>)]) -> Option<(usize, Vec<ViewMut<'_, u32>>)> {
        let device = self.slots[parts.first()?.0].device;
        let mut found = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(at) = parts.iter().position(|(slot, _)| *slot == number) else { continue };
            if slot.is_on_device() && slot.device == device && !parts[at].1.is_empty() {
                found.extend(slot.view_mut(parts[at].1.clone()).map(|view| (at, view)));
            }
        }
        if found.len() != parts.len() {
            return None;
        }
        found.sort_by_key(|(at, _)| *at);
        Some((device, found.into_iter().map(|(_, view)| view).collect()))
    }

    /// Different slots of one device, starting at these numbers, with room for this many elements
    /// each.
    fn arguments(&self, wanted: &[(usize, usize)], device: Option<usize>) -> Option<Vec<usize>> {
        let mut device = device;
        let mut found = Vec::new();
        for (from, len) in wanted {
            let fits = |slot: usize| {
                let is_new = !found.contains(&slot);
                let slot = &self.slots[slot];
                let is_there = device.is_none_or(|device| device == slot.device);
                is_new && is_there && slot.is_on_device() && slot.cells.len() >= (*len).max(1)
            };
            let count = self.slots.len();
            let slot = (0..count).map(|n| (from + n) % count).find(|slot| fits(*slot))?;
            device = Some(self.slots[slot].device);
            found.push(slot);
        }
        Some(found)
    }

    pub(super) fn record(
        &mut self,
        graph: usize,
        args: &[(usize, Part)],
        nodes: &[(usize, Node)],
        (end, keeps): (End, bool),
    ) -> Checked {
        let wanted: Vec<_> = args.iter().map(|(slot, _)| (*slot, 1)).collect();
        let Some(slots) = self.arguments(&wanted, None) else { return Ok(()) };
        let part = |(slot, (_, part)): (&usize, &(usize, Part))| {
            (*slot, part.of(self.slots[*slot].cells.len()))
        };
        let parts: Vec<_> = slots.iter().zip(args).map(part).collect();
        let (calls, left) = (Arc::default(), Mutex::new(None));
        let job = Job { nodes, salt: 0, calls: &calls, end, left: keeps.then_some(&left) };
        let devices = self.devices.clone();
        let Some((device, mut views)) = self.views(&parts) else { return Ok(()) };
        let args = views.iter().map(|view| (view.len(), view.address() % ALIGNMENT)).collect();
        let outcome = caught(|| devices[device].record(|g| record(g, &mut views, &job)));
        if let Some(stream) = left.lock().unwrap_or_else(|e| e.into_inner()).take() {
            self.left = Some((device, stream));
        }
        match (end, outcome) {
            (End::Well, Some(recorded)) => {
                let graph_of_it = must(recorded)?;
                if let Some(old) = self.graphs[graph].take() {
                    self.sync(old.device)?;
                    old.compare_calls(graph)?;
                }
                let nodes = nodes.iter().map(|(s, node)| (*s, salted(node, 0))).collect();
                self.graphs[graph] = Some(Recorded {
                    graph: graph_of_it,
                    device,
                    nodes,
                    args,
                    calls,
                    expected: 0,
                    is_shaky: false,
                });
                Ok(())
            }
            (End::Error, Some(Err(_))) | (End::Panic(_), None | Some(Err(_))) => Ok(()),
            (end, _) => Err(format!("a recording ends with {end:?}, and `record` does not")),
        }
    }

    fn sync(&self, device: usize) -> Checked {
        let device = self.devices[device].clone();
        self.luck.insist(|| device.synchronize())
    }

    pub(super) fn record_again(
        &mut self,
        graph: usize,
        slots: &[usize],
        salt: u32,
        end: End,
    ) -> Checked {
        let Some(mut old) = self.graphs[graph].take() else { return Ok(()) };
        let wanted: Vec<_> =
            slots.iter().zip(&old.args).map(|(slot, arg)| (*slot, arg.0)).collect();
        let slots = self.arguments(&wanted, Some(old.device));
        let part = |(slot, (len, _)): (usize, &(usize, u64))| (slot, 0..*len);
        let parts: Option<Vec<_>> =
            slots.map(|slots| slots.into_iter().zip(&old.args).map(part).collect());
        let devices = self.devices.clone();
        let nodes = std::mem::take(&mut old.nodes);
        let calls = Arc::clone(&old.calls);
        let job = Job { nodes: &nodes, salt, calls: &calls, end, left: None };
        let views = parts.as_deref().and_then(|parts| self.views(parts));
        let mut changed = Ok(false);
        if let Some((device, mut views)) = views.filter(|(device, _)| *device == old.device) {
            let is_moved =
                views.iter().zip(&old.args).any(|(v, (_, at))| v.address() % ALIGNMENT != *at);
            let outcome = caught(|| {
                devices[device].record_again(&mut old.graph, |g| record(g, &mut views, &job))
            });
            changed = match (end, outcome) {
                (End::Well, Some(Ok(()))) => Ok(true),
                (End::Well, Some(Err(e))) if e.kind() == ErrorKind::InvalidValue && is_moved => {
                    Ok(false)
                }
                (End::Error, Some(Err(_))) => Ok(false),
                (End::Panic(_), None | Some(Err(_))) => {
                    old.is_shaky = true;
                    Ok(false)
                }
                (end, outcome) => Err(format!("a change that ends with {end:?}: {outcome:?}")),
            };
        }
        let by = if changed == Ok(true) { salt } else { 0 };
        old.nodes = nodes.iter().map(|(s, node)| (*s, salted(node, by))).collect();
        self.graphs[graph] = Some(old);
        changed.map(drop)
    }

    pub(super) fn launch(&mut self, graph: usize, stream: u8, slots: &[(usize, u8)]) -> Checked {
        let count = self.graphs.len();
        let mut all = (0..count).map(|n| (graph + n) % count);
        let Some(graph) = all.find(|graph| self.graphs[*graph].is_some()) else { return Ok(()) };
        let Some(mut recorded) = self.graphs[graph].take() else { return Ok(()) };
        let outcome = self.launch_recorded(&mut recorded, stream, slots);
        let is_kept = outcome != Ok(false);
        if is_kept {
            self.graphs[graph] = Some(recorded);
        }
        outcome.map(drop)
    }

    /// Returns whether the graph can be launched again.
    fn launch_recorded(
        &mut self,
        recorded: &mut Recorded,
        stream: u8,
        slots: &[(usize, u8)],
    ) -> std::result::Result<bool, String> {
        let wanted: Vec<_> =
            slots.iter().zip(&recorded.args).map(|((slot, _), (len, _))| (*slot, *len)).collect();
        let Some(found) = self.arguments(&wanted, Some(recorded.device)) else { return Ok(true) };
        let mut parts = Vec::new();
        for ((slot, (_, at)), (len, _)) in found.into_iter().zip(slots).zip(&recorded.args) {
            let room = self.slots[slot].cells.len() - len;
            let start = usize::from(*at) * (room + 1) / 256;
            parts.push((slot, start..start + len));
        }
        let s = self.stream(recorded.device, stream);
        let luck = self.luck.clone();
        let Some((device, views)) = self.views(&parts) else { return Ok(true) };
        if device != recorded.device {
            return Ok(true);
        }
        let is_moved =
            views.iter().zip(&recorded.args).any(|(v, (_, at))| v.address() % ALIGNMENT != *at);
        let arguments = views.into_iter().fold(Uses::new(), Uses::write);
        match s.launch_graph(&mut recorded.graph, arguments) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::InvalidValue && is_moved => return Ok(true),
            Err(_) if recorded.is_shaky => return Ok(false),
            Err(error) => return Err(format!("launch of a graph: {error}")),
        }
        let mut args: Vec<Vec<Cell>> = parts
            .iter()
            .map(|(slot, range)| self.slots[*slot].cells[range.clone()].to_vec())
            .collect();
        for (_, node) in &recorded.nodes {
            perform(node, &mut args);
            note_call(node, &mut recorded.expected, &luck);
        }
        for ((slot, range), values) in parts.into_iter().zip(args) {
            self.slots[slot].cells[range].copy_from_slice(&values);
        }
        Ok(true)
    }

    /// A stream that left its recording either refuses an operation or performs it.
    pub(super) fn use_left(&mut self, number: usize, part: Part, value: u32) -> Checked {
        let Some((device, stream)) = self.left.take() else { return Ok(()) };
        let fits = |slot: &Slot| slot.is_on_device() && slot.device == device;
        let number = self.first(number, fits).unwrap_or(number);
        let slot = &mut self.slots[number];
        let range = part.of(slot.cells.len());
        if slot.is_on_device() && slot.device == device {
            let view = slot.view_mut(range.clone());
            let outcome = view.map(|mut view| stream.fill(&mut view, value));
            if outcome.is_some_and(|outcome| outcome.is_ok()) {
                slot.fill(range, Some(value));
            }
        }
        self.left = Some((device, stream));
        Ok(())
    }
}

fn note_call(node: &Node, expected: &mut u64, luck: &Luck) {
    if let Node::Host(end) = node {
        *expected += 1;
        if matches!(end, End::Panic(_)) {
            luck.will_panic();
        }
    }
}
