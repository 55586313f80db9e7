//! The races of a run: pairs of steps that depend on each other and that nothing else orders.
#![forbid(unsafe_code)]

use crate::device::host::engine::touches::{Touches, depend};
use smallvec::SmallVec;
use std::sync::Arc;

/// An actor, which takes steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::device::host) enum Actor {
    /// A host thread by its number in the script; 0 stands for every thread without a script.
    Thread(u32),
    /// The stream in this slot.
    Stream(u32),
}

/// One step of the current run.
#[derive(Debug)]
pub(in crate::device::host) struct TakenStep {
    pub(super) actor: Actor,
    /// The index of the choice that chose this step.
    pub(super) frame: usize,
    pub(super) causes: SmallVec<[u32; 8]>,
    pub(in crate::device::host) touches: Arc<Touches>,
}

/// Happens-before among the first steps of a run. The clock of a step depends only on earlier
/// steps. So the clock is the same in every run with the same first steps.
#[derive(Debug, Default)]
pub(in crate::device::host) struct HappensBefore {
    /// The actors, in the order of their first steps.
    actors: Vec<Actor>,
    /// The fields of each step that are compared with all later steps.
    steps: Vec<RaceStep>,
    /// For each step and each actor: the number of the actor's last step that comes before the step
    /// or is the step itself. The steps of an actor are numbered from 1.
    clocks: Vec<ActorClock>,
}

type ActorClock = SmallVec<[u32; 8]>;

#[derive(Debug, Clone, Copy)]
struct RaceStep {
    /// The index of the step's actor.
    actor: usize,
    /// The number of the step among the steps of its actor, from 1.
    number: u32,
    /// A bit for each touched object, as in [`Touches`].
    any: u64,
    writes: u64,
}

impl HappensBefore {
    pub(in crate::device::host) fn len(&self) -> usize {
        self.clocks.len()
    }

    pub(in crate::device::host) fn truncate(&mut self, len: usize) {
        self.clocks.truncate(len);
        self.steps.truncate(len);
    }

    fn index(&mut self, actor: Actor) -> usize {
        self.actors.iter().position(|other| *other == actor).unwrap_or_else(|| {
            self.actors.push(actor);
            self.actors.len() - 1
        })
    }

    /// The number of a step among the steps of its actor, from 1.
    pub(super) fn number(&self, step: usize) -> u32 {
        self.steps[step].number
    }

    /// Adds the next step of `events`. Adds the indices of the steps that race with this step to
    /// `races`.
    pub(super) fn add(&mut self, events: &[TakenStep], races: &mut Vec<usize>) {
        let j = self.len();
        let mine = self.index(events[j].actor);
        let mut clock = ActorClock::from_elem(0, self.actors.len());
        let join = |clock: &mut ActorClock, other: &ActorClock| {
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
            // A step that happens before the new step does not race with the new step. A race
            // between step `i` and the new step orders step `i` first. So a step that happens
            // before step `i` does not race with the new step either. This is why the clock of step
            // `i` is joined.
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
        self.steps.push(RaceStep { actor: mine, number, any: touches.any, writes: touches.writes });
        self.clocks.push(clock);
    }

    pub(super) fn precedes(&self, earlier: usize, later: usize) -> bool {
        let RaceStep { actor, number, .. } = self.steps[earlier];
        self.clocks[later].get(actor).is_some_and(|known| *known >= number)
    }

    /// The actors that can take the first different step of a run in which step `j` comes before
    /// step `i`. If the actor of step `j` is among them, it is the last.
    pub(super) fn initials(
        &self,
        events: &[TakenStep],
        i: usize,
        j: usize,
    ) -> SmallVec<[Actor; 8]> {
        let mut between: SmallVec<[usize; 16]> =
            (i + 1..j).filter(|k| !self.precedes(i, *k)).collect();
        between.push(j);
        let first = between
            .iter()
            .filter(|k| between.iter().take_while(|m| m < k).all(|m| !self.precedes(*m, **k)));
        first.map(|k| events[*k].actor).collect()
    }
}
