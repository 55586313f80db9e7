//! The sizes of buckets, and the location of each gradient in them.
#![forbid(unsafe_code)]

use crate::base::units::Bytes;
use std::ops::Range;

/// The transport of the data of a bucket between devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Copies and kernels of this library.
    Copies,
    /// NCCL; see [`CommunicatorBuilder::nccl`](crate::comm::CommunicatorBuilder::nccl).
    Nccl,
}

/// The sizes of buckets, and the transport of their data. A gradient is never cut, so a bucket can
/// be larger than the size in this plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BucketPlan {
    /// The transport of the data to other devices.
    pub transport: Transport,
    /// The first bucket is complete when it has at least this many bytes. A small first bucket lets
    /// the communication start early.
    pub first: Bytes,
    /// Each other bucket is complete when it has at least this many bytes.
    pub rest: Bytes,
}

impl Default for BucketPlan {
    /// The first bucket has 1 MiB, and each other bucket has 25 MiB. The transport is
    /// [`Transport::Copies`].
    fn default() -> Self {
        Self { transport: Transport::Copies, first: Bytes(1 << 20), rest: Bytes(25 << 20) }
    }
}

impl BucketPlan {
    /// The plans that are worth a measurement: buckets of 1 to 200 MiB, with and without a small
    /// first bucket, with both transports.
    #[must_use]
    pub fn candidates() -> Vec<Self> {
        let mut plans = Vec::new();
        for transport in [Transport::Copies, Transport::Nccl] {
            for mib in [1, 4, 10, 25, 50, 100, 200] {
                let rest = Bytes(mib << 20);
                plans.push(Self { transport, first: rest, rest });
                if mib > 4 {
                    plans.push(Self { transport, first: Bytes(1 << 20), rest });
                }
            }
        }
        plans
    }
}

/// The order of the gradients in the buckets, and the location of each gradient.
#[derive(Debug)]
pub(super) struct Placement {
    order: Vec<usize>,
    /// For each gradient: the number of its bucket, and the range of its elements in the bucket.
    locations: Vec<(usize, Range<usize>)>,
    /// For each bucket: the number of elements and the number of gradients.
    buckets: Vec<(usize, usize)>,
    /// The order in which the gradients of the last step became ready, if it differs from `order`.
    other: Option<Vec<usize>>,
}

impl Placement {
    /// Places the gradients into buckets in the given order. `lens` has the number of elements of
    /// each gradient, and `element` is the number of bytes of an element. A bucket is filled before
    /// the next bucket begins.
    pub(super) fn new(order: Vec<usize>, lens: &[usize], element: usize, plan: BucketPlan) -> Self {
        let mut locations = vec![(0, 0..0); lens.len()];
        let mut buckets: Vec<(usize, usize)> = Vec::new();
        let mut is_open = false;
        for &gradient in &order {
            if !is_open {
                buckets.push((0, 0));
            }
            let bucket = buckets.len() - 1;
            let (len, count) = &mut buckets[bucket];
            locations[gradient] = (bucket, *len..*len + lens[gradient]);
            (*len, *count) = (*len + lens[gradient], *count + 1);
            let limit = if bucket == 0 { plan.first } else { plan.rest };
            is_open = Bytes((*len * element) as u64) < limit;
        }
        Self { order, locations, buckets, other: None }
    }

    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    pub(super) fn of(&self, gradient: usize) -> (usize, Range<usize>) {
        self.locations[gradient].clone()
    }

    /// The number of elements and the number of gradients of each bucket.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        self.buckets.clone().into_iter()
    }

    /// Notes the order in which the gradients of a step became ready.
    pub(super) fn seen(&mut self, order: Vec<usize>) {
        self.other = (order != self.order).then_some(order);
    }

    pub(super) fn has_other_order(&self) -> bool {
        self.other.is_some()
    }

    /// Returns the order of the last step, and forgets this order. `None` if the order does not
    /// differ from the order of the buckets.
    pub(super) fn take_other_order(&mut self) -> Option<Vec<usize>> {
        self.other.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each element of each gradient has its own location. Buckets have no holes, and only the
        /// last bucket may be smaller than its size in the plan.
        #[test]
        fn gradients_fill_the_buckets(
            lens in prop::collection::vec(1usize..50, 1..20), first in 1u64..100, rest in 1u64..200,
        ) {
            let plan = BucketPlan { transport: Transport::Copies, first: Bytes(first), rest: Bytes(rest) };
            let order: Vec<usize> = (0..lens.len()).rev().collect();
            let placement = Placement::new(order.clone(), &lens, 2, plan);
            let (mut at, mut bucket) = (0, 0);
            for gradient in order {
                let (of, range) = placement.of(gradient);
                if of != bucket {
                    prop_assert_eq!(of, bucket + 1);
                    (at, bucket) = (0, of);
                }
                prop_assert_eq!(range.clone(), at..at + lens[gradient]);
                at = range.end;
            }
            let sizes: Vec<_> = placement.buckets().collect();
            prop_assert_eq!(sizes.iter().map(|one| one.0).sum::<usize>(), lens.iter().sum::<usize>());
            prop_assert_eq!(sizes.iter().map(|one| one.1).sum::<usize>(), lens.len());
            for (number, (len, _)) in sizes[..sizes.len() - 1].iter().enumerate() {
                let limit = if number == 0 { first } else { rest };
                prop_assert!(2 * *len as u64 >= limit);
            }
        }
    }
}
