//! Hardware queues: an operation that waits inside a queue holds back the streams that share it
//! (law A47).
//!
//! Each stream is assigned to a queue when it is created. Kernels, fills, host functions and timed
//! events need their queue. If such an operation is enqueued after pending work, the operation
//! waits in the queue. Until the pending work is complete, the queue starts nothing that was
//! enqueued later. So each queue has a *barrier*: the pending work that its waiting operations wait
//! for. A later operation of any stream of the queue gets an edge from each operation of the
//! barrier. Copies and records without a time need no queue. They hold nothing back, and nothing
//! holds them back.
//!
//! Sharing only adds edges, so it only removes orders. Sharing cannot deadlock a program:
//! - Every edge goes from an earlier enqueue to a later one, so the edges have no cycle.
//! - A barrier never contains a host function, or an operation that follows a host function. So its
//!   operations wait only for work of devices, whatever the threads of the program do. Host
//!   functions must be left out, because a host function may wait for a thread that itself waits
//!   for a stream of the same queue. A GPU can hang in such a program, but only if its driver
//!   assigned the two streams to one queue.
//!
//! An operation that never ends holds the streams of its queue for ever, as on a GPU.
//!
//! The legacy stream has no queue here, because its use of queues was not measured.
#![forbid(unsafe_code)]

use super::ids::{NodeId, SlotId};
use super::node::Node;
use super::work::OpWork;
use crate::base::id::DeviceId;
use crate::base::prng::Prng;
use crate::device::host::config::{Executor, HostConfig};
use crate::device::host::order::Order;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// The number of hardware queues of CUDA, unless the environment sets another number.
const QUEUES: NonZeroU32 = NonZeroU32::new(8).expect("8 is not 0");
/// Changes the seed for the generator that assigns streams to queues. With the same seed, this
/// generator would draw the same numbers as the generator that chooses the steps. The two
/// generators are separate, so that sharing changes no run with few streams.
const DEALER: u64 = 0x5a17_9e3b_c04d_8f21;

/// The number of queues that a device reports: the number in the configuration, if the executor
/// models queues.
pub(in crate::device::host) fn queues_of(config: &HostConfig) -> Option<u32> {
    match config.executor {
        Executor::Virtual(Order::Greedy | Order::Seeded(_)) => {
            config.hardware_queues.map(NonZeroU32::get)
        }
        Executor::Threads | Executor::Virtual(Order::Pct { .. } | Order::Steps(_)) => None,
    }
}

/// How streams are assigned to queues once there are more streams than queues.
#[derive(Debug)]
enum Deal {
    /// To one queue after another.
    InTurn,
    /// At random.
    AtRandom(Prng),
}

/// The queues of one driver.
#[derive(Debug)]
pub(in crate::device::host) struct HardwareQueues {
    /// The number of queues of each device.
    count: usize,
    deal: Deal,
    /// The barrier of each queue, by the device and the index of the queue. For each stream, a
    /// barrier has the last operation of the stream that belongs to the barrier.
    barriers: BTreeMap<(DeviceId, usize), BTreeMap<SlotId, NodeId>>,
}

impl HardwareQueues {
    /// The hardware queues of an executor; `None` if its streams share no queues. With
    /// `Order::Seeded`, the streams share queues for half of the seeds. On CPU threads no time is
    /// modelled, so streams share no queues. An exploration must find every order, so its streams
    /// share no queues.
    pub(in crate::device::host) fn of(config: &HostConfig) -> Option<Self> {
        let (count, deal) = match &config.executor {
            Executor::Virtual(Order::Greedy) => (config.hardware_queues?, Deal::InTurn),
            Executor::Virtual(Order::Seeded(seed)) => {
                let mut prng = Prng::new(seed ^ DEALER);
                let deal = match prng.below(4) {
                    0 => Deal::InTurn,
                    1 => Deal::AtRandom(prng),
                    _ => return None,
                };
                (config.hardware_queues.unwrap_or(QUEUES), deal)
            }
            Executor::Threads | Executor::Virtual(Order::Pct { .. } | Order::Steps(_)) => {
                return None;
            }
        };
        let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
        Some(Self { count, deal, barriers: BTreeMap::new() })
    }

    /// Chooses the queue of a new stream. `live` has the queue of each live stream. The stream gets
    /// an unused queue if there is one.
    pub(super) fn choose(&mut self, live: impl Iterator<Item = usize> + Clone) -> usize {
        // All queues after the last used queue are empty, so only the first of these is considered.
        let used = live.clone().max().map_or(0, |last| last + 1);
        let mut streams = vec![0_u32; self.count.min(used + 1)];
        live.for_each(|queue| streams[queue] += 1);
        let least = (0..streams.len()).min_by_key(|queue| streams[*queue]).unwrap_or(0);
        match &mut self.deal {
            Deal::AtRandom(prng) if streams[least] > 0 => {
                usize::try_from(prng.below(streams.len() as u64)).unwrap_or(0)
            }
            Deal::AtRandom(_) | Deal::InTurn => least,
        }
    }

    /// Puts an operation into a queue. `before` has the operations that this operation follows by
    /// the other laws. Each pending operation of `before` becomes part of the queue's barrier,
    /// unless it follows a host function. The operations that were in the barrier before are added
    /// to `before`. `pending` returns an operation if it is not complete.
    pub(super) fn pass<'a>(
        &mut self,
        queue: (DeviceId, usize),
        before: &mut SmallVec<[NodeId; 6]>,
        pending: impl Fn(NodeId) -> Option<&'a Node>,
    ) {
        let barrier = self.barriers.entry(queue).or_default();
        barrier.retain(|_, id| pending(*id).is_some());
        let earlier: SmallVec<[NodeId; 6]> = barrier.values().copied().collect();
        for node in before.iter().filter_map(|id| pending(*id)) {
            if !node.follows_host {
                let last = barrier.entry(node.slot).or_insert(node.id);
                *last = (*last).max(node.id);
            }
        }
        before.extend(earlier);
    }
}

/// Whether an operation with this work occupies a position in the hardware queue of its stream.
pub(super) fn needs_queue(work: &OpWork) -> bool {
    match work {
        OpWork::Kernel(_)
        | OpWork::Fill { .. }
        | OpWork::HostFn(_)
        | OpWork::Conditional(_)
        | OpWork::Time { .. } => true,
        OpWork::Mark
        | OpWork::Free(_)
        | OpWork::Copy(_)
        | OpWork::Batch(_)
        | OpWork::Lent { .. } => false,
    }
}
