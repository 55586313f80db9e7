//! Order policies: what the virtual executor does where the laws leave a choice.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::prng::Prng;
use crate::base::units::Nanos;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Which of several possible steps comes next, and how long things take. An order with the same
/// program gives the same run, so it is the way to write a run down: it prints as text and is read
/// back from it.
///
/// ```
/// use trijet::Order;
/// let order: Order = "steps:0.1.0.2".parse()?;
/// assert_eq!(order.to_string(), "steps:0.1.0.2");
/// assert_eq!("seeded:7".parse::<Order>()?, Order::Seeded(7));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    /// What was enqueued first starts first, and durations are the model's: the timing of a GPU.
    Greedy,
    /// Everything the laws leave open is drawn from the seed: who starts, who is held back, how
    /// long each part takes. For finding what the enqueue order hides.
    Seeded(u64),
    /// Probabilistic concurrency testing: streams and threads have random priorities, and the most
    /// urgent one that can go on does, except at `depth - 1` random steps, where it becomes the
    /// least urgent. Finds a fault that needs `depth` orders among `steps` steps of n streams and
    /// threads with a probability of at least 1 / (n * steps^(depth - 1)) (Burckhardt et al. 2010).
    Pct {
        /// The seed.
        seed: u64,
        /// The number of ordering constraints that the fault needs, at least 1.
        depth: u32,
        /// About how many steps a run has.
        steps: u32,
    },
    /// Each choice as listed, one number per choice: a run that an exploration found. Beyond the
    /// list the first possibility is taken.
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
            let cause =
                format!("`{text}` is none of greedy, seeded:N, pct:N:DEPTH:STEPS, steps:N.N");
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

/// Choices that the laws leave to the driver (rows marked MAY).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    /// A14: a bare record on the legacy stream holds blocking streams back.
    LegacyRecordHolds,
    /// A17: a copy from or to pageable memory waits for the stream and stages.
    PageableStages,
    /// A17: it even waits until it is done.
    PageableWaits,
    /// A19: sources of a batch with `Any` are read before the call returns.
    BatchReadsAtOnce,
    /// A23: memory whose free happens to be complete is handed out.
    ReuseFinished,
    /// A23: memory freed in a stream that the allocating one follows is handed out.
    ReuseFollowing,
    /// A24: freeing memory that belongs to no stream waits for the device.
    FreeWaits,
    /// A25: trimming counts frees that nobody has seen complete as live.
    TrimKeepsUnseen,
    /// A28: host functions of independent streams run one after the other.
    HostFnsSerial,
    /// A42: loading a kernel waits for the work that runs.
    LoadWaits,
}

/// The choices of the executors that keep time.
#[derive(Debug)]
pub(super) enum Policy {
    Greedy,
    Seeded(Prng),
}

impl Policy {
    /// Whether the driver does what it may. Without a seed it does what an H200 does (driver 580,
    /// `docs/semantics.md`).
    pub(super) fn may(&mut self, what: May) -> bool {
        match self {
            Self::Greedy => as_measured(what),
            Self::Seeded(prng) => prng.below(2) == 0,
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

/// What an H200 with driver 580 was seen to do.
pub(super) fn as_measured(what: May) -> bool {
    match what {
        May::LegacyRecordHolds
        | May::PageableStages
        | May::ReuseFinished
        | May::ReuseFollowing
        | May::FreeWaits
        | May::TrimKeepsUnseen
        | May::HostFnsSerial => true,
        // Kernels are loaded eagerly, before anything runs.
        May::PageableWaits | May::BatchReadsAtOnce | May::LoadWaits => false,
    }
}
