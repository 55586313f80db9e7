//! Collectives: each device gets the result that one device would compute, in the order that is promised.

use trijet::comm::Communicator;
use trijet::kernels::{Max, Reduction, Sum};
use trijet::testing::Prng;
use trijet::{Buffer, Device, Result};

/// Combines segment `k` of the values of all devices in the order of the devices, beginning with device `k`.
fn in_order<T: Copy>(values: &[Vec<T>], combine: impl Fn(T, T) -> T) -> Vec<T> {
    let (count, len) = (values.len(), values[0].len());
    let (each, more) = (len / count, len % count);
    let mut result = Vec::new();
    for segment in 0..count {
        let begin = each * segment + more.min(segment);
        let end = begin + each + usize::from(segment < more);
        result.extend((begin..end).map(|at| {
            let order = (0..count).map(|turn| values[(segment + turn) % count][at]);
            order.reduce(&combine).expect("a device")
        }));
    }
    result
}

fn upload<T: trijet::Element>(devices: &[Device], values: &[Vec<T>]) -> Result<Vec<Buffer<T>>> {
    devices.iter().zip(values).map(|(device, values)| device.stream()?.upload(values)).collect()
}

/// Several reductions one after another without a wait, then a look at the results.
fn all_reduce<R: Reduction<f32> + Copy>(
    devices: &[Device],
    (len, rounds): (usize, usize),
    how: R,
    combine: fn(f32, f32) -> f32,
    seed: u64,
) -> Result<()> {
    let communicator = Communicator::over(devices)?;
    let mut draw = Prng::new(seed);
    let mut all = Vec::new();
    for _ in 0..rounds {
        // Sums of numbers of different sizes depend on the order.
        let mut number = || {
            let size = usize::try_from(draw.below(3)).expect("few");
            draw.below(1 << 20) as f32 * [1.0, 1e-3, 1e5][size]
        };
        let values: Vec<Vec<f32>> =
            devices.iter().map(|_| (0..len).map(|_| number()).collect()).collect();
        let mut data = upload(devices, &values)?;
        let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
        communicator.all_reduce(how, &mut views)?;
        all.push((values, data));
    }
    for (values, data) in all {
        let expected = in_order(&values, combine);
        for (place, (device, data)) in devices.iter().zip(&data).enumerate() {
            let found = device.stream()?.download(data)?;
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let count = devices.len();
            assert!(bits(&found) == bits(&expected), "device {place} of {count}, {len} elements");
        }
    }
    Ok(())
}

/// The sums have the bits of the promised order on each device, and so have the maxima.
pub(crate) fn results_are_those_of_the_promised_order(
    devices: &[Device],
    lengths: &[usize],
) -> Result<()> {
    for (seed, len) in (1..).zip(lengths) {
        all_reduce(devices, (*len, 2), Sum, |a, b| a + b, seed)?;
        all_reduce(devices, (*len, 1), Max, f32::max, seed)?;
    }
    Ok(())
}
