//! Collectives on all GPUs of the host: by copies and kernels of this library, and by NCCL. On a
//! host with one GPU, the results are equal to the data.

use super::all_gpus;
use crate::comm::{
    an_iteration_as_one_graph_equals_eager_ones, results_are_those_of_the_promised_order,
};
use crate::{alone, collectives};
use trijet::Uses;
use trijet::comm::Communicator;
use trijet::kernels::{Max, Min, Reduction, Sum};
use trijet::testing::Prng;
use trijet::training::Transport;
use trijet::{Buffer, Device, ErrorKind, Result};

fn all() -> Result<Vec<Device>> {
    all_gpus().open_all()
}

/// The data is from 1 KiB to 1 GiB long. Some lengths are not a multiple of a unit.
#[test]
fn results_are_those_of_the_promised_order_on_gpus() -> Result<()> {
    let _alone = alone();
    let lengths = [1, 3, 256, 1 << 12, (1 << 16) + 1, 1 << 20, (5 << 20) + 13];
    results_are_those_of_the_promised_order(&all()?, &lengths)
}

/// Each device has 1 GiB of integers with a known sum.
#[test]
fn a_gibibyte_is_summed_exactly() -> Result<()> {
    let _alone = alone();
    let (devices, len) = (all()?, 1 << 28);
    let communicator = Communicator::builder().devices(&devices).open()?;
    let mut data = Vec::new();
    for (value, device) in (1_u32..).zip(&devices) {
        let values: Vec<u32> =
            (0..len).map(|at: u32| at.wrapping_mul(2_654_435_761) ^ value).collect();
        data.push(device.stream()?.upload(&values)?);
    }
    let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
    communicator.all_reduce(&mut views, Sum)?;
    for (device, one) in devices.iter().zip(&data) {
        let found = device.stream()?.download(one)?;
        let right = (0..len).zip(&found).all(|(at, found)| {
            let of = |value| at.wrapping_mul(2_654_435_761) ^ value;
            let count = u32::try_from(devices.len()).expect("a few");
            *found == (1..=count).map(of).fold(0, u32::wrapping_add)
        });
        assert!(right, "{}", device.id());
    }
    Ok(())
}

fn same<R: Reduction<u32> + Copy>(
    devices: &[Device],
    how: R,
    combine: fn(u32, u32) -> u32,
) -> Result<()> {
    let communicator = Communicator::builder().devices(devices).nccl().open()?;
    let mut draw = Prng::new(7);
    for len in [1_usize, 1000, 1 << 20, (3 << 20) + 1] {
        let mut number = || u32::try_from(draw.below(1 << 32)).expect("32 bits");
        let values: Vec<Vec<u32>> =
            devices.iter().map(|_| (0..len).map(|_| number()).collect()).collect();
        let mut data = Vec::new();
        for (device, values) in devices.iter().zip(&values) {
            // The upload, the collective and the download are in different streams.
            data.push(device.stream()?.upload(values)?);
        }
        let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
        communicator.all_reduce(&mut views, how)?;
        let expected: Vec<u32> = (0..len)
            .map(|at| values.iter().map(|one| one[at]).reduce(combine).expect("a device"))
            .collect();
        for (device, one) in devices.iter().zip(&data) {
            assert!(device.stream()?.download(one)? == expected, "{len} on {}", device.id());
        }
    }
    Ok(())
}

/// The collectives run by copies, with the promised order of sums, by NCCL, and by parts of both.
#[test]
fn every_collective_gives_each_gpu_what_it_must_have() -> Result<()> {
    let _alone = alone();
    let devices = all()?;
    let copies = Communicator::builder().devices(&devices).open()?;
    for (seed, len) in (0..).zip([1, 1000, 1 << 18, (5 << 20) + 1]) {
        collectives::all::<f32>(&copies, &devices, len, seed)?;
    }
    let nccl = Communicator::builder().devices(&devices).nccl().open()?;
    for (seed, len) in (0..).zip([1, 1000, 1 << 18, 300_001]) {
        collectives::all::<u32>(&nccl, &devices, len, seed)?;
    }
    let numbers: Vec<u32> = (0..).take(devices.len()).collect();
    for (part, device) in nccl.split(&numbers)?.iter().zip(&devices) {
        collectives::all::<u32>(part, std::slice::from_ref(device), 1000, 5)?;
    }
    let whole = nccl.split(&vec![3; devices.len()])?.remove(0);
    collectives::all::<u32>(&whole, &devices, 1000, 6)
}

#[test]
fn nccl_gives_each_device_the_sum_the_smallest_and_the_largest() -> Result<()> {
    let _alone = alone();
    let devices = all()?;
    same(&devices, Sum, u32::wrapping_add)?;
    same(&devices, Min, u32::min)?;
    same(&devices, Max, u32::max)
}

/// The minima and maxima of NCCL ignore a NaN, so the library does not use them.
#[test]
fn minima_and_maxima_of_floats_follow_one_rule_with_and_without_nccl() -> Result<()> {
    let _alone = alone();
    let devices = all()?;
    if devices.len() < 2 {
        return Ok(());
    }
    collectives::extremes::follow_the_rule(
        &Communicator::builder().devices(&devices).open()?,
        &devices,
    )?;
    collectives::extremes::follow_the_rule(
        &Communicator::builder().devices(&devices).nccl().open()?,
        &devices,
    )
}

#[test]
fn an_iteration_of_all_gpus_as_one_graph_equals_eager_ones() -> Result<()> {
    let _alone = alone();
    an_iteration_as_one_graph_equals_eager_ones(&all()?, 1000, Transport::Copies)
}

#[test]
fn an_iteration_with_nccl_as_one_graph_equals_eager_ones() -> Result<()> {
    let _alone = alone();
    an_iteration_as_one_graph_equals_eager_ones(&all()?, 1000, Transport::Nccl)
}

/// NCCL's kernels contain the addresses of the capture.
#[test]
fn a_graph_with_nccl_refuses_other_memory_and_other_graphs() -> Result<()> {
    let _alone = alone();
    let devices = all()?;
    let communicator = Communicator::builder().devices(&devices).nccl().open()?;
    let upload = |value: u32| -> Result<Vec<_>> {
        devices.iter().map(|device| device.stream()?.upload(&[value; 1000])).collect()
    };
    let (mut data, mut other) = (upload(1)?, upload(2)?);
    let mut graph = devices[0].record(|g| {
        data.iter().try_for_each(|one| g.argument(one))?;
        let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
        communicator.recorded(g)?.all_reduce(&mut views, Sum)
    })?;
    drop(communicator);
    let stream = devices[0].stream()?;
    let mut launch = |data: &mut [Buffer<u32>]| {
        let all = data.iter_mut().fold(Uses::new(), |all, one| all.write(one.view_mut()));
        stream.launch_graph(&mut graph, all)
    };
    launch(&mut data)?;
    let refused = launch(&mut other).expect_err("other memory");
    assert!(refused.to_string().contains("uses the memory of the recording"), "{refused}");
    launch(&mut data)?;
    let count = u32::try_from(devices.len()).expect("a few");
    for (device, one) in devices.iter().zip(&data) {
        assert_eq!(device.stream()?.download(one)?, [count * count; 1000]);
    }
    let within = devices[0].record(|g| {
        data.iter().try_for_each(|one| g.argument(one))?;
        let all = data.iter_mut().fold(Uses::new(), |all, one| all.write(one.view_mut()));
        g.stream()?.launch_graph(&mut graph, all)
    });
    assert_eq!(within.expect_err("a graph within a graph").kind(), ErrorKind::Unsupported);
    Ok(())
}
