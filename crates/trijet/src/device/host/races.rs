//! Which steps of a run race: two that depend on each other, with nothing else that orders them.
#![forbid(unsafe_code)]

use super::touches::{Touches, depend};
use smallvec::SmallVec;
use std::sync::Arc;

/// Who takes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Actor {
    /// A host thread; 0 is whoever is not scripted.
    Thread(u32),
    /// The stream in this slot.
    Stream(u32),
}

/// One step of the run at hand.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) actor: Actor,
    /// Which of the choices so far chose it.
    pub(super) frame: usize,
    pub(super) causes: SmallVec<[u32; 8]>,
    pub(super) touches: Arc<Touches>,
}

/// Happens-before among the first steps of a run. What is said of a step depends on those before it
/// only, so it holds for every run that begins alike.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// In the order in which they were first met.
    actors: Vec<Actor>,
    /// Close together, because every step is compared with all before it.
    steps: Vec<Step>,
    /// Per step, per actor: the last step of that actor, from 1, that comes before it or is it.
    clocks: Vec<Clock>,
}

type Clock = SmallVec<[u32; 8]>;

#[derive(Debug, Clone, Copy)]
struct Step {
    /// The place of its actor.
    actor: usize,
    /// Its number among those of its actor, from 1.
    number: u32,
    /// As in [`Touches`].
    any: u64,
    writes: u64,
}

impl Order {
    pub(super) fn len(&self) -> usize {
        self.clocks.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.clocks.truncate(len);
        self.steps.truncate(len);
    }

    fn index(&mut self, actor: Actor) -> usize {
        self.actors.iter().position(|other| *other == actor).unwrap_or_else(|| {
            self.actors.push(actor);
            self.actors.len() - 1
        })
    }

    /// The number of a step among those of its actor, from 1.
    pub(super) fn number(&self, step: usize) -> u32 {
        self.steps[step].number
    }

    /// Takes up the next of `events`, and adds to `races` what it races with.
    pub(super) fn add(&mut self, events: &[Event], races: &mut Vec<usize>) {
        let j = self.len();
        let mine = self.index(events[j].actor);
        let mut clock = Clock::from_elem(0, self.actors.len());
        let join = |clock: &mut Clock, other: &Clock| {
            clock.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).max(*b));
        };
        if let Some(previous) = (0..j).rev().find(|i| self.steps[*i].actor == mine) {
            join(&mut clock, &self.clocks[previous]);
        }
        for cause in &events[j].causes {
            if (*cause as usize) < j {
                join(&mut clock, &self.clocks[*cause as usize]);
            }
        }
        let number = clock[mine] + 1;
        let touches = &*events[j].touches;
        for (i, step) in self.steps.iter().enumerate().rev() {
            // What is known comes with all that it knows: it adds nothing.
            let apart = (step.writes & touches.any) | (step.any & touches.writes) == 0;
            if apart || clock[step.actor] >= step.number {
                continue;
            }
            if depend(&events[i].touches, touches) {
                races.push(i);
                join(&mut clock, &self.clocks[i]);
            }
        }
        clock[mine] = number;
        self.steps.push(Step { actor: mine, number, any: touches.any, writes: touches.writes });
        self.clocks.push(clock);
    }

    pub(super) fn precedes(&self, earlier: usize, later: usize) -> bool {
        let Step { actor, number, .. } = self.steps[earlier];
        self.clocks[later].get(actor).is_some_and(|known| *known >= number)
    }

    /// The actors that can begin the run in which `j` comes before `i`; that of `j` last, if it can.
    pub(super) fn initials(&self, events: &[Event], i: usize, j: usize) -> SmallVec<[Actor; 8]> {
        let mut between: SmallVec<[usize; 16]> =
            (i + 1..j).filter(|k| !self.precedes(i, *k)).collect();
        between.push(j);
        let first = between
            .iter()
            .filter(|k| between.iter().take_while(|m| m < k).all(|m| !self.precedes(*m, **k)));
        first.map(|k| events[*k].actor).collect()
    }
}
