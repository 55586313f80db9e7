//! Exploration: runs a program in the orders that the laws allow, and collects its outcomes. Each
//! outcome comes with an order, and a run in this order repeats the outcome.
//!
//! ```
//! use trijet::testing::MIX;
//! use trijet::explore::{Strategy, explore, replay};
//! use trijet::Device;
//! use trijet::sim::HostConfig;
//!
//! // Two kernels on two streams write one buffer, and nothing orders them.
//! fn race(devices: &[Device]) -> u64 {
//!     let (a, b) = (devices[0].stream().unwrap(), devices[0].stream().unwrap());
//!     let (mut x, mut y) = (a.alloc::<u64>(1).unwrap(), a.alloc::<u64>(1).unwrap());
//!     a.fill_bytes(&mut x, 1).unwrap();
//!     a.fill_bytes(&mut y, 2).unwrap();
//!     a.synchronize().unwrap();
//!     // SAFETY: the kernels only mix numbers, in either order.
//!     unsafe { y.order_manually() };
//!     a.launch(&MIX, (1, &x, &mut y)).unwrap();
//!     b.launch(&MIX, (2, &x, &mut y)).unwrap();
//!     devices[0].synchronize().unwrap();
//!     let mut h = devices[0].pinned::<u64>(1).unwrap();
//!     a.copy(&y, &mut h).unwrap();
//!     h.read().unwrap()[0]
//! }
//!
//! let config = HostConfig::default();
//! let found = explore(&config, Strategy::Exhaustive { runs_max: 1000 }, race)?;
//! assert!(found.complete && found.outcomes.len() >= 2);
//! for outcome in &found.outcomes {
//!     assert_eq!(replay(&config, &outcome.order, race)?, outcome.value);
//! }
//! # Ok::<(), trijet::Error>(())
//! ```
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::device::{Executor, HostConfig, Order, Search};
use crate::stream::Device;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The orders that an exploration tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Random orders on a simulated clock. A random generator makes every decision that the laws
    /// leave open.
    Seeded {
        /// The number of runs.
        runs: u64,
        /// The seed of the first run. Each further run has the next seed.
        seed: u64,
    },
    /// Probabilistic concurrency testing, see [`Order::Pct`].
    Pct {
        /// The number of runs.
        runs: u64,
        /// The seed of the first run. Each further run has the next seed.
        seed: u64,
        /// The number of ordering constraints that together make a fault occur.
        depth: u32,
        /// The approximate number of steps of a run.
        steps: u32,
    },
    /// Every order of atomic operations that can make a difference. For each pair of operations
    /// that race, this includes the orders in which one operation runs in the middle of the other.
    Exhaustive {
        /// Maximum number of runs. After this number, the search ends.
        runs_max: u64,
    },
}

/// One outcome of a program: a value that the program can return.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// The value that the program returned.
    pub value: T,
    /// The first order that led to the value. [`replay`] repeats the run with this order.
    pub order: Order,
    /// The number of runs that led to the value.
    pub runs: u64,
}

/// The result of an exploration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Exploration<T> {
    /// All outcomes, each listed once, in the order in which they were found.
    pub outcomes: Vec<Outcome<T>>,
    /// The number of all runs. A run counts even if its order repeated an earlier order.
    pub runs: u64,
    /// Whether all orders that can make a difference were tried.
    pub complete: bool,
}

/// The outcomes found so far.
struct Outcomes<T> {
    /// The index of each value in `orders`.
    places: HashMap<T, usize>,
    /// For each value: the first order that led to the value, and the number of runs that returned
    /// it.
    orders: Vec<(Order, u64)>,
    runs: u64,
}

impl<T: Eq + Hash> Outcomes<T> {
    fn new() -> Self {
        Self { places: HashMap::new(), orders: Vec::new(), runs: 0 }
    }

    fn add(&mut self, value: T, order: impl FnOnce() -> Order) {
        match self.places.entry(value) {
            Entry::Occupied(known) => self.orders[*known.get()].1 += 1,
            Entry::Vacant(new) => {
                new.insert(self.orders.len());
                self.orders.push((order(), 1));
            }
        }
    }

    fn end(self, complete: bool) -> Exploration<T> {
        let mut values: Vec<(T, usize)> = self.places.into_iter().collect();
        values.sort_unstable_by_key(|(_, place)| *place);
        let outcomes = values.into_iter().zip(self.orders);
        let outcomes = outcomes.map(|((value, _), (order, runs))| Outcome { value, order, runs });
        Exploration { outcomes: outcomes.collect(), runs: self.runs, complete }
    }
}

/// Runs `program` on new host devices in each order of `strategy`. The executor of `config` is
/// ignored. The program must be repeatable: whenever the devices return the same results, the
/// program must make the same calls. So it must use no random numbers and no clock.
///
/// # Errors
/// `Unsupported` if the system cannot start another thread; `InvalidValue` if
/// [`Strategy::Exhaustive`] finds that the program is not repeatable.
///
/// # Panics
/// If `program` panics.
pub fn explore<T: Eq + Hash>(
    config: &HostConfig,
    strategy: Strategy,
    program: impl Fn(&[Device]) -> T,
) -> Result<Exploration<T>> {
    let mut found = Outcomes::new();
    let mut complete = false;
    let mut try_order = |order: Order| -> Result<()> {
        let value = replay(config, &order, &program)?;
        found.runs += 1;
        found.add(value, || order);
        Ok(())
    };
    match strategy {
        Strategy::Seeded { runs, seed } => {
            (seed..seed + runs).try_for_each(|seed| try_order(Order::Seeded(seed)))?;
        }
        Strategy::Pct { runs, seed, depth, steps } => {
            let order = |seed| Order::Pct { seed, depth, steps };
            (seed..seed + runs).try_for_each(|seed| try_order(order(seed)))?;
        }
        Strategy::Exhaustive { runs_max } => {
            complete = exhaust(config, runs_max, &program, &mut found)?;
        }
    }
    Ok(found.end(complete))
}

/// Runs `program` in every order that can make a difference. Returns whether all such orders were
/// tried.
fn exhaust<T: Eq + Hash>(
    config: &HostConfig,
    runs_max: u64,
    program: impl Fn(&[Device]) -> T,
    found: &mut Outcomes<T>,
) -> Result<bool> {
    let search = Arc::new(Mutex::new(Search::default()));
    let lock = || search.lock().unwrap_or_else(PoisonError::into_inner);
    while found.runs < runs_max {
        lock().begin_run();
        let devices = Device::explored(config.clone(), &search)?;
        let value = program(&devices);
        let is_new = lock().end_run();
        drop(devices);
        if lock().is_unrepeatable() {
            let cause = "the program is not repeatable: after equal results of its calls, it made \
                         different calls. It must use no clock and no random numbers";
            return Err(Error::new(ErrorKind::InvalidValue, "explore", cause));
        }
        found.runs += 1;
        if is_new {
            found.add(value, || Order::Steps(lock().taken().into()));
        }
        if !lock().advance() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs `program` on new host devices in one order.
///
/// # Errors
/// `Unsupported` if the system cannot start another thread.
pub fn replay<T>(
    config: &HostConfig,
    order: &Order,
    program: impl Fn(&[Device]) -> T,
) -> Result<T> {
    let executor = Executor::Virtual(order.clone());
    let devices = Device::host(config.clone().executor(executor))?;
    Ok(program(&devices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// In an earlier version, the search panicked while it held the lock of the driver. The drop of
    /// a value then ended the process.
    #[test]
    fn a_program_that_cannot_be_repeated_is_refused() -> Result<()> {
        let runs = Cell::new(0);
        let program = |devices: &[Device]| {
            runs.set(runs.get() + 1);
            let streams: Vec<_> = (0..2).map(|_| devices[0].stream().expect("a stream")).collect();
            let mut h = devices[0].pinned::<u8>(8).expect("memory");
            // The first run has two host functions, which race. The other runs have one.
            for stream in &streams[..if runs.get() > 1 { 1 } else { 2 }] {
                stream.host_fn(|| ()).expect("enqueued");
            }
            streams[0].fill_bytes(&mut h, 1).expect("enqueued");
            devices[0].synchronize().expect("nothing failed");
        };
        let strategy = Strategy::Exhaustive { runs_max: 100 };
        let error = explore(&HostConfig::default(), strategy, program).expect_err("it differs");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        Ok(())
    }
}
