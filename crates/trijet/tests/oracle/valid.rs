//! Validity of steps. [`Program::keep_valid`] removes all invalid steps, so that a program may be
//! cut anywhere.
//!
//! The scripts of a phase are walked through together, each as far as it can go. A script waits for
//! objects that exist when the others have gone on, in any order, so one order stands for all.

use crate::program::{
    Hold, Part, Phase, Place, Program, SIGNALS_MAX, Shape, Step, StreamKind, apply,
};
use std::collections::{BTreeMap, BTreeSet};

/// The scripts that hold an object during a phase.
#[derive(Debug, Default)]
struct Holders {
    alone: BTreeSet<usize>,
    all: BTreeSet<usize>,
}

impl Holders {
    fn admits(&self, script: usize, hold: Hold) -> bool {
        let strangers = match hold {
            Hold::Shared => &self.alone,
            Hold::Alone => &self.all,
        };
        strangers.iter().all(|holder| *holder == script)
    }

    fn add(&mut self, script: usize, hold: Hold) {
        self.all.insert(script);
        if hold == Hold::Alone {
            self.alone.insert(script);
        }
    }
}

/// The state of a buffer that passes between scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passing {
    /// No script of the phase has used it.
    Untouched,
    With(usize),
    /// Given by the hand-over with this number, and not received.
    Left(usize),
}

/// Buffers and signals that scripts wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gates {
    passing: BTreeMap<usize, Passing>,
    given: BTreeSet<usize>,
    set: BTreeSet<usize>,
}

impl Gates {
    /// The state in which every signal is set.
    pub(crate) fn all_set() -> Self {
        Self { set: (0..SIGNALS_MAX).collect(), ..Self::default() }
    }

    /// Starts a phase. Signals stay set.
    pub(crate) fn enter(&mut self, phase: &Phase) {
        let passes = phase.scripts.iter().flatten().filter_map(Step::passes);
        self.passing = passes.map(|buffer| (buffer, Passing::Untouched)).collect();
        self.given.clear();
    }

    /// Whether the step need not wait.
    pub(crate) fn is_open(&self, step: &Step) -> bool {
        match step {
            Step::Take { signal } => self.set.contains(signal),
            Step::Receive { buffer, number } => {
                self.passing.get(buffer) == Some(&Passing::Left(*number))
            }
            _ => true,
        }
    }

    /// Ends a phase. The signals that it set stay set.
    pub(crate) fn leave(&mut self, phase: &Phase) {
        for step in phase.scripts.iter().flatten() {
            if let Step::Set { signal } | Step::HostSet { signal, .. } = step {
                self.set.insert(*signal);
            }
        }
    }

    fn passes(&self, buffer: usize) -> bool {
        self.passing.contains_key(&buffer)
    }

    /// Whether the script has all buffers of the step that pass between scripts.
    fn admits(&self, script: usize, step: &Step) -> bool {
        let own = |buffer| match self.passing.get(&buffer) {
            None | Some(Passing::Untouched) => true,
            Some(Passing::With(holder)) => *holder == script,
            Some(Passing::Left(_)) => matches!(step, Step::Receive { .. }),
        };
        let is_new = match step {
            Step::Give { number, .. } => !self.given.contains(number),
            _ => true,
        };
        is_new && step.buffers().into_iter().all(|(buffer, _)| own(buffer))
    }

    /// Notes that the script takes the step.
    pub(crate) fn pass(&mut self, script: usize, step: &Step) {
        for (buffer, _) in step.buffers() {
            if let Some(passing) = self.passing.get_mut(&buffer) {
                *passing = match step {
                    Step::Give { number, .. } => {
                        self.given.insert(*number);
                        Passing::Left(*number)
                    }
                    _ => Passing::With(script),
                };
            }
        }
        if let Step::Set { signal } | Step::HostSet { signal, .. } = step {
            self.set.insert(*signal);
        }
    }
}

/// A walk through a program, with the objects that exist.
#[derive(Debug, Default)]
struct Walk {
    shapes: BTreeMap<usize, Shape>,
    buffers: BTreeMap<usize, Holders>,
    streams: BTreeMap<usize, Holders>,
    gates: Gates,
}

impl Walk {
    fn has(&self, part: &Part) -> bool {
        let shape = self.shapes.get(&part.buffer);
        part.range.start < part.range.end && shape.is_some_and(|s| part.range.end <= s.len)
    }

    fn is_near(&self, part: &Part, device: usize) -> bool {
        self.shapes.get(&part.buffer).is_some_and(|shape| shape.is_near(device))
    }

    fn is_of_host(&self, buffer: usize) -> bool {
        let shape = self.shapes.get(&buffer);
        shape.is_some_and(|shape| !matches!(shape.place, Place::Device(_)))
    }

    /// The devices of a copy. All copies of a batch have the same devices.
    fn way(&self, (from, to): &(Part, Part)) -> (Option<usize>, Option<usize>) {
        let device = |part: &Part| match self.shapes[&part.buffer].place {
            Place::Device(device) => Some(device),
            Place::Pinned | Place::Pageable => None,
        };
        (device(from), device(to))
    }

    /// Whether the step obeys the rules of its verb, apart from other scripts.
    fn obeys_its_rules(&self, program: &Program, step: &Step) -> bool {
        let device_of = |stream: usize| program.streams[stream].device;
        let (read, written) = step.parts();
        let targets: BTreeSet<usize> = written.iter().map(|part| part.buffer).collect();
        let is_apart = targets.len() == written.len()
            && read.iter().all(|part| !targets.contains(&part.buffer))
            && read.iter().zip(&written).all(|(from, to)| from.len() == to.len())
            && read.iter().chain(&written).all(|part| self.has(part));
        let near = |device| read.iter().chain(&written).all(|part| self.is_near(part, device));
        is_apart
            && match step {
                Step::Mix { stream, .. } | Step::Fill { stream, .. } => near(device_of(*stream)),
                Step::CopyNow { device, .. } => *device < program.devices,
                Step::FillNow { device, .. } => *device < program.devices && near(*device),
                // The driver refuses a batch in the legacy stream (measured).
                Step::Batch { stream, copies, .. } => {
                    let ways: BTreeSet<_> = copies.iter().map(|copy| self.way(copy)).collect();
                    ways.len() == 1 && program.streams[*stream].kind != StreamKind::Legacy
                }
                Step::Alloc { len, .. } | Step::AllocHost { len, .. } => *len > 0,
                Step::Drop { buffer }
                | Step::Give { buffer, .. }
                | Step::Receive { buffer, .. } => self.shapes.contains_key(buffer),
                // The library always orders host memory.
                Step::ByHand { buffer } => {
                    self.shapes.contains_key(buffer) && !self.is_of_host(*buffer)
                }
                Step::Churn { kind, device, .. } => {
                    *device < program.devices && near(*device) && !kind.is_default()
                }
                Step::Split { buffer, at, into } => {
                    let shape = self.shapes.get(buffer);
                    shape.is_some_and(|shape| 0 < *at && *at < shape.len)
                        && !self.shapes.contains_key(into)
                }
                Step::Write { buffer, .. } | Step::Read { buffer } => self.is_of_host(*buffer),
                // Law A6: an event is recorded on its own device only.
                Step::Record { event, stream } => program.events[*event] == device_of(*stream),
                Step::SyncDevice { device } => *device < program.devices,
                Step::Replace { stream } => !program.streams[*stream].kind.is_default(),
                _ => true,
            }
    }

    fn is_valid(&self, program: &Program, script: usize, step: &Step) -> bool {
        let stream_is_there = step.stream().is_none_or(|stream| stream < program.streams.len());
        let event_is_there = step.clone().event_mut().is_none_or(|e| *e < program.events.len());
        let admits = |holders: Option<&Holders>, hold| {
            holders.is_none_or(|holders| holders.admits(script, hold))
        };
        stream_is_there
            && event_is_there
            && self.obeys_its_rules(program, step)
            && self.gates.admits(script, step)
            && step
                .buffers()
                .iter()
                .all(|(b, hold)| self.gates.passes(*b) || admits(self.buffers.get(b), *hold))
            && stream_of(step).is_none_or(|(s, hold)| admits(self.streams.get(&s), hold))
    }

    fn take(&mut self, program: &Program, script: usize, step: &Step) {
        for (buffer, hold) in step.buffers() {
            self.buffers.entry(buffer).or_default().add(script, hold);
        }
        if let Some((stream, hold)) = stream_of(step) {
            self.streams.entry(stream).or_default().add(script, hold);
        }
        self.gates.pass(script, step);
        apply(&program.streams, &mut self.shapes, step);
    }
}

/// The stream of a step, and whether the step shares it.
fn stream_of(step: &Step) -> Option<(usize, Hold)> {
    let hold = if matches!(step, Step::Replace { .. }) { Hold::Alone } else { Hold::Shared };
    Some((step.stream()?, hold))
}

/// The steps of a phase in an order in which scripts can take them.
pub(crate) fn serialised(phase: &Phase, gates: &mut Gates) -> Vec<(usize, usize)> {
    gates.enter(phase);
    let mut order = Vec::new();
    let mut at = vec![0; phase.scripts.len()];
    loop {
        let before = order.len();
        for (script, steps) in phase.scripts.iter().enumerate() {
            while let Some(step) = steps.get(at[script]).filter(|step| gates.is_open(step)) {
                gates.pass(script, step);
                order.push((script, at[script]));
                at[script] += 1;
            }
        }
        if order.len() == before {
            return order;
        }
    }
}

impl Walk {
    /// Takes the valid steps of a phase, and returns them.
    fn phase(&mut self, frame: &Program, phase: &Phase) -> BTreeSet<(usize, usize)> {
        self.buffers.clear();
        self.streams.clear();
        self.gates.enter(phase);
        let mut taken = BTreeSet::new();
        let mut at = vec![0; phase.scripts.len()];
        loop {
            let mut goes_on = false;
            for (script, steps) in phase.scripts.iter().enumerate() {
                while let Some(step) = steps.get(at[script]) {
                    // No script waits for a step that cannot become valid.
                    let waits = !self.gates.is_open(step);
                    if waits {
                        break;
                    }
                    if self.is_valid(frame, script, step) {
                        self.take(frame, script, step);
                        taken.insert((script, at[script]));
                    }
                    at[script] += 1;
                    goes_on = true;
                }
            }
            if goes_on {
                continue;
            }
            // All remaining scripts wait for steps that never come: the first one skips its step.
            let waiting = (0..at.len()).find(|script| at[*script] < phase.scripts[*script].len());
            let Some(waiting) = waiting else { return taken };
            at[waiting] += 1;
        }
    }
}

impl Program {
    /// Removes every invalid step, and returns whether there was one.
    pub(crate) fn keep_valid(&mut self) -> bool {
        let mut removed = false;
        // Another step may have waited for a removed one.
        while self.keep_valid_once() {
            removed = true;
        }
        removed
    }

    fn keep_valid_once(&mut self) -> bool {
        let mut walk = Walk::default();
        let mut removed = false;
        let frame = Self { phases: Vec::new(), ..self.clone() };
        for phase in &mut self.phases {
            let taken = walk.phase(&frame, phase);
            for (script, steps) in phase.scripts.iter_mut().enumerate() {
                let mut number = 0;
                steps.retain(|_| {
                    number += 1;
                    taken.contains(&(script, number - 1))
                });
                removed |= number > steps.len();
            }
        }
        removed
    }
}
