//! Exhaustive exploration: every run of a program that can have another outcome, and few other
//! runs.
//!
//! The search is stateless, with dynamic partial-order reduction: source sets and sleep sets
//! (Abdulla et al. 2014, algorithm 1). A run is a sequence of steps. A step is one operation of a
//! stream, or one call of a host thread. Later calls of the thread belong to the same step if they
//! are independent of every other step (`turn`). Two steps of different actors depend on each other
//! when they touch the same object and one of them changes it. After each run, every pair of
//! dependent steps that nothing else orders is a race. The search continues with the run in which
//! these two steps are swapped. So a program without races has exactly one run.
#![forbid(unsafe_code)]

use super::races::{Actor, HappensBefore, TakenStep};
use crate::device::host::engine::queues::Queues;
use crate::device::host::engine::touches::{Object, Touch, Touches, depend, may_tear};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A sleeping actor: its next step is explored in other runs. The touches of this step are known.
type Asleep = (Actor, Arc<Touches>);

/// One choice of the current run.
#[derive(Debug)]
enum SearchFrame {
    Actors {
        enabled: SmallVec<[Actor; 4]>,
        chosen: usize,
        /// The indices in `enabled` of the actors that were tried or will be tried, in ascending
        /// order.
        backtrack: SmallVec<[usize; 4]>,
        tried: SmallVec<[(usize, Arc<Touches>); 1]>,
        sleep: Vec<Asleep>,
    },
    /// A choice of the driver between two possibilities. Both are tried.
    Flip { value: bool },
}

/// A run in which one operation happens in the middle of another operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Torn {
    /// The two operations. Each operation is given by its stream, and by its number among the steps
    /// of this stream.
    pair: [(Actor, u32); 2],
    before: Vec<Actor>,
}

/// The result of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device::host) struct Choice {
    pub(in crate::device::host) index: usize,
    /// The index of the actor whose operation runs in the middle of the chosen operation.
    pub(in crate::device::host) torn_by: Option<usize>,
}

impl Choice {
    /// The number of this choice in the list of `Order::Steps`.
    pub(super) fn number(self, candidates: usize) -> u32 {
        let torn = self.torn_by.map_or(0, |other| other + 1);
        u32::try_from(torn * candidates + self.index).unwrap_or(u32::MAX)
    }

    pub(in crate::device::host) fn from_number(number: u32, candidates: usize) -> Self {
        let number = number as usize;
        let torn_by = (number / candidates).checked_sub(1).filter(|other| *other < candidates);
        Self { index: number % candidates, torn_by }
    }
}

/// The search over all runs of a program.
#[derive(Default)]
pub(crate) struct Search {
    /// The queues of an earlier run. The next run reuses the memory of these queues.
    pub(in crate::device::host) spare: Queues,
    frames: Vec<SearchFrame>,
    depth: usize,
    /// The steps of this run. At the start of the run, the list has the first `same` steps of the
    /// last run, which this run repeats.
    events: Vec<TakenStep>,
    /// The number of steps of this run so far.
    steps: usize,
    /// The number of first steps that are the same as in the last run. These steps touch the same
    /// objects as in the last run.
    same: usize,
    order: HappensBefore,
    sleep: Vec<Asleep>,
    /// Whether the current run is equivalent to an earlier run, or cannot be repeated.
    redundant: bool,
    /// Whether the same choices led to other steps than in an earlier run.
    unrepeatable: bool,
    /// Whether the program has ended. The drops of the program's objects are not explored.
    ended: bool,
    taken: Vec<u32>,
    torn: BTreeSet<Torn>,
    /// The pairs of operations that are or were in `torn`.
    torn_seen: BTreeSet<[(Actor, u32); 2]>,
    plan: Option<Torn>,
}

impl Search {
    /// Starts the next run.
    pub(crate) fn begin_run(&mut self) {
        self.depth = 0;
        self.steps = 0;
        self.events.truncate(self.same);
        self.order.truncate(self.same);
        self.sleep.clear();
        self.taken.clear();
        self.redundant = false;
        self.ended = false;
    }

    /// Ends the current run. Returns false if the run is equivalent to an earlier run.
    pub(crate) fn end_run(&mut self) -> bool {
        if !self.ended {
            self.close_event();
            self.ended = true;
            if self.plan.is_none() && !self.redundant {
                self.find_races();
            }
        }
        !self.redundant
    }

    /// The choices of the current run.
    pub(crate) fn taken(&self) -> &[u32] {
        &self.taken
    }

    /// Prepares the next run. Returns false if no run is left.
    pub(crate) fn advance(&mut self) -> bool {
        if self.plan.is_none() && self.next_branch() {
            return true;
        }
        self.same = 0;
        self.plan = self.torn.pop_first();
        self.plan.is_some()
    }

    fn next_branch(&mut self) -> bool {
        while let Some(frame) = self.frames.last_mut() {
            match frame {
                SearchFrame::Flip { value } if !*value => {
                    *value = true;
                    // The step in which the driver makes this choice can touch other objects than
                    // in the last run.
                    self.same = self.steps_before(self.frames.len() - 1).saturating_sub(1);
                    return true;
                }
                SearchFrame::Flip { .. } => {}
                SearchFrame::Actors { enabled, chosen, backtrack, tried, sleep } => {
                    let open = |index: &usize| {
                        tried.iter().all(|(done, _)| done != index)
                            && sleep.iter().all(|(actor, _)| *actor != enabled[*index])
                    };
                    if let Some(next) = backtrack.iter().copied().find(open) {
                        *chosen = next;
                        self.same = self.steps_before(self.frames.len() - 1);
                        return true;
                    }
                }
            }
            self.frames.pop();
        }
        false
    }

    /// The number of steps of the current run that were chosen before `frame`.
    fn steps_before(&self, frame: usize) -> usize {
        self.events[..self.steps].partition_point(|event| event.frame < frame)
    }

    /// The number of the running step.
    pub(in crate::device::host) fn step(&self) -> u32 {
        u32::try_from(self.steps.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Whether the program has ended.
    pub(in crate::device::host) fn is_over(&self) -> bool {
        self.ended
    }

    /// Whether the objects that the running step touches are not known yet.
    pub(in crate::device::host) fn listens(&self) -> bool {
        !self.ended && self.steps > self.same
    }

    /// The running step; `None` if the objects that it touches are known.
    fn running(&mut self) -> Option<&mut TakenStep> {
        let listens = self.listens();
        self.events.last_mut().filter(|_| listens)
    }

    /// Notes that the running step comes after the steps `causes`.
    pub(in crate::device::host) fn follow(&mut self, causes: &[u32]) {
        if let Some(event) = self.running() {
            for cause in causes {
                if !event.causes.contains(cause) {
                    event.causes.push(*cause);
                }
            }
        }
    }

    pub(in crate::device::host) fn touch(&mut self, object: Object, write: bool) {
        if let Some(event) = self.running() {
            Arc::make_mut(&mut event.touches).push(Touch { object, write });
        }
    }

    /// Chooses the actor of `enabled` that takes the next step.
    pub(in crate::device::host) fn choose(&mut self, enabled: &[Actor]) -> Choice {
        if self.ended {
            return Choice { index: 0, torn_by: None };
        }
        self.close_event();
        let choice = match &self.plan {
            Some(plan) => follow_plan(plan, self.steps, enabled),
            None => Choice { index: self.choose_in_tree(enabled), torn_by: None },
        };
        if enabled.len() > 1 {
            self.taken.push(choice.number(enabled.len()));
        }
        if self.steps == self.events.len() {
            self.events.push(TakenStep {
                actor: enabled[choice.index],
                frame: self.depth.saturating_sub(1),
                causes: SmallVec::new(),
                touches: Arc::default(),
            });
        }
        self.steps += 1;
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
            self.frames.push(SearchFrame::Actors {
                enabled: SmallVec::from_slice(enabled),
                chosen,
                backtrack: SmallVec::from_slice(&[chosen]),
                tried: SmallVec::new(),
                sleep: std::mem::take(&mut self.sleep),
            });
        }
        let SearchFrame::Actors { enabled: expected, chosen, .. } = &self.frames[self.depth] else {
            return self.give_up();
        };
        if **expected != *enabled {
            return self.give_up();
        }
        self.depth += 1;
        *chosen
    }

    /// Called when the same choices led to other steps than in an earlier run. The run continues to
    /// its end without exploration, because its caller holds locks.
    fn give_up(&mut self) -> usize {
        self.unrepeatable = true;
        self.redundant = true;
        0
    }

    /// Whether the program took other steps than in an earlier run under the same choices.
    pub(crate) fn is_unrepeatable(&self) -> bool {
        self.unrepeatable
    }

    /// Chooses for the driver where the laws allow two behaviours.
    pub(in crate::device::host) fn flip(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let value = if self.redundant || self.plan.is_some() {
            false
        } else {
            if self.depth == self.frames.len() {
                self.frames.push(SearchFrame::Flip { value: false });
            }
            let SearchFrame::Flip { value } = self.frames[self.depth] else {
                self.give_up();
                return false;
            };
            self.depth += 1;
            value
        };
        self.taken.push(u32::from(value));
        value
    }

    /// Ends the last step. The objects that the step touched are known now.
    fn close_event(&mut self) {
        let Some(last) = self.steps.checked_sub(1) else { return };
        if self.plan.is_some() || self.redundant {
            return;
        }
        let event = &self.events[last];
        let next = self.depth;
        let is_last = next == self.frames.len();
        let Some(SearchFrame::Actors { enabled, chosen, tried, sleep, .. }) =
            self.frames.get_mut(event.frame)
        else {
            return;
        };
        if tried.iter().all(|(index, _)| index != chosen) {
            tried.push((*chosen, Arc::clone(&event.touches)));
        }
        // Only the last choice needs a new list of sleeping actors. The sleeping actors after an
        // earlier choice are known already.
        if is_last {
            let tried = tried.iter().filter(|(index, _)| index != chosen);
            let tried = tried.map(|(index, touches)| (enabled[*index], touches));
            let asleep = sleep.iter().map(|(actor, touches)| (*actor, touches)).chain(tried);
            let still = asleep.filter(|(actor, touches)| {
                *actor != event.actor && !depend(touches, &event.touches)
            });
            self.sleep.clear();
            self.sleep.extend(still.map(|(actor, touches)| (actor, Arc::clone(touches))));
        }
    }

    /// Finds the races of the current run, and adds the runs that must be tried because of these
    /// races. The races among steps that the current run shares with earlier runs were found in the
    /// earlier runs.
    fn find_races(&mut self) {
        self.events.truncate(self.steps);
        let mut races = Vec::new();
        for j in self.order.len()..self.events.len() {
            self.order.add(&self.events, &mut races);
            for i in races.drain(..) {
                self.note_race(i, j);
                self.note_torn(i, j);
            }
        }
    }

    /// Notes that steps `i` and `j` race. The run in which these steps are swapped must be tried.
    fn note_race(&mut self, i: usize, j: usize) {
        let initials = self.order.initials(&self.events, i, j);
        let Some(SearchFrame::Actors { enabled, backtrack, .. }) =
            self.frames.get_mut(self.events[i].frame)
        else {
            return;
        };
        let indices: SmallVec<[usize; 8]> = initials
            .iter()
            .filter_map(|actor| enabled.iter().position(|other| other == actor))
            .collect();
        match indices.last() {
            Some(last) if !indices.iter().any(|index| backtrack.contains(index)) => {
                let at = backtrack.partition_point(|index| index < last);
                backtrack.insert(at, *last);
            }
            Some(_) => {}
            None => *backtrack = (0..enabled.len()).collect(),
        }
    }

    /// Notes that operations `i` and `j` race for bytes. The runs in which one operation happens in
    /// the middle of the other must be tried.
    fn note_torn(&mut self, i: usize, j: usize) {
        let (order, events) = (&self.order, &self.events);
        let (a, b) = (&events[i], &events[j]);
        if !matches!((a.actor, b.actor), (Actor::Stream(_), Actor::Stream(_))) {
            return;
        }
        let pair = [(a.actor, order.number(i)), (b.actor, order.number(j))];
        let pairs = [pair, [pair[1], pair[0]]];
        if pairs.iter().all(|pair| self.torn_seen.contains(pair)) {
            return;
        }
        if !may_tear(&a.touches, &b.touches) {
            return;
        }
        let before = (0..j).filter(|k| *k != i && (*k < i || !order.precedes(i, *k)));
        let before: Vec<Actor> = before.map(|k| events[k].actor).collect();
        // A host function cannot be cut into two halves.
        let calls = [a.touches.calls_host(), b.touches.calls_host()];
        for (pair, calls) in pairs.into_iter().zip(calls) {
            if !calls && self.torn_seen.insert(pair) {
                self.torn.insert(Torn { pair, before: before.clone() });
            }
        }
    }
}

/// The choice for step `at` of a plan. First come the steps of `before`, then the torn pair.
/// Afterwards each choice is the first possibility.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::prng::Prng;

    /// A model of a program: each actor takes its steps in order, and a step touches objects.
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

    /// For each access: its step, its object, and the step that had written the object last.
    type Seen = Vec<(usize, u32, usize)>;

    /// The outcome of a run: the last writer of each object, and the writer that each access found.
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
            if search.end_run() {
                found.insert(seen);
                runs += 1;
            }
            if !search.advance() {
                return (found, runs);
            }
        }
    }

    /// The reduced search finds exactly the outcomes of all interleavings.
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
