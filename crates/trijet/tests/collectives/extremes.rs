//! Minima and maxima of floating-point numbers, by every collective that combines.

use super::rule::{OF_BF16, OF_F32, Rule};
use half::bf16;
use std::ops::Range;
use trijet::comm::Communicator;
use trijet::kernels::{Max, Min, Reduction};
use trijet::training::GradientBuckets;
use trijet::{Buffer, Device, Element, Result, View};

/// Entry `number` of every row of a table, repeated for each of the `count` segments of a vector.
fn column<B: Copy, T>(table: &[Rule<B>], count: usize, number: usize, of: fn(B) -> T) -> Vec<T> {
    (0..count).flat_map(|_| table.iter().map(|rule| of(rule[number]))).collect()
}

struct Case<'a, T> {
    communicator: &'a Communicator,
    devices: &'a [Device],
    /// The device `odd` has one value, and all other devices have another. The result follows.
    odd: usize,
    given: [Vec<T>; 2],
    expected: Vec<T>,
}

impl<T: Element> Case<'_, T> {
    fn upload(&self) -> Result<Vec<Buffer<T>>> {
        let ranks = self.communicator.ranks().zip(self.devices);
        let of = |rank| &self.given[usize::from(rank != self.odd)];
        ranks.map(|(rank, device)| device.stream()?.upload(of(rank))).collect()
    }

    fn demand(&self, what: &str, rank: usize, found: &Buffer<T>, part: Range<usize>) -> Result<()> {
        let at = rank - self.communicator.ranks().start;
        let found = self.devices[at].stream()?.download(found)?;
        let bytes = |all: &[T]| bytemuck::cast_slice::<T, u8>(all).to_vec();
        let (count, odd) = (self.communicator.len(), self.odd);
        let expected = bytes(&self.expected[part]);
        assert_eq!(bytes(&found), expected, "{what} on {rank} of {count}, {odd} is the odd one");
        Ok(())
    }

    fn run<R: Reduction<T> + Copy>(&self, how: R) -> Result<()> {
        let (all, count, len) = (self.communicator, self.communicator.len(), self.expected.len());
        let mut data = self.upload()?;
        let mut views: Vec<_> = data.iter_mut().map(Buffer::view_mut).collect();
        all.all_reduce(&mut views, how)?;
        for (rank, found) in all.ranks().zip(&data) {
            self.demand("all_reduce", rank, found, 0..len)?;
        }
        for root in 0..count {
            let data = self.upload()?;
            let here = all.ranks().position(|rank| rank == root);
            let mut result = here.map(|at| self.devices[at].stream()?.alloc(len)).transpose()?;
            let views: Vec<View<'_, T>> = data.iter().map(Buffer::view).collect();
            all.reduce(&views, result.as_mut().map(Buffer::view_mut), how, root)?;
            if let Some(result) = &result {
                self.demand("reduce", root, result, 0..len)?;
            }
        }
        let (data, part) = (self.upload()?, len / count);
        let parts = self.devices.iter().map(|device| device.stream()?.alloc::<T>(part));
        let mut parts = parts.collect::<Result<Vec<_>>>()?;
        let views: Vec<View<'_, T>> = data.iter().map(Buffer::view).collect();
        let mut into: Vec<_> = parts.iter_mut().map(Buffer::view_mut).collect();
        all.reduce_scatter(&views, &mut into, how)?;
        for (rank, found) in all.ranks().zip(&parts) {
            self.demand("reduce_scatter", rank, found, rank * part..(rank + 1) * part)?;
        }
        Ok(())
    }

    /// Demands the same of the buckets of a training in one process.
    fn in_buckets<R: Reduction<T> + Copy>(&self, how: R) -> Result<()> {
        let len = self.expected.len();
        let mut gradients = GradientBuckets::<T, R>::new(self.devices, &[len], how)?;
        for (rank, data) in self.upload()?.iter().enumerate() {
            let stream = self.devices[rank].stream()?;
            stream.copy(data, &mut gradients.gradient_mut(rank, 0))?;
        }
        gradients.ready(0)?;
        gradients.finish()?;
        for rank in self.communicator.ranks() {
            let stream = self.devices[rank].stream()?;
            let mut found = stream.alloc(len)?;
            stream.copy(&gradients.gradient(rank, 0), &mut found)?;
            self.demand("buckets", rank, &found, 0..len)?;
        }
        Ok(())
    }
}

fn of_table<T: Element, B: Copy>(
    communicator: &Communicator,
    devices: &[Device],
    table: &[Rule<B>],
    of: fn(B) -> T,
) -> Result<()>
where
    Min: Reduction<T>,
    Max: Reduction<T>,
{
    let count = communicator.len();
    for (odd, is_first) in (0..count).flat_map(|odd| [(odd, true), (odd, false)]) {
        let given = [usize::from(!is_first), usize::from(is_first)];
        let given = given.map(|number| column(table, count, number, of));
        let expected = column(table, count, 2, of);
        let mut case = Case { communicator, devices, odd, given, expected };
        case.run(Min)?;
        if devices.len() == count {
            case.in_buckets(Min)?;
        }
        case.expected = column(table, count, 3, of);
        case.run(Max)?;
        if devices.len() == count {
            case.in_buckets(Max)?;
        }
    }
    Ok(())
}

/// Demands the rule of each collective that combines: on each device, at each position of a vector,
/// and for every numbering of the devices.
pub(crate) fn follow_the_rule(communicator: &Communicator, devices: &[Device]) -> Result<()> {
    of_table(communicator, devices, &OF_F32, f32::from_bits)?;
    of_table(communicator, devices, &OF_BF16, bf16::from_bits)
}
