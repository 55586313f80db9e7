//! The executor of a host driver.
#![forbid(unsafe_code)]

pub(super) mod baton;
pub(super) mod clock;
mod simulate;
mod step;
pub(super) mod threads;
pub(super) mod turn;
mod workers;

use super::config::{Executor, HostConfig};
use super::explore::search::Search;
use super::order::{May, Order, StepPolicy, as_measured};
use crate::base::prng::Prng;
use simulate::Simulation;
use std::sync::{Arc, Mutex};
use step::{Decider, Pct, Stepper};
use workers::ThreadOps;

/// The executor: worker threads, a simulation with modelled time, or single steps.
pub(super) enum HostRun {
    Threads(ThreadOps),
    Timed(Simulation),
    Stepped(Stepper),
}

impl HostRun {
    /// Whether the driver behaves as the choice `what` describes.
    pub(super) fn may(&mut self, what: May) -> bool {
        match self {
            Self::Threads(_) => as_measured(what),
            Self::Timed(simulation) => simulation.policy.may(what),
            Self::Stepped(stepper) => stepper.may(what),
        }
    }

    pub(super) fn new(
        config: &HostConfig,
        threads: usize,
        search: Option<Arc<Mutex<Search>>>,
    ) -> Self {
        let timed = |policy| Self::Timed(Simulation::new(policy, config.cost.clone(), threads));
        let stepped = |decider| Self::Stepped(Stepper::new(decider, threads));
        if let Some(search) = search {
            return stepped(Decider::Search(search));
        }
        match &config.executor {
            Executor::Threads => Self::Threads(ThreadOps::default()),
            Executor::Virtual(Order::Greedy) => timed(StepPolicy::Greedy),
            Executor::Virtual(Order::Seeded(seed)) => timed(StepPolicy::Seeded(Prng::new(*seed))),
            Executor::Virtual(Order::Pct { seed, depth, steps }) => {
                stepped(Decider::Pct(Pct::new(*seed, *depth, *steps)))
            }
            Executor::Virtual(Order::Steps(steps)) => {
                stepped(Decider::List { steps: Arc::clone(steps), at: 0 })
            }
        }
    }
}
