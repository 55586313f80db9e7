//! Exhaustive exploration: every run of a program that can differ, and few that cannot.
//!
//! Stateless search with dynamic partial-order reduction: source sets and sleep sets (Abdulla et
//! al. 2014, algorithm 1). A run is a sequence of steps; a step is one call of a host thread or one
//! operation of a stream. Two steps of different actors depend on each other when they touch the
//! same object and one of them changes it. After each run, every pair of dependent steps that
//! nothing else orders is a race, and the search goes on to the run in which they swap. So a
//! program without races has exactly one run.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ops::Range;

/// Who takes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Actor {
    /// A host thread; 0 is whoever is not scripted.
    Thread(u32),
    /// The stream in this slot.
    Stream(u32),
}

/// What a step may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    /// The end of a stream's queue.
    Queue(u32),
    /// What has been completed of a stream, seen by a query.
    Progress(u32),
    Event(u64),
    /// The barrier of a device's legacy stream.
    Legacy(u32),
    /// The books of all pools.
    Pools,
    /// Whatever host functions and host threads share.
    Host,
    /// Bytes of a region of memory, which has a number that a repeated run gives again. Addresses
    /// differ between runs.
    Bytes(u32, Range<u64>),
}

#[derive(Debug, Clone)]
struct Touch {
    object: Object,
    write: bool,
}

fn conflict(a: &Touch, b: &Touch) -> bool {
    if !a.write && !b.write {
        return false;
    }
    match (&a.object, &b.object) {
        (Object::Bytes(r, a), Object::Bytes(s, b)) => {
            r == s && a.start.max(b.start) < a.end.min(b.end)
        }
        (a, b) => a == b,
    }
}

fn depend(a: &[Touch], b: &[Touch]) -> bool {
    a.iter().any(|x| b.iter().any(|y| conflict(x, y)))
}

/// One step of the run at hand.
#[derive(Debug)]
struct Event {
    actor: Actor,
    /// Which of the choices so far chose it.
    frame: usize,
    causes: Vec<u32>,
    touches: Vec<Touch>,
}

/// One choice of the run at hand.
#[derive(Debug)]
enum Frame {
    Actors {
        enabled: Vec<Actor>,
        chosen: usize,
        /// To be tried, or tried.
        backtrack: BTreeSet<usize>,
        tried: Vec<(usize, Vec<Touch>)>,
        sleep: Vec<(Actor, Vec<Touch>)>,
    },
    /// A choice of the driver between two possibilities; both are tried.
    Flip { value: bool },
}

/// A run in which one operation happens in the middle of another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Torn {
    /// Which operations, by stream and number.
    pair: [(Actor, u32); 2],
    before: Vec<Actor>,
}

/// What a choice came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) index: usize,
    /// The candidate that runs in the middle of the chosen one.
    pub(super) torn_by: Option<usize>,
}

impl Choice {
    /// As a number, for a list of steps.
    pub(super) fn number(self, candidates: usize) -> u32 {
        let torn = self.torn_by.map_or(0, |other| other + 1);
        u32::try_from(torn * candidates + self.index).unwrap_or(u32::MAX)
    }

    pub(super) fn from_number(number: u32, candidates: usize) -> Self {
        let number = number as usize;
        let torn_by = (number / candidates).checked_sub(1).filter(|other| *other < candidates);
        Self { index: number % candidates, torn_by }
    }
}

/// The search over all runs of a program.
#[derive(Debug, Default)]
pub(crate) struct Search {
    frames: Vec<Frame>,
    depth: usize,
    events: Vec<Event>,
    sleep: Vec<(Actor, Vec<Touch>)>,
    /// The run at hand equals one that was seen: its outcome is not news.
    redundant: bool,
    /// The same choices led elsewhere than before.
    unrepeatable: bool,
    /// The program has ended; what its objects still do when they drop is not explored.
    ended: bool,
    taken: Vec<u32>,
    torn: BTreeSet<Torn>,
    torn_done: BTreeSet<[(Actor, u32); 2]>,
    plan: Option<Torn>,
}

impl Search {
    /// Starts the next run.
    pub(crate) fn begin_run(&mut self) {
        self.depth = 0;
        self.events.clear();
        self.sleep.clear();
        self.taken.clear();
        self.redundant = false;
        self.ended = false;
    }

    /// The program has ended. Returns the choices of the run, unless it equals an earlier one.
    pub(crate) fn end_run(&mut self) -> Option<Vec<u32>> {
        if !self.ended {
            self.close_event();
            self.ended = true;
            if self.plan.is_none() && !self.redundant {
                self.find_races();
            }
        }
        (!self.redundant).then(|| self.taken.clone())
    }

    /// Prepares the next run. False when there is none.
    pub(crate) fn advance(&mut self) -> bool {
        if self.plan.is_none() && self.next_branch() {
            return true;
        }
        while let Some(torn) = self.torn.pop_first() {
            if self.torn_done.insert(torn.pair) {
                self.plan = Some(torn);
                return true;
            }
        }
        false
    }

    fn next_branch(&mut self) -> bool {
        while let Some(frame) = self.frames.last_mut() {
            match frame {
                Frame::Flip { value } if !*value => {
                    *value = true;
                    return true;
                }
                Frame::Flip { .. } => {}
                Frame::Actors { enabled, chosen, backtrack, tried, sleep } => {
                    let open = |index: &usize| {
                        tried.iter().all(|(done, _)| done != index)
                            && sleep.iter().all(|(actor, _)| *actor != enabled[*index])
                    };
                    if let Some(next) = backtrack.iter().copied().find(open) {
                        *chosen = next;
                        return true;
                    }
                }
            }
            self.frames.pop();
        }
        false
    }

    /// The number of the step that is running.
    pub(super) fn step(&self) -> u32 {
        u32::try_from(self.events.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The step that is running follows from these.
    pub(super) fn follow(&mut self, causes: &[u32]) {
        if let Some(event) = self.events.last_mut() {
            event.causes.extend_from_slice(causes);
        }
    }

    pub(super) fn touch(&mut self, object: Object, write: bool) {
        if !self.ended
            && let Some(event) = self.events.last_mut()
        {
            event.touches.push(Touch { object, write });
        }
    }

    /// Which of `enabled` takes the next step.
    pub(super) fn choose(&mut self, enabled: &[Actor]) -> Choice {
        if self.ended {
            return Choice { index: 0, torn_by: None };
        }
        self.close_event();
        let choice = match &self.plan {
            Some(plan) => follow_plan(plan, self.events.len(), enabled),
            None => Choice { index: self.choose_in_tree(enabled), torn_by: None },
        };
        if enabled.len() > 1 {
            self.taken.push(choice.number(enabled.len()));
        }
        self.events.push(Event {
            actor: enabled[choice.index],
            frame: self.depth.saturating_sub(1),
            causes: Vec::new(),
            touches: Vec::new(),
        });
        choice
    }

    fn choose_in_tree(&mut self, enabled: &[Actor]) -> usize {
        if self.redundant {
            return 0;
        }
        if self.depth == self.frames.len() {
            let asleep = |actor: &Actor| self.sleep.iter().any(|(other, _)| other == actor);
            let Some(chosen) = enabled.iter().position(|actor| !asleep(actor)) else {
                self.redundant = true;
                return 0;
            };
            self.frames.push(Frame::Actors {
                enabled: enabled.to_vec(),
                chosen,
                backtrack: BTreeSet::from([chosen]),
                tried: Vec::new(),
                sleep: self.sleep.clone(),
            });
        }
        let Frame::Actors { enabled: expected, chosen, tried, sleep, .. } =
            &self.frames[self.depth]
        else {
            return self.give_up();
        };
        if expected != enabled {
            return self.give_up();
        }
        self.sleep.clone_from(sleep);
        let asleep = tried.iter().filter(|(index, _)| index != chosen);
        self.sleep.extend(asleep.map(|(index, touches)| (enabled[*index], touches.clone())));
        self.depth += 1;
        *chosen
    }

    /// The same choices led elsewhere. The run goes on to its end, unexplored: its caller holds
    /// locks.
    fn give_up(&mut self) -> usize {
        self.unrepeatable = true;
        self.redundant = true;
        0
    }

    /// Whether the program did something else under the same choices.
    pub(crate) fn is_unrepeatable(&self) -> bool {
        self.unrepeatable
    }

    /// A choice of the driver that the laws leave open.
    pub(super) fn flip(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let value = if self.redundant || self.plan.is_some() {
            false
        } else {
            if self.depth == self.frames.len() {
                self.frames.push(Frame::Flip { value: false });
            }
            let Frame::Flip { value } = self.frames[self.depth] else {
                self.give_up();
                return false;
            };
            self.depth += 1;
            value
        };
        self.taken.push(u32::from(value));
        value
    }

    /// The last step is over: what it touched is known.
    fn close_event(&mut self) {
        let Some(event) = self.events.last() else { return };
        if self.plan.is_some() || self.redundant {
            return;
        }
        self.sleep
            .retain(|(actor, touches)| *actor != event.actor && !depend(touches, &event.touches));
        if let Some(Frame::Actors { chosen, tried, .. }) = self.frames.get_mut(event.frame)
            && tried.iter().all(|(index, _)| index != chosen)
        {
            tried.push((*chosen, event.touches.clone()));
        }
    }

    /// Adds what has to be tried besides the run at hand.
    fn find_races(&mut self) {
        let events = std::mem::take(&mut self.events);
        let order = Order::of(&events);
        for (i, j) in &order.races {
            let initials = order.initials(*i, *j);
            let Some(Frame::Actors { enabled, backtrack, .. }) =
                self.frames.get_mut(events[*i].frame)
            else {
                continue;
            };
            let indices: Vec<usize> = initials
                .iter()
                .filter_map(|actor| enabled.iter().position(|other| other == actor))
                .collect();
            match indices.last() {
                Some(last) if !indices.iter().any(|index| backtrack.contains(index)) => {
                    backtrack.insert(*last);
                }
                Some(_) => {}
                None => backtrack.extend(0..enabled.len()),
            }
        }
        for (i, j) in &order.races {
            self.note_torn(&order, *i, *j);
        }
        drop(order);
        self.events = events;
    }

    /// Two operations race for bytes: one may happen in the middle of the other.
    fn note_torn(&mut self, order: &Order, i: usize, j: usize) {
        let bytes = |event: &Event| -> Vec<Touch> {
            let touches = event.touches.iter();
            touches.filter(|t| matches!(t.object, Object::Bytes(..))).cloned().collect()
        };
        let (a, b) = (&order.events[i], &order.events[j]);
        let streams = matches!((a.actor, b.actor), (Actor::Stream(_), Actor::Stream(_)));
        if !streams || !depend(&bytes(a), &bytes(b)) {
            return;
        }
        let pair = [(a.actor, order.numbers[i]), (b.actor, order.numbers[j])];
        let before = (0..j).filter(|k| *k != i && (*k < i || !order.precedes(i, *k)));
        let before: Vec<Actor> = before.map(|k| order.events[k].actor).collect();
        for pair in [pair, [pair[1], pair[0]]] {
            if !self.torn_done.contains(&pair) && self.torn.iter().all(|t| t.pair != pair) {
                self.torn.insert(Torn { pair, before: before.clone() });
            }
        }
    }
}

/// The step number `at` of a plan: as listed, then the torn pair, then whatever comes first.
fn follow_plan(plan: &Torn, at: usize, enabled: &[Actor]) -> Choice {
    let find = |actor: Actor| enabled.iter().position(|other| *other == actor);
    if let Some(actor) = plan.before.get(at) {
        return Choice { index: find(*actor).unwrap_or(0), torn_by: None };
    }
    let [a, b] = plan.pair.map(|(actor, _)| find(actor));
    match (a, b) {
        (Some(index), Some(other)) if at == plan.before.len() => {
            Choice { index, torn_by: Some(other) }
        }
        _ => Choice { index: 0, torn_by: None },
    }
}

/// Happens-before among the steps of one run.
struct Order<'a> {
    events: &'a [Event],
    /// The number of each step among those of its actor, from 1.
    numbers: Vec<u32>,
    actors: Vec<Actor>,
    /// Per step, per actor: the last step of that actor that comes before it, or is it.
    clocks: Vec<Vec<u32>>,
    races: Vec<(usize, usize)>,
}

impl<'a> Order<'a> {
    fn of(events: &'a [Event]) -> Self {
        let actors: BTreeSet<Actor> = events.iter().map(|event| event.actor).collect();
        let actors: Vec<Actor> = actors.into_iter().collect();
        let mut order = Self {
            events,
            numbers: Vec::with_capacity(events.len()),
            actors,
            clocks: Vec::with_capacity(events.len()),
            races: Vec::new(),
        };
        for j in 0..events.len() {
            order.add(j);
        }
        order
    }

    fn index(&self, actor: Actor) -> usize {
        self.actors.binary_search(&actor).expect("every actor of the run is listed")
    }

    fn add(&mut self, j: usize) {
        let mut clock = vec![0; self.actors.len()];
        let join = |clock: &mut Vec<u32>, other: &[u32]| {
            clock.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).max(*b));
        };
        let mine = self.events[j].actor;
        let previous = (0..j).rev().find(|i| self.events[*i].actor == mine);
        if let Some(previous) = previous {
            join(&mut clock, &self.clocks[previous]);
        }
        for cause in &self.events[j].causes {
            if (*cause as usize) < j {
                join(&mut clock, &self.clocks[*cause as usize]);
            }
        }
        for i in (0..j).rev() {
            let other = &self.events[i];
            if other.actor == mine || !depend(&other.touches, &self.events[j].touches) {
                continue;
            }
            if clock[self.index(other.actor)] < self.numbers[i] {
                self.races.push((i, j));
            }
            join(&mut clock, &self.clocks[i]);
        }
        let number = previous.map_or(0, |previous| self.numbers[previous]) + 1;
        clock[self.index(mine)] = number;
        self.numbers.push(number);
        self.clocks.push(clock);
    }

    fn precedes(&self, earlier: usize, later: usize) -> bool {
        self.clocks[later][self.index(self.events[earlier].actor)] >= self.numbers[earlier]
    }

    /// The actors that can begin the run in which `j` comes before `i`; that of `j` last, if it can.
    fn initials(&self, i: usize, j: usize) -> Vec<Actor> {
        let mut between: Vec<usize> = (i + 1..j).filter(|k| !self.precedes(i, *k)).collect();
        between.push(j);
        let first = between
            .iter()
            .filter(|k| between.iter().take_while(|m| m < k).all(|m| !self.precedes(*m, **k)));
        first.map(|k| self.events[*k].actor).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::prng::Prng;

    /// A model: each actor does its steps in order; a step touches objects.
    type Model = Vec<Vec<Vec<(u32, bool)>>>;

    fn draw(prng: &mut Prng) -> Model {
        let below = |prng: &mut Prng, n: u64| usize::try_from(prng.below(n)).expect("small");
        let actors = 2 + below(prng, 2);
        let steps = |prng: &mut Prng| {
            let one = |prng: &mut Prng| {
                let count = below(prng, 3);
                let object = |prng: &mut Prng| u32::try_from(prng.below(3)).expect("small");
                let touch = |prng: &mut Prng| (object(prng), prng.below(2) == 0);
                (0..count).map(|_| touch(prng)).collect()
            };
            (0..1 + below(prng, 3)).map(|_| one(prng)).collect()
        };
        (0..actors).map(|_| steps(prng)).collect()
    }

    /// Which step found which object as which other one left it.
    type Seen = Vec<(usize, u32, usize)>;

    /// What a run leaves: per object, who last wrote it and what everyone read.
    fn outcome(model: &Model, schedule: impl FnMut(&[Actor]) -> usize) -> Seen {
        let mut schedule = schedule;
        let mut at = vec![0; model.len()];
        let (mut last, mut seen) = ([usize::MAX; 3], Vec::new());
        loop {
            let enabled: Vec<usize> =
                (0..model.len()).filter(|a| at[*a] < model[*a].len()).collect();
            if enabled.is_empty() {
                seen.sort_unstable();
                seen.extend(last.iter().map(|writer| (usize::MAX, 0, *writer)));
                return seen;
            }
            let actors: Vec<Actor> =
                enabled.iter().map(|a| Actor::Stream(u32::try_from(*a).expect("small"))).collect();
            let actor = enabled[schedule(&actors)];
            let id = actor * 100 + at[actor];
            for (object, write) in &model[actor][at[actor]] {
                seen.push((id, *object, last[*object as usize]));
                if *write {
                    last[*object as usize] = id;
                }
            }
            at[actor] += 1;
        }
    }

    fn all(model: &Model) -> BTreeSet<Seen> {
        let (mut found, mut prefix) = (BTreeSet::new(), Vec::new());
        loop {
            let mut at = 0;
            let mut counts = Vec::new();
            found.insert(outcome(model, |enabled| {
                let choice = prefix.get(at).copied().unwrap_or(0);
                at += 1;
                counts.push((choice, enabled.len()));
                choice
            }));
            let next = counts.iter().rposition(|(choice, count)| choice + 1 < *count);
            let Some(next) = next else { return found };
            prefix = counts[..=next].iter().map(|(choice, _)| *choice).collect();
            prefix[next] += 1;
        }
    }

    fn reduced(model: &Model) -> (BTreeSet<Seen>, usize) {
        let (mut search, mut found, mut runs) = (Search::default(), BTreeSet::new(), 0);
        loop {
            search.begin_run();
            let mut at = vec![0; model.len()];
            let seen = outcome(model, |enabled| {
                let choice = search.choose(enabled).index;
                let Actor::Stream(actor) = enabled[choice] else { panic!("only streams") };
                for (object, write) in &model[actor as usize][at[actor as usize]] {
                    search.touch(Object::Queue(*object), *write);
                }
                at[actor as usize] += 1;
                choice
            });
            if search.end_run().is_some() {
                found.insert(seen);
                runs += 1;
            }
            if !search.advance() {
                return (found, runs);
            }
        }
    }

    /// The law: the reduced search finds exactly the outcomes of all interleavings.
    #[test]
    fn the_reduced_search_finds_every_outcome() {
        let mut smaller = 0;
        for seed in 0..400 {
            let model = draw(&mut Prng::new(seed));
            let (expected, (found, runs)) = (all(&model), reduced(&model));
            assert_eq!(found, expected, "seed {seed}: {model:?}");
            assert!(runs >= found.len());
            smaller += usize::from(runs == found.len());
        }
        assert!(smaller > 300, "only {smaller} of 400 searches ran each outcome once");
    }

    #[test]
    fn a_program_without_races_has_one_run() {
        let model: Model = vec![vec![vec![(0, true)]; 4], vec![vec![(1, true)]; 4]];
        assert_eq!(reduced(&model).1, 1);
    }

    #[test]
    fn two_writers_have_two_runs_per_swap() {
        let model: Model =
            vec![vec![vec![(0, true)]], vec![vec![(0, true)]], vec![vec![(0, true)]]];
        assert_eq!(reduced(&model).1, 6);
    }
}
