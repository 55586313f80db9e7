//! Examines every other GPU of the machine: whether the measured GPU can access the memory of the
//! other GPU, and whether the other GPU can access the memory of the measured GPU. Measures copies
//! to the first GPU with access in both directions.

use super::bench::{Bench, samples};
use crate::bare::lab::Lab;
use crate::bare::peer::Peers;
use crate::doctor::findings::{Neighbour, Path, Rate};
use crate::origin::kernel_driver;
use crate::stats::Samples;
use trijet::{Bytes, Device, Result};

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let Some(lab) = bench.lab.take() else { return Ok(()) };
    let outcome = beside(bench, &lab);
    bench.lab = Some(lab);
    outcome
}

fn beside(bench: &mut Bench, lab: &Lab) -> Result<()> {
    bench.found.kernel_driver = kernel_driver();
    let own = bench.found.ordinal;
    let mut first = None;
    for (ordinal, info) in (0..).zip(Device::cuda_devices()?) {
        if ordinal == own {
            continue;
        }
        let other = Lab::new(ordinal)?;
        let (reached, reaches) = (lab.reaches(&other)?, other.reaches(lab)?);
        bench.found.neighbours.push(Neighbour { ordinal, name: info.name, reached, reaches });
        if first.is_none() && reached && reaches {
            first = Some(other);
        }
    }
    match &first {
        Some(other) => copies(bench, lab, other)?,
        None => bench.absent("peer copies", "no other GPU is within reach of this one"),
    }
    lab.enter()
}

fn copies(bench: &mut Bench, lab: &Lab, other: &Lab) -> Result<()> {
    let plan = bench.plan.clone();
    let all = usize::try_from(plan.largest()).unwrap_or(usize::MAX);
    let peers = Peers::new(lab, other, all)?;
    peers.verify(0x5a)?;
    for bytes in plan.sizes {
        let (size, copies) = (Bytes(*bytes).to_usize(), plan.copies(*bytes));
        let gb_per_s = samples(plan.repeats, || {
            peers.copies(size, copies).map(|ns| (bytes * copies as u64) as f64 / ns.max(1.0))
        })?;
        bench.found.rates.push(Rate {
            path: Path::Peer,
            bytes: Bytes(*bytes),
            copies: copies as u64,
            gb_per_s,
            host_busy: Samples::default(),
            pattern: None,
        });
    }
    peers.verify(0xa5)?;
    peers.close()
}
