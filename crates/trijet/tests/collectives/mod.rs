//! Sequences of collectives and their results. Each participant draws the same sequence from the
//! same seed.
//!
//! A participant is a process that has one device or all devices. The values of all devices follow
//! from the seed, so each participant knows the results of its devices.

pub(crate) mod extremes;
pub(crate) mod rule;

use trijet::comm::{Communicator, Exchange};
use trijet::kernels::{Max, Min, Reduction, Sum};
use trijet::testing::Prng;
use trijet::{Buffer, Device, Element, Result, View, ViewMut};

/// An element whose combinations are computed here.
pub(crate) trait Number: Element + PartialEq + std::fmt::Debug {
    fn draw(draw: &mut Prng) -> Self;
    fn sum(self, other: Self) -> Self;
    fn less(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
    /// Whether both have the same bits.
    fn same(self, other: Self) -> bool {
        bytemuck::bytes_of(&self) == bytemuck::bytes_of(&other)
    }
}

impl Number for u32 {
    fn draw(draw: &mut Prng) -> Self {
        Self::try_from(draw.below(1 << 32)).expect("32 bits")
    }
    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn less(self, other: Self) -> Self {
        self.min(other)
    }
    fn greater(self, other: Self) -> Self {
        self.max(other)
    }
}

/// The sum of such numbers depends on the order of the summands.
impl Number for f32 {
    fn draw(draw: &mut Prng) -> Self {
        let size = usize::try_from(draw.below(3)).expect("few");
        draw.below(1 << 20) as Self * [1.0, 1e-3, 1e5][size]
    }
    fn sum(self, other: Self) -> Self {
        self + other
    }
    fn less(self, other: Self) -> Self {
        self.min(other)
    }
    fn greater(self, other: Self) -> Self {
        self.max(other)
    }
}

/// The values of all devices in a collective.
fn values<T: Number>(seed: u64, count: usize, len: usize) -> Vec<Vec<T>> {
    let of = |rank: usize| {
        let mut draw = Prng::new(seed.wrapping_mul(1009) + rank as u64);
        (0..len).map(|_| T::draw(&mut draw)).collect()
    };
    (0..count).map(of).collect()
}

/// Combines the elements of all devices at index `at`, in the order of the devices, starting with
/// device `first`.
fn combined<T: Number>(all: &[Vec<T>], at: usize, first: usize, how: fn(T, T) -> T) -> T {
    let order = (0..all.len()).map(|turn| all[(first + turn) % all.len()][at]);
    order.reduce(how).expect("a device")
}

struct Participant<'a> {
    communicator: &'a Communicator,
    devices: &'a [Device],
    seed: u64,
}

impl Participant<'_> {
    fn upload<T: Element>(&self, values: &[Vec<T>]) -> Result<Vec<Buffer<T>>> {
        let own = &values[self.communicator.ranks()];
        self.devices.iter().zip(own).map(|(device, own)| device.stream()?.upload(own)).collect()
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<Vec<Buffer<T>>> {
        self.devices.iter().map(|device| device.stream()?.alloc(len)).collect()
    }

    fn demand<T: Number>(
        &self,
        what: &str,
        found: &[Buffer<T>],
        expected: impl Fn(usize) -> Vec<T>,
    ) -> Result<()> {
        for ((rank, device), found) in self.communicator.ranks().zip(self.devices).zip(found) {
            let (found, expected) = (device.stream()?.download(found)?, expected(rank));
            let same = found.len() == expected.len()
                && found.iter().zip(&expected).all(|(a, b)| a.same(*b));
            let (count, len, seed) = (self.communicator.len(), expected.len(), self.seed);
            assert!(same, "{what}: device {rank} of {count}, {len} elements, seed {seed}");
        }
        Ok(())
    }

    fn reductions<T: Number, R: Reduction<T> + Copy>(
        &self,
        how: R,
        combine: fn(T, T) -> T,
        len: usize,
    ) -> Result<()> {
        let (all, count) = (self.communicator, self.communicator.len());
        let given = values::<T>(self.seed, count, len);
        let mut data = self.upload(&given)?;
        all.all_reduce(&mut views_mut(&mut data), how)?;
        let (each, more) = (len / count, len % count);
        let segment = |at: usize| {
            let end = |k: usize| each * (k + 1) + (k + 1).min(more);
            (0..count).find(|k| at < end(*k)).expect("a segment")
        };
        let right = |_| (0..len).map(|at| combined(&given, at, segment(at), combine)).collect();
        self.demand("all_reduce", &data, right)?;

        let root = usize::try_from(self.seed).expect("small") % count;
        let (data, mut result) = (self.upload(&given)?, self.alloc(len)?);
        let here = all.ranks().position(|rank| rank == root);
        let into = here.map(|at| result[at].view_mut());
        all.reduce(&views(&data), into, how, root)?;
        if let Some(at) = here {
            let right = |_| (0..len).map(|at| combined(&given, at, root + 1, combine)).collect();
            let device = &self.devices[at..=at];
            let root = Participant { devices: device, ..*self };
            let found = device[0].stream()?.download(&result[at])?;
            let expected: Vec<T> = right(0);
            assert!(found.iter().zip(&expected).all(|(a, b)| a.same(*b)), "reduce, {}", root.seed);
        }
        self.demand("what reduce was given", &data, |rank| given[rank].clone())?;

        let given = values::<T>(self.seed + 1, count, len * count);
        let (data, mut parts) = (self.upload(&given)?, self.alloc(len)?);
        all.reduce_scatter(&views(&data), &mut views_mut(&mut parts), how)?;
        let right = |rank: usize| {
            let at = |at| combined(&given, rank * len + at, rank + 1, combine);
            (0..len).map(at).collect()
        };
        self.demand("reduce_scatter", &parts, right)?;
        self.demand("what reduce_scatter was given", &data, |rank| given[rank].clone())
    }

    fn moves<T: Number>(&self, len: usize) -> Result<()> {
        let (all, count) = (self.communicator, self.communicator.len());
        let given = values::<T>(self.seed, count, len);
        let root = usize::try_from(self.seed).expect("small") % count;
        let mut data = self.upload(&given)?;
        all.broadcast(&mut views_mut(&mut data), root)?;
        self.demand("broadcast", &data, |_| given[root].clone())?;

        let (data, mut whole) = (self.upload(&given)?, self.alloc(len * count)?);
        all.all_gather(&views(&data), &mut views_mut(&mut whole))?;
        self.demand("all_gather", &whole, |_| given.concat())?;

        let given = values::<T>(self.seed, count, len * count);
        let (data, mut turned) = (self.upload(&given)?, self.alloc(len * count)?);
        all.all_to_all(&views(&data), &mut views_mut(&mut turned))?;
        let right = |rank: usize| {
            given.iter().flat_map(|one| one[rank * len..(rank + 1) * len].to_vec()).collect()
        };
        self.demand("all_to_all", &turned, right)
    }

    /// Messages of any lengths between any devices. There are several messages between two devices,
    /// and messages from a device to itself.
    fn messages<T: Number>(&self) -> Result<()> {
        const LEN: usize = 50;
        let (all, count) = (self.communicator, self.communicator.len());
        let given = values::<T>(self.seed, count, LEN);
        let data = self.upload(&given)?;
        let mut draw = Prng::new(self.seed);
        let mut below = |limit: usize| usize::try_from(draw.below(limit as u64)).expect("few");
        // Each message is its source, its destination, and the start and the end of its range.
        let drawn: Vec<_> = (0..below(12))
            .map(|_| (below(count), below(count), below(LEN / 2), LEN / 2 + 1 + below(LEN / 2)))
            .collect();
        let here = |rank: usize| all.ranks().position(|one| one == rank);
        let mut landings = Vec::new();
        for (from, to, begin, end) in &drawn {
            if let Some(at) = here(*to) {
                let slot = self.devices[at].stream()?.alloc::<T>(end - begin)?;
                landings.push((at, slot, given[*from][*begin..*end].to_vec()));
            }
        }
        let mut messages = Exchange::new();
        let mut slots = landings.iter_mut();
        for (from, to, begin, end) in &drawn {
            if let Some(at) = here(*from) {
                messages = messages.send(data[at].slice(*begin..*end), *to);
            }
            if here(*to).is_some() {
                let (_, slot, _) = slots.next().expect("one for each");
                messages = messages.receive(slot.view_mut(), *from);
            }
        }
        all.exchange(messages)?;
        for (at, slot, expected) in &landings {
            let found = self.devices[*at].stream()?.download(slot)?;
            assert!(found == *expected, "exchange, seed {}", self.seed);
        }
        Ok(())
    }
}

fn views<T: Element>(data: &[Buffer<T>]) -> Vec<View<'_, T>> {
    data.iter().map(Buffer::view).collect()
}

fn views_mut<T: Element>(data: &mut [Buffer<T>]) -> Vec<ViewMut<'_, T>> {
    data.iter_mut().map(Buffer::view_mut).collect()
}

/// Runs each collective once with this number of elements. The type `T` determines whether the
/// results show the order of combinations.
pub(crate) fn all<T: Number>(
    communicator: &Communicator,
    devices: &[Device],
    len: usize,
    seed: u64,
) -> Result<()>
where
    Sum: Reduction<T>,
    Min: Reduction<T>,
    Max: Reduction<T>,
{
    let participant = Participant { communicator, devices, seed };
    match seed % 3 {
        0 => participant.reductions(Sum, T::sum, len)?,
        1 => participant.reductions(Min, T::less, len)?,
        _ => participant.reductions(Max, T::greater, len)?,
    }
    participant.moves::<T>(len)?;
    participant.messages::<T>()
}
