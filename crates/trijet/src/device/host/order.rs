//! Order policies: what the virtual executor does where the laws leave a choice.
#![forbid(unsafe_code)]

use crate::base::prng::Prng;
use crate::base::units::Nanos;

/// Which of several ready operations starts next, and how long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// What was enqueued first starts first, and durations are the model's: the timing of a GPU.
    Greedy,
    /// Everything the laws leave open is drawn from the seed: who starts, who is held back, how
    /// long each part takes. For finding what the enqueue order hides.
    Seeded(u64),
}

/// The state of a policy.
#[derive(Debug)]
pub(super) enum Policy {
    Greedy,
    Seeded(Prng),
}

impl Policy {
    pub(super) fn new(order: Order) -> Self {
        match order {
            Order::Greedy => Self::Greedy,
            Order::Seeded(seed) => Self::Seeded(Prng::new(seed)),
        }
    }

    /// Which of `count > 0` candidates, listed by urgency and enqueue order, goes first.
    pub(super) fn pick(&mut self, count: usize) -> usize {
        match self {
            Self::Greedy => 0,
            Self::Seeded(prng) => usize::try_from(prng.below(count as u64)).unwrap_or(0),
        }
    }

    /// How long a part really takes when the model says `nominal`.
    pub(super) fn stretch(&mut self, nominal: Nanos) -> Nanos {
        match self {
            Self::Greedy => nominal,
            // A quarter to four times: enough for any two overlapping parts to swap.
            Self::Seeded(prng) => {
                Nanos::from_seconds(nominal.seconds() * (4f64).powf(prng.unit() * 2.0 - 1.0))
            }
        }
    }

    /// How long a ready operation is held back before it may start.
    pub(super) fn hold(&mut self) -> Nanos {
        match self {
            Self::Greedy => Nanos(0),
            Self::Seeded(prng) => {
                if prng.below(4) == 0 {
                    Nanos(prng.below(200_000))
                } else {
                    Nanos(0)
                }
            }
        }
    }

    /// How many kernels of one device may run at once.
    pub(super) fn kernels_at_once(&self) -> usize {
        match self {
            // The model's kernels fill the GPU.
            Self::Greedy => 1,
            Self::Seeded(_) => 8,
        }
    }

    /// The order in which the parts of one operation run.
    pub(super) fn arrange(&mut self, parts: &mut [u64]) {
        if let Self::Seeded(prng) = self {
            for last in (1..parts.len()).rev() {
                let other = usize::try_from(prng.below(last as u64 + 1)).unwrap_or(0);
                parts.swap(last, other);
            }
        }
    }
}
