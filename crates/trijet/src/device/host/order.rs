//! Order policies: the choices of the virtual executor among the orders that the laws allow.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::prng::Prng;
use crate::base::units::Nanos;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The policy that chooses the next step among several possible steps, and the durations of steps.
/// The same program under the same order has the same run, so an order identifies a run. An order
/// can be printed and parsed.
///
/// ```
/// use trijet::sim::Order;
/// let order: Order = "steps:0.1.0.2".parse()?;
/// assert_eq!(order.to_string(), "steps:0.1.0.2");
/// assert_eq!("seeded:7".parse::<Order>()?, Order::Seeded(7));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Order {
    /// Operations start in the order in which they were enqueued, with the durations of the model:
    /// the timing of a GPU.
    Greedy,
    /// Every choice is drawn from the seed: the operation that starts next, its delay, and the
    /// duration of each part. This shows faults that the order of the calls hides.
    Seeded(u64),
    /// Probabilistic concurrency testing. Streams and threads have random priorities. The next
    /// step is a step of the most urgent stream or thread that can take one. At `depth - 1` random
    /// steps, the most urgent stream or thread becomes the least urgent. For a fault that needs
    /// `depth` orderings, a run of `steps` steps with n streams and threads has a chance of at
    /// least `1 / (n * steps^(depth - 1))` (Burckhardt et al. 2010).
    Pct {
        /// The seed.
        seed: u64,
        /// The number of ordering constraints that the fault needs, at least 1.
        depth: u32,
        /// The approximate number of steps of a run. The random steps are drawn below this number.
        steps: u32,
    },
    /// The listed choices, one number for each choice, of a run that an exploration found. After
    /// the end of the list, the first possibility is chosen.
    Steps(Arc<[u32]>),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Greedy => write!(f, "greedy"),
            Self::Seeded(seed) => write!(f, "seeded:{seed}"),
            Self::Pct { seed, depth, steps } => write!(f, "pct:{seed}:{depth}:{steps}"),
            Self::Steps(steps) => {
                write!(f, "steps:")?;
                for (index, step) in steps.iter().enumerate() {
                    write!(f, "{}{step}", if index > 0 { "." } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            let cause = format!(
                "`{text}` is not an order; write greedy, seeded:N, pct:N:DEPTH:STEPS or steps:N.N"
            );
            Error::new(ErrorKind::InvalidValue, "order", cause)
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "greedy" if rest.is_empty() => Ok(Self::Greedy),
            "seeded" => rest.parse().map(Self::Seeded).map_err(|_| bad()),
            "pct" => {
                let numbers: Vec<&str> = rest.split(':').collect();
                let [seed, depth, steps] = numbers[..] else { return Err(bad()) };
                match (seed.parse(), depth.parse(), steps.parse()) {
                    (Ok(seed), Ok(depth), Ok(steps)) if depth > 0 => {
                        Ok(Self::Pct { seed, depth, steps })
                    }
                    _ => Err(bad()),
                }
            }
            "steps" => {
                let steps = rest.split('.').filter(|step| !step.is_empty()).map(str::parse);
                steps.collect::<std::result::Result<_, _>>().map(Self::Steps).map_err(|_| bad())
            }
            _ => Err(bad()),
        }
    }
}

/// Choices that the laws leave to the driver (the rows of `docs/semantics.md` marked MAY).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    /// A14: a record on the legacy stream makes later work of blocking streams wait.
    LegacyRecordHolds,
    /// A17: a copy from or to pageable memory waits for the stream, and uses a staging buffer.
    PageableStages,
    /// A17: a copy from pageable memory returns when it is complete.
    PageableWaits,
    /// A19: the sources of a batch with `Any` are read before the call returns.
    BatchReadsAtOnce,
    /// A23: memory is reused if its free happens to be complete.
    ReuseFinished,
    /// A23: memory is reused if the allocating stream follows its free.
    ReuseFollowing,
    /// A24: freeing memory that belongs to no stream waits for the device.
    FreeWaits,
    /// A25: trimming keeps memory whose free the host has not seen complete.
    TrimKeepsUnseen,
    /// A28: host functions of independent streams run one after the other.
    HostFnsSerial,
    /// A42: loading a kernel waits for running work.
    LoadWaits,
}

/// The order policy of the executor with modelled time.
#[derive(Debug)]
pub(super) enum StepPolicy {
    Greedy,
    Seeded(Prng),
}

impl StepPolicy {
    /// Whether the driver behaves as the choice `what` describes. Without a seed, the driver
    /// behaves like an H200 (driver 580, `docs/semantics.md`).
    pub(super) fn may(&mut self, what: May) -> bool {
        match self {
            Self::Greedy => as_measured(what),
            Self::Seeded(prng) => prng.below(2) == 0,
        }
    }

    /// The index of the chosen candidate. There are `count > 0` candidates, sorted by priority and
    /// age.
    pub(super) fn pick(&mut self, count: usize) -> usize {
        match self {
            Self::Greedy => 0,
            Self::Seeded(prng) => usize::try_from(prng.below(count as u64)).unwrap_or(0),
        }
    }

    /// The duration of a part whose modelled duration is `nominal`.
    pub(super) fn stretch(&mut self, nominal: Nanos) -> Nanos {
        match self {
            Self::Greedy => nominal,
            // A quarter of the time to four times the time, so that any two overlapping parts can
            // end in both orders.
            Self::Seeded(prng) => {
                Nanos::from_seconds(nominal.seconds() * (4f64).powf(prng.unit() * 2.0 - 1.0))
            }
        }
    }

    /// The time for which the start of an operation is delayed although the operation can start.
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

    /// Maximum number of kernels that run on one device at the same time.
    pub(super) fn kernels_at_once(&self) -> usize {
        match self {
            // A kernel of the model occupies the whole GPU.
            Self::Greedy => 1,
            Self::Seeded(_) => 8,
        }
    }

    /// Chooses the order of the parts of one operation.
    pub(super) fn arrange(&mut self, parts: &mut [u64]) {
        if let Self::Seeded(prng) = self {
            for last in (1..parts.len()).rev() {
                let other = usize::try_from(prng.below(last as u64 + 1)).unwrap_or(0);
                parts.swap(last, other);
            }
        }
    }
}

/// The choices of an H200 with driver 580, as measured.
pub(super) fn as_measured(what: May) -> bool {
    match what {
        May::LegacyRecordHolds
        | May::PageableStages
        | May::ReuseFinished
        | May::ReuseFollowing
        | May::FreeWaits
        | May::TrimKeepsUnseen
        | May::HostFnsSerial => true,
        // `LoadWaits` was measured with kernels that were loaded before any operation ran.
        May::PageableWaits | May::BatchReadsAtOnce | May::LoadWaits => false,
    }
}
