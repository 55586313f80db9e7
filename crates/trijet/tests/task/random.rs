//! Random programs of tasks, compared with their tasks one after another.

use crate::demand_clean;
use crate::programs::{compare, draw};
use trijet::check::CheckOptions;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Device, Result};

/// The number of programs: more with `cargo xtask tasks`.
fn programs() -> u64 {
    std::env::var("TRIJET_TASKS").map_or(300, |most| most.parse().expect("a number of programs"))
}

#[test]
fn any_program_of_tasks_has_the_result_of_its_tasks_one_after_another() -> Result<()> {
    let (mut regions, mut graphs, mut replays, mut runs) = (0, 0, 0, 0);
    for seed in 0..programs() {
        let devices = crate::devices(1 + (seed % 3) as u32, Order::Seeded(seed))?;
        let counts = compare(&devices, &draw(seed), &format!("seed {seed}"))?;
        regions += counts.regions;
        graphs += counts.graphs;
        replays += counts.replays;
        runs += counts.runs;
        demand_clean(&devices[0]);
    }
    println!("{regions} regions, {graphs} graphs, {replays} replays, {runs} runs of workers");
    assert!(runs > regions / 10, "few runs of workers");
    assert!(graphs > regions / 10 && replays > graphs / 2, "few regions are graphs");
    Ok(())
}

#[test]
fn any_program_of_tasks_has_that_result_on_threads_too() -> Result<()> {
    let device =
        Device::builder().host(HostConfig::default()).check(CheckOptions::default()).open()?;
    for seed in 0..programs() / 2 {
        let devices = std::slice::from_ref(&device);
        compare(devices, &draw(seed), &format!("seed {seed} on threads"))?;
    }
    demand_clean(&device);
    Ok(())
}

/// Tasks of several threads: the tasks of one datum come one after another, whichever thread
/// submits them.
#[test]
fn threads_submit_to_the_same_tasks() -> Result<()> {
    const THREADS: usize = 4;
    const EACH: usize = 50;
    let config = HostConfig::new().executor(Executor::Virtual(Order::Seeded(5)));
    let device = Device::host(config)?.remove(0);
    let tasks = device.tasks();
    let sum = tasks.data(device.pinned::<u64>(1)?);
    tasks.task(sum.write()).host(|mut sum| {
        sum[0] = 0;
        Ok(())
    })?;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (tasks, sum) = (tasks.clone(), sum.clone());
            scope.spawn(move || -> Result<()> {
                let own = tasks.alloc::<u8>(64)?;
                for _ in 0..EACH {
                    tasks.task(own.update()).run(|s, mut own| s.fill_bytes(&mut own, 1))?;
                    tasks.task(sum.update()).host(|mut sum| {
                        sum[0] += 1;
                        Ok(())
                    })?;
                }
                Ok(())
            });
        }
    });
    assert_eq!(tasks.take(sum)?.read()?[0], (THREADS * EACH) as u64);
    tasks.finish()
}
