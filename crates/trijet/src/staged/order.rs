//! The order in which a run issues its stages: the choice of the next stage and item. This file
//! knows no device, no values and no threads.
//!
//! Each stage takes the items in the order of their numbers. A stage can be issued for an item when
//! the item has the input values of the stage. If the value of the stage is recycled, a slot must
//! also be free. The slot of a value becomes free when every stage that takes the value was issued.
//! Then the device knows all uses of the value. If a host stage takes the value, the host stage
//! must also have run.
//!
//! The oldest item in flight can always proceed. Its inputs depend on no later item. If the item
//! waits for a slot, only older items have used the slot, and older items are complete. So a run
//! cannot get stuck, whatever the number of slots and the issue order.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// The stage that is issued first if several stages could be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Issue {
    /// All stages of an item are issued before any stage of the next item.
    #[default]
    DepthFirst,
    /// A stage is issued for all items in flight before the next stage is issued.
    BreadthFirst,
}

/// The properties of a stage on which the order depends.
#[derive(Debug, Clone)]
pub(super) struct StageShape {
    /// The indices of the stages whose values this stage takes.
    pub(super) inputs: Vec<usize>,
    /// Whether the stage runs on a thread of the pool. If so, the value of the stage exists only
    /// some time after the stage was issued.
    pub(super) is_host: bool,
    /// The number of values that the stage reuses in turn. `None` if the stage makes a new value
    /// for each item.
    pub(super) slots: Option<usize>,
}

/// The progress of one item.
#[derive(Debug)]
struct ItemProgress {
    has: Vec<bool>,
    /// For the value of each stage: the number of stages that still have to take the value.
    takers: Vec<usize>,
    is_sunk: bool,
}

/// The progress of a run. Stage 0 is the source.
#[derive(Debug)]
pub(super) struct StagedOrder {
    stages: Vec<StageShape>,
    issue: Issue,
    depth: usize,
    out: usize,
    /// For each stage: the number of the next item that the stage takes.
    next: Vec<u64>,
    free: Vec<Option<usize>>,
    /// The recycled stages whose slots an item keeps until the item ends: the stage of the result,
    /// and the stages whose values no stage takes.
    kept: Vec<usize>,
    /// The number of the oldest item in flight.
    first: u64,
    items: VecDeque<ItemProgress>,
    next_sunk: u64,
}

impl StagedOrder {
    /// The progress at the start of a run. At most `depth` items are in flight. The stage `out`
    /// makes the results.
    pub(super) fn new(stages: Vec<StageShape>, out: usize, issue: Issue, depth: usize) -> Self {
        let is_taken = |stage: usize| stages.iter().any(|other| other.inputs.contains(&stage));
        let is_kept =
            |stage: &usize| stages[*stage].slots.is_some() && (*stage == out || !is_taken(*stage));
        let kept = (1..stages.len()).filter(is_kept).collect();
        let (next, free) =
            (vec![0; stages.len()], stages.iter().map(|stage| stage.slots).collect());
        Self {
            stages,
            issue,
            depth,
            out,
            next,
            free,
            kept,
            first: 0,
            items: VecDeque::new(),
            next_sunk: 0,
        }
    }

    /// Whether another item may start.
    pub(super) fn can_begin(&self) -> bool {
        self.items.len() < self.depth
    }

    /// The number of items that have started.
    pub(super) fn begun(&self) -> u64 {
        self.next[0]
    }

    /// Begins the next item. The item has the value of stage 0 already.
    pub(super) fn begin(&mut self) {
        let mut takers = vec![0; self.stages.len()];
        for input in self.stages.iter().flat_map(|stage| &stage.inputs) {
            takers[*input] += 1;
        }
        let mut has = vec![false; self.stages.len()];
        has[0] = true;
        self.items.push_back(ItemProgress { has, takers, is_sunk: false });
        self.next[0] += 1;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.items.is_empty()
    }

    /// The number of the oldest item in flight.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    fn item(&self, number: u64) -> Option<&ItemProgress> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.items.get(place)
    }

    fn item_mut(&mut self, number: u64) -> Option<&mut ItemProgress> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.items.get_mut(place)
    }

    /// Returns the next stage to issue and its item, if there is one. The caller issues the stage,
    /// and then calls [`issued`](Self::issued).
    pub(super) fn next(&self) -> Option<(usize, u64)> {
        let could = (1..self.stages.len()).filter_map(|stage| {
            let number = self.next[stage];
            let item = self.item(number)?;
            let has_inputs = self.stages[stage].inputs.iter().all(|input| item.has[*input]);
            (has_inputs && self.free[stage] != Some(0)).then_some((stage, number))
        });
        match self.issue {
            Issue::DepthFirst => could.min_by_key(|(stage, number)| (*number, *stage)),
            Issue::BreadthFirst => could.min_by_key(|(stage, number)| (*stage, *number)),
        }
    }

    /// Registers that a stage was issued for an item. Returns the stages whose slots became free,
    /// because no other stage will take their values for this item.
    pub(super) fn issued(&mut self, stage: usize, number: u64) -> Vec<usize> {
        self.next[stage] += 1;
        if let Some(free) = &mut self.free[stage] {
            *free -= 1;
        }
        match self.stages[stage].is_host {
            true => Vec::new(),
            false => self.done(stage, number),
        }
    }

    /// Registers that an item has the value of a stage. Returns the stages whose slots became free,
    /// like [`issued`](Self::issued).
    pub(super) fn done(&mut self, stage: usize, number: u64) -> Vec<usize> {
        let inputs = self.stages[stage].inputs.clone();
        let Some(item) = self.item_mut(number) else { return Vec::new() };
        item.has[stage] = true;
        let mut taken = Vec::new();
        for input in inputs {
            item.takers[input] -= 1;
            if item.takers[input] == 0 {
                taken.push(input);
            }
        }
        // The sink keeps the result until the item ends.
        taken.retain(|stage| *stage != self.out && self.free[*stage].is_some());
        taken.iter().for_each(|stage| self.release(*stage));
        taken
    }

    fn release(&mut self, stage: usize) {
        if let Some(free) = &mut self.free[stage] {
            *free += 1;
        }
    }

    /// Returns the next item whose result goes to the sink. `None` if this item has no result yet.
    pub(super) fn next_to_sink(&mut self) -> Option<u64> {
        let number = self.next_sunk;
        let has_result = self.item(number)?.has[self.out];
        if has_result {
            self.next_sunk += 1;
        }
        has_result.then_some(number)
    }

    /// Registers that the sink has taken the result of an item.
    pub(super) fn sunk(&mut self, number: u64) {
        if let Some(item) = self.item_mut(number) {
            item.is_sunk = true;
        }
    }

    /// Ends the oldest item, if all stages of the item have run and the sink has taken its result.
    /// Returns the stages whose slots the item kept until now.
    pub(super) fn end_first(&mut self) -> Option<Vec<usize>> {
        let item = self.items.front()?;
        if !item.is_sunk || !item.has.iter().all(|has| *has) {
            return None;
        }
        self.items.pop_front();
        self.first += 1;
        let kept = self.kept.clone();
        kept.iter().for_each(|stage| self.release(*stage));
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pipeline of up to seven stages, each of which takes one or two earlier values.
    fn shapes() -> impl Strategy<Value = Vec<StageShape>> {
        let stage =
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>(), 0..4usize);
        prop::collection::vec(stage, 0..7).prop_map(|drawn| {
            let source = StageShape { inputs: Vec::new(), is_host: false, slots: None };
            let mut stages = vec![source];
            for (one, other, is_host, slots) in drawn {
                let mut inputs = vec![one.index(stages.len()), other.index(stages.len())];
                inputs.dedup();
                let slots = (slots > 0 && !is_host).then_some(slots);
                stages.push(StageShape { inputs, is_host, slots });
            }
            stages
        })
    }

    /// A run of `items` items. The numbers in `draws` choose the order in which the threads answer.
    struct Simulated {
        stages: Vec<StageShape>,
        order: StagedOrder,
        out: usize,
        /// For each stage, the numbers of the items whose values are in use.
        held: Vec<Vec<u64>>,
        issued: Vec<u64>,
        has: Vec<Vec<bool>>,
        pending: Vec<(usize, u64)>,
        sinking: VecDeque<u64>,
        sunk: u64,
    }

    impl Simulated {
        fn put(&mut self, stage: usize, item: u64) {
            self.has[usize::try_from(item).unwrap()][stage] = true;
        }

        fn give_back(&mut self, stages: &[usize], item: u64) {
            for stage in stages {
                self.held[*stage].retain(|held| *held != item);
                let takers =
                    self.stages.iter().zip(0..).filter(|(other, _)| other.inputs.contains(stage));
                for (_, taker) in takers {
                    let taken = self.issued[taker] > item && !self.pending.contains(&(taker, item));
                    assert!(
                        taken,
                        "stage {taker} still takes the value of stage {stage}, item {item}"
                    );
                }
            }
        }

        fn advance(&mut self) {
            loop {
                while let Some((stage, item)) = self.order.next() {
                    self.issue(stage, item);
                }
                while let Some(item) = self.order.next_to_sink() {
                    assert!(self.has[usize::try_from(item).unwrap()][self.out]);
                    self.sinking.push_back(item);
                }
                let first = self.order.first();
                let Some(released) = self.order.end_first() else { return };
                assert!(first < self.sunk);
                self.give_back(&released, first);
            }
        }

        fn issue(&mut self, stage: usize, item: u64) {
            assert_eq!(self.issued[stage], item, "stage {stage} takes the items in order");
            let has = &self.has[usize::try_from(item).unwrap()];
            assert!(self.stages[stage].inputs.iter().all(|input| has[*input]));
            self.issued[stage] += 1;
            if let Some(slots) = self.stages[stage].slots {
                self.held[stage].push(item);
                assert!(self.held[stage].len() <= slots, "stage {stage}: {:?}", self.held[stage]);
            }
            if self.stages[stage].is_host {
                self.pending.push((stage, item));
            } else {
                self.put(stage, item);
            }
            let released = self.order.issued(stage, item);
            self.give_back(&released, item);
        }
    }

    proptest! {
        /// Every stage is issued once for each item, after its inputs. The results reach the sink
        /// in the order of the items. No stage has more values in use than slots. The run ends, in
        /// whatever order the threads answer.
        #[test]
        fn every_run_ends_with_every_item(
            stages in shapes(), out in any::<prop::sample::Index>(), depth in 1..5usize,
            items in 0..12u64, breadth in any::<bool>(),
            mut draws in prop::collection::vec(any::<prop::sample::Index>(), 400),
        ) {
            let out = out.index(stages.len());
            let issue = if breadth { Issue::BreadthFirst } else { Issue::DepthFirst };
            let count = stages.len();
            let mut run = Simulated {
                order: StagedOrder::new(stages.clone(), out, issue, depth),
                held: vec![Vec::new(); count],
                issued: vec![0; count],
                has: Vec::new(),
                pending: Vec::new(),
                sinking: VecDeque::new(),
                sunk: 0,
                stages,
                out,
            };
            let mut begun = 0;
            loop {
                run.advance();
                let can_begin = begun < items && run.order.can_begin();
                let choices = usize::from(can_begin) + run.pending.len() + usize::from(!run.sinking.is_empty());
                if choices == 0 {
                    break;
                }
                let choice = draws.pop().expect("400 are enough").index(choices);
                if choice < run.pending.len() {
                    let (stage, item) = run.pending.remove(choice);
                    run.put(stage, item);
                    let released = run.order.done(stage, item);
                    run.give_back(&released, item);
                } else if choice == run.pending.len() && !run.sinking.is_empty() {
                    let item = run.sinking.pop_front().expect("not empty");
                    prop_assert_eq!(item, run.sunk);
                    run.sunk += 1;
                    run.order.sunk(item);
                } else {
                    prop_assert!(begun - run.order.first() < depth as u64);
                    run.order.begin();
                    run.issued[0] += 1;
                    run.has.push(vec![false; count]);
                    run.put(0, begun);
                    begun += 1;
                }
            }
            prop_assert!(run.order.is_idle());
            prop_assert_eq!(run.sunk, items);
            prop_assert!(run.issued.iter().all(|issued| *issued == items));
            prop_assert!(run.held.iter().all(Vec::is_empty));
        }
    }

    fn chain(stages: usize) -> Vec<StageShape> {
        let inputs = |stage: usize| stage.checked_sub(1).into_iter().collect();
        let shape = |stage| StageShape { inputs: inputs(stage), is_host: false, slots: None };
        (0..stages).map(shape).collect()
    }

    #[test]
    fn depth_first_goes_through_an_item_and_breadth_first_through_a_stage() {
        for (issue, expected) in [
            (Issue::DepthFirst, [(1, 0), (2, 0), (1, 1), (2, 1)]),
            (Issue::BreadthFirst, [(1, 0), (1, 1), (2, 0), (2, 1)]),
        ] {
            let mut order = StagedOrder::new(chain(3), 2, issue, 2);
            (0..2).for_each(|_| order.begin());
            let mut found = Vec::new();
            while let Some((stage, item)) = order.next() {
                order.issued(stage, item);
                found.push((stage, item));
            }
            assert_eq!(found, expected, "{issue:?}");
        }
    }
}
