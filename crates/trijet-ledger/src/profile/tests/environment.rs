//! The environment of a device: the figures of its samples, and the fall of a clock.
#![forbid(unsafe_code)]

use super::*;
use crate::profile::{ClockFall, ClockReason, DeviceEnvironment, ValueSpread};
use crate::trace::activity::{EnvironmentSample, SampleOf};

/// A device that works from 0 to 1000 us, with samples at these times in microseconds.
fn environment(samples: &[(u64, SampleOf)]) -> Option<DeviceEnvironment> {
    let mut scenario = Scenario::new();
    scenario.trace.began = Nanos(1_000_000);
    scenario.call("cudaLaunchKernel", [0, 5]).kernel(13, [0, 1000]);
    let sample = |&(at, of)| EnvironmentSample { device: 0, at: Nanos(1_000_000 + at * 1000), of };
    scenario.trace.samples = samples.iter().map(sample).collect();
    scenario.device().environment
}

fn clocks(sm: u32, reasons: u32) -> SampleOf {
    SampleOf::Clocks { sm, memory: 2619, reasons }
}

#[test]
fn a_trace_without_samples_of_a_device_has_no_environment() {
    assert_eq!(environment(&[]), None);
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 5]).kernel(13, [0, 1000]);
    let other =
        EnvironmentSample { device: 1, at: Nanos(1_000_000), of: SampleOf::Temperature(60) };
    scenario.trace.samples = vec![other];
    assert_eq!(scenario.device().environment, None);
}

#[test]
fn samples_have_a_median_a_least_and_a_largest_value() {
    let samples = [
        (300, clocks(1980, 4)),
        (100, clocks(1900, 0)),
        (200, clocks(1950, 4 | 64)),
        (100, SampleOf::Temperature(50)),
        (200, SampleOf::Temperature(61)),
        (200, SampleOf::Power { power: 500_000, limit: 700_000 }),
        (100, SampleOf::Power { power: 300_000, limit: 600_000 }),
    ];
    let found = environment(&samples).unwrap();
    let spread = |least, median, most| Some(ValueSpread { least, median, most });
    assert_eq!((found.samples, found.sm), (3, spread(1900, 1950, 1980)));
    assert_eq!(found.memory, spread(2619, 2619, 2619));
    assert_eq!(found.temperature, spread(50, 61, 61));
    assert_eq!(found.power, spread(300_000, 500_000, 500_000));
    assert_eq!(
        (found.power_limit, found.fan),
        (Some(700_000), None),
        "the limit of the last sample"
    );
    let reasons: Vec<_> =
        found.reasons.iter().map(|ClockReason { key, samples, .. }| (*key, *samples)).collect();
    assert_eq!(reasons, [("power_limit", 2), ("unknown", 1)]);
}

/// The fall of a clock is the largest one from an earlier sample to a later one.
#[test]
fn a_clock_that_falls_by_more_than_a_tenth_is_noted() {
    let fall = |of: &[(u64, u32)]| {
        let samples: Vec<_> = of.iter().map(|&(at, sm)| (at, clocks(sm, 0))).collect();
        environment(&samples).unwrap().fall
    };
    assert_eq!(fall(&[(100, 2000), (200, 1800)]), None, "a tenth");
    assert_eq!(fall(&[(100, 1000), (200, 2000)]), None, "a clock that rises");
    let found = fall(&[(400, 1900), (100, 1000), (200, 2000), (300, 1700), (350, 1500)]);
    assert_eq!(found, Some(ClockFall { from: 2000, to: 1500, at: Nanos(350_000) }));
    let words = environment(&[(100, clocks(2000, 0)), (200, clocks(1700, 0))]).unwrap();
    let note = words.sentences().into_iter().find(|one| one.starts_with("note: "));
    assert!(note.unwrap().contains("fell from 2000 to 1700 MHz"));
}

#[test]
fn clocks_of_an_idle_device_are_no_fall() {
    let idle = [(100, clocks(2000, 0)), (200, clocks(300, 1))];
    assert_eq!(environment(&idle).unwrap().fall, None, "the device was idle");
    let after = [(100, clocks(2000, 0)), (1100, clocks(300, 0))];
    assert_eq!(environment(&after).unwrap().fall, None, "after its last operation");
    let unknown = [(100, clocks(2000, 0)), (200, clocks(0, 0))];
    assert_eq!(environment(&unknown).unwrap().fall, None, "no clock");
}
