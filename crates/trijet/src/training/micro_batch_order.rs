//! The order in which a stage of a layer pipeline works on micro-batches.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;

/// The direction of a pass through the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first stage to the last one.
    Forward,
    /// From the last stage to the first one.
    Backward,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        })
    }
}

/// The order in which each stage works on micro-batches.
///
/// Assume that a stage needs one unit of time per micro-batch and direction. With `m` micro-batches
/// and `p` stages, a stage waits for `(p - 1) / (m + p - 1)` of the time, in every order; see
/// [`MicroBatchOrder::bubble`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MicroBatchOrder {
    /// The forward pass only.
    Forward,
    /// All micro-batches forward, then all micro-batches backward. Each stage keeps the inputs of
    /// all micro-batches.
    FillDrain,
    /// One micro-batch forward and one backward in turn (1F1B). Stage `s` of `p` keeps the inputs
    /// of at most `2 * (p - s) - 1` micro-batches: it starts two more than the next stage. With one
    /// more, each micro-batch would wait for the copies to the next stage and back. The stage has
    /// memory for one more input, which may arrive at the same time.
    InTurn,
}

impl MicroBatchOrder {
    /// The fraction of the time for which a stage waits, if all stages need equally long and copies
    /// need no time.
    ///
    /// ```
    /// use trijet::training::MicroBatchOrder;
    /// assert_eq!(MicroBatchOrder::bubble(2, 16), 1.0 / 17.0);
    /// ```
    #[must_use]
    pub fn bubble(stages: usize, micro_batches: usize) -> f64 {
        let waits = stages.saturating_sub(1) as f64;
        waits / (micro_batches as f64 + waits).max(1.0)
    }

    /// The work of a stage: the direction and the micro-batch of each item, in the order of
    /// execution.
    pub(super) fn of_stage(
        self,
        stage: usize,
        stages: usize,
        count: usize,
    ) -> Vec<(Direction, usize)> {
        let forward = |m| (Direction::Forward, m);
        let backward = |m| (Direction::Backward, m);
        match self {
            Self::Forward => (0..count).map(forward).collect(),
            Self::FillDrain => (0..count).map(forward).chain((0..count).map(backward)).collect(),
            Self::InTurn => {
                let warm_up = (Self::most_kept(stage, stages) - 1).min(count);
                let turns = (warm_up..count).zip(0..).flat_map(|(m, n)| [forward(m), backward(n)]);
                let rest = (count - warm_up..count).map(backward);
                (0..warm_up).map(forward).chain(turns).chain(rest).collect()
            }
        }
    }

    /// The micro-batches that a stage with [`MicroBatchOrder::InTurn`] has started and not ended.
    fn most_kept(stage: usize, stages: usize) -> usize {
        2 * (stages - stage) - 1
    }

    /// The number of inputs for which a stage has memory.
    pub(super) fn inputs(self, stage: usize, stages: usize, count: usize) -> usize {
        match self {
            Self::Forward => 2.min(count),
            Self::FillDrain => count,
            Self::InTurn => (Self::most_kept(stage, stages) + 1).min(count),
        }
    }
}

/// Maximum number of activations, or of gradients, that a stage has written and a copy to a
/// neighbour may still read.
pub(super) const IN_FLIGHT: usize = 2;

/// The number of micro-batches that have passed each stage in each direction.
///
/// An operation may write a slot only after all readers of the last content of the slot are
/// enqueued. This holds if [`MicroBatchProgress::take`] is called for the stages in turn, starting
/// with the first stage. The test below tracks the contents of all slots.
#[derive(Debug)]
pub(super) struct MicroBatchProgress {
    lists: Vec<VecDeque<(Direction, usize)>>,
    forward: Vec<usize>,
    backward: Vec<usize>,
}

impl MicroBatchProgress {
    pub(super) fn new(order: MicroBatchOrder, stages: usize, count: usize) -> Self {
        let list = |stage| order.of_stage(stage, stages, count).into();
        let lists = (0..stages).map(list).collect();
        Self { lists, forward: vec![0; stages], backward: vec![0; stages] }
    }

    pub(super) fn is_done(&self) -> bool {
        self.lists.iter().all(VecDeque::is_empty)
    }

    /// Returns the next work of a stage; `None` if this work cannot be enqueued yet.
    pub(super) fn take(&mut self, stage: usize) -> Option<(Direction, usize)> {
        let (direction, m) = *self.lists[stage].front()?;
        if !self.is_there(direction, stage, m) {
            return None;
        }
        self.lists[stage].pop_front();
        let passed =
            if direction == Direction::Forward { &mut self.forward } else { &mut self.backward };
        passed[stage] += 1;
        Some((direction, m))
    }

    /// Whether the neighbouring stage has already enqueued the work that writes the input of
    /// `stage` for micro-batch `m`.
    fn is_there(&self, direction: Direction, stage: usize, m: usize) -> bool {
        match direction {
            Direction::Forward => stage == 0 || self.forward[stage - 1] > m,
            Direction::Backward => stage + 1 == self.lists.len() || self.backward[stage + 1] > m,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All work can be enqueued, and no work writes a slot that still has to be read.
    #[test]
    fn each_order_ends_with_the_slots_that_there_are() {
        for (stages, count) in (1..9).flat_map(|stages| (1..20).map(move |count| (stages, count))) {
            for order in
                [MicroBatchOrder::Forward, MicroBatchOrder::FillDrain, MicroBatchOrder::InTurn]
            {
                let mut progress = MicroBatchProgress::new(order, stages, count);
                // The content of each slot of a stage: the number of the micro-batch whose input or
                // gradient the slot has.
                let mut inputs = vec![vec![None; count]; stages];
                let mut gradients = vec![vec![None; IN_FLIGHT]; stages];
                while !progress.is_done() {
                    let mut has_moved = false;
                    for stage in 0..stages {
                        let Some((direction, m)) = progress.take(stage) else { continue };
                        has_moved = true;
                        let slots = order.inputs(stage, stages, count);
                        if stage > 0 {
                            assert_eq!(
                                inputs[stage][m % slots],
                                Some(m),
                                "{order:?} {stages} {count}"
                            );
                        }
                        if direction == Direction::Backward && stage + 1 < stages {
                            let held = gradients[stage][m % IN_FLIGHT];
                            assert_eq!(held, Some(m), "{order:?} {stages} {count}");
                        }
                        match direction {
                            Direction::Forward if stage + 1 < stages => {
                                let slots = order.inputs(stage + 1, stages, count);
                                inputs[stage + 1][m % slots] = Some(m);
                            }
                            Direction::Backward if stage > 0 => {
                                gradients[stage - 1][m % IN_FLIGHT] = Some(m);
                            }
                            Direction::Forward | Direction::Backward => {}
                        }
                    }
                    assert!(has_moved, "{order:?}, {stages} stages, {count} micro-batches");
                }
            }
        }
    }

    /// Each micro-batch passes each stage once in each direction, forward first. A stage has memory
    /// for the inputs of all micro-batches that are between both passes.
    #[test]
    fn a_stage_keeps_the_inputs_between_both_passes() {
        for (stages, count) in (1..6).flat_map(|stages| (1..9).map(move |count| (stages, count))) {
            for (order, stage) in [MicroBatchOrder::FillDrain, MicroBatchOrder::InTurn]
                .iter()
                .flat_map(|s| (0..stages).map(move |n| (s, n)))
            {
                let (mut forward, mut backward, mut most) = (0, 0, 0);
                for (direction, m) in order.of_stage(stage, stages, count) {
                    let next =
                        if direction == Direction::Forward { &mut forward } else { &mut backward };
                    assert_eq!(m, *next, "{order:?}, stage {stage} of {stages}");
                    *next += 1;
                    assert!(backward <= forward);
                    most = most.max(forward - backward);
                }
                assert_eq!((forward, backward), (count, count));
                assert!(most <= order.inputs(stage, stages, count));
                if *order == MicroBatchOrder::InTurn {
                    assert_eq!(most, (2 * (stages - stage) - 1).min(count));
                }
            }
        }
    }
}
