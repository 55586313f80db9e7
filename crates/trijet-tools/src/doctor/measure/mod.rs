//! The list of the measurements. Each kind of measurement has its own module. If a measurement
//! fails, its error is added to the findings, and the other measurements are still made.

mod allocations;
mod bench;
mod blocking;
mod calls;
mod chains;
mod contention;
mod copies;
mod defaults;
mod limits;
mod links;
mod peers;
mod sharing;
mod work;

pub(super) use allocations::{OURS_0, OURS_MAX, THRESHOLD_0, THRESHOLD_MAX};
pub(super) use blocking::CONTROL;
pub(super) use calls::HOP as CALL_HOP;
pub(super) use chains::{GRAPH, PLAIN, STREAMED};

use super::findings::{Absent, Findings};
use super::plan::Plan;
use crate::bare::lab::Lab;
use crate::progress::Steps;
use bench::{Bench, Measurement};
use std::time::Instant;
use trijet::{Device, Result};

/// The measurements with their names, in the order in which they are made.
const MEASUREMENTS: [(&str, Measurement); 13] = [
    ("calibration of the kernel", work::calibrate),
    ("other devices", peers::measure),
    ("links between GPUs", links::measure),
    ("copies", copies::measure),
    ("calls", calls::measure),
    ("what blocks what", blocking::measure),
    ("default streams", defaults::measure),
    ("resident grids", limits::resident_grids),
    ("queue depth", limits::queue_depth),
    ("shared hardware queues", sharing::measure),
    ("contention", contention::measure),
    ("allocations", allocations::measure),
    ("chains of kernels", chains::measure),
];

/// Measures the device and its links. This takes well under a minute.
///
/// ```no_run
/// use trijet::{Device, Select};
/// use trijet_tools::doctor::{self, findings::Path};
/// use trijet_tools::progress::Steps;
/// let device = Device::open(Select::Auto)?;
/// let mut show = |step: trijet_tools::progress::Step<'_>| println!("{}", step.what);
/// let findings = doctor::run(&device, &mut Steps::new(&mut show))?;
/// assert!(findings.curve(Path::Upload).iter().all(|(_, rate)| *rate > 0.0));
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Errors
/// This function returns no error. The error of a measurement becomes a part of the findings.
pub fn run(device: &Device, steps: &mut Steps<'_>) -> Result<Findings> {
    let start = Instant::now();
    let info = device.info().clone();
    let (on_gpu, ordinal) = (info.compute.0 > 0, device.id().0);
    let mut bench = Bench {
        device: device.clone(),
        plan: Plan::of(&info),
        lab: None,
        rounds_per_ms: 0.0,
        found: Findings::new(info, ordinal),
    };
    steps.expect(1 + MEASUREMENTS.len() as u64);
    // New streams are measured first, because the driver may keep the resources of dropped streams
    // for later streams.
    steps.begin("new streams");
    bench.run("new streams", limits::new_streams);
    if on_gpu {
        match Lab::new(ordinal) {
            Ok(lab) => bench.lab = Some(lab),
            Err(e) => bench
                .found
                .failed
                .push(Absent { what: "bare driver calls".to_owned(), why: e.to_string() }),
        }
    } else {
        without_a_gpu(&mut bench);
    }
    for (what, measure) in MEASUREMENTS {
        steps.begin(what);
        bench.run(what, measure);
    }
    bench.found.elapsed_s = start.elapsed().as_secs_f64();
    Ok(bench.found)
}

/// Adds the measurements that do not apply to a host device to the findings.
fn without_a_gpu(bench: &mut Bench) {
    for (what, why) in [
        ("second-level cache, peer access", "a host device is this machine's processor"),
        ("bare driver calls, hops, stream words", "a host device has no driver"),
        ("cuMemAlloc, page locking, virtual memory", "these are calls of the CUDA driver"),
        ("shared hardware queues", "a host device has no hardware queues"),
        ("graphs and dependent launches", "these are calls of the CUDA driver"),
    ] {
        bench.absent(what, why);
    }
}
