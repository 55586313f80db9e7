//! The list of measurements. Each kind has a file of its own. If one fails, the findings say so,
//! and the others are still made.

mod allocations;
mod bench;
mod blocking;
mod calls;
mod chains;
mod copies;
mod defaults;
mod limits;
mod peers;
mod work;

pub(super) use allocations::{OURS_0, OURS_MAX, THRESHOLD_0, THRESHOLD_MAX};
pub(super) use blocking::CONTROL;
pub(super) use calls::HOP as CALL_HOP;
pub(super) use chains::{GRAPH, PLAIN, STREAMED};

use super::findings::{Absent, Findings};
use super::plan::Plan;
use crate::bare::lab::Lab;
use bench::Bench;
use std::time::Instant;
use trijet::{Device, Result};

/// Measures the device and its links in well under a minute.
///
/// ```no_run
/// use trijet::{Device, Select};
/// use trijet_bench::doctor::{self, findings::Path};
/// let findings = doctor::run(&Device::open(Select::Auto)?)?;
/// assert!(findings.curve(Path::Upload).iter().all(|(_, rate)| *rate > 0.0));
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Errors
/// Errors of the driver before the first measurement. A measurement that fails is part of the
/// findings.
pub fn run(device: &Device) -> Result<Findings> {
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
    // First, because a driver may keep the resources of dropped streams.
    bench.run("new streams", limits::new_streams);
    if on_gpu {
        match Lab::new(ordinal) {
            Ok(lab) => bench.lab = Some(lab),
            Err(e) => bench
                .found
                .failed
                .push(Absent { what: "calls past the library".to_owned(), why: e.to_string() }),
        }
    } else {
        without_a_gpu(&mut bench);
    }
    bench.run("calibration of the kernel", work::calibrate);
    bench.run("other devices", peers::measure);
    bench.run("copies", copies::measure);
    bench.run("calls", calls::measure);
    bench.run("what blocks what", blocking::measure);
    bench.run("default streams", defaults::measure);
    bench.run("resident grids", limits::resident_grids);
    bench.run("queue depth", limits::queue_depth);
    bench.run("allocations", allocations::measure);
    bench.run("chains of kernels", chains::measure);
    bench.found.elapsed_s = start.elapsed().as_secs_f64();
    Ok(bench.found)
}

/// Lists the measurements that do not apply to a host device.
fn without_a_gpu(bench: &mut Bench) {
    for (what, why) in [
        ("second-level cache, peer access", "a host device is this machine's processor"),
        ("bare driver calls, hops, stream words", "the host device has no driver below it"),
        ("cuMemAlloc, page locking, virtual memory", "these are calls of the CUDA driver"),
        ("graphs and dependent launches", "these are calls of the CUDA driver"),
    ] {
        bench.absent(what, why);
    }
}
