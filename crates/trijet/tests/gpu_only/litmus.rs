//! The outcomes on this machine's GPU where the laws leave a choice.

use super::{conformance, cuda};
use crate::litmus::{ALL, FIRST_USE, Litmus, Seen, demand_among, possible};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The number of runs of each program when no file is written.
const FEW: u64 = 50;

fn seen(litmus: &Litmus, runs: u64) -> Seen {
    let mut device = cuda();
    let mut seen = Seen::new();
    for _ in 0..runs.min(litmus.runs) {
        if litmus.name == FIRST_USE {
            device = cuda();
        }
        let outcome = (litmus.program)(&device).expect("a litmus program sees no error");
        *seen.entry(outcome).or_default() += 1;
    }
    seen
}

/// Writes to the file after each program. If the run ends early, the file has the outcomes so far.
fn record(path: &Path) {
    let mut file = File::create(path).expect("the file of TRIJET_LITMUS can be written");
    file.write_all(conformance::header().as_bytes()).expect("the disk has room");
    for litmus in ALL {
        for (outcome, count) in seen(litmus, u64::MAX) {
            writeln!(file, "{} {outcome} {count}", litmus.name).expect("the disk has room");
        }
    }
}

#[test]
fn the_gpu_does_what_the_host_device_can() {
    let _alone = crate::alone();
    if let Some(path) = std::env::var_os("TRIJET_LITMUS") {
        return record(Path::new(&path));
    }
    for litmus in ALL {
        let seen = seen(litmus, FEW);
        println!("{}: {seen:?}", litmus.name);
        demand_among(litmus, seen.keys().copied(), &possible(litmus));
    }
}
