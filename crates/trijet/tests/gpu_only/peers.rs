//! Copies between all pairs of GPUs, with memory of heaps and of pools. On a host with one GPU
//! there is no pair.

use super::all_gpus;
use crate::alone;
use crate::peers::copies_between_devices_are_exact;
use trijet::{Device, PoolChoice, Result};

/// The second round needs memory that the heap did not map in the first one.
const LENGTHS: [usize; 2] = [100_000, 10_000_000];

fn all(pool: Option<PoolChoice>) -> Result<Vec<Device>> {
    let builder = all_gpus();
    match pool {
        Some(pool) => builder.pool(pool).open_all(),
        None => builder.open_all(),
    }
}

#[test]
fn copies_between_gpus_are_exact_with_memory_of_heaps() -> Result<()> {
    let _alone = alone();
    copies_between_devices_are_exact(&all(None)?, LENGTHS)
}

#[test]
fn copies_between_gpus_are_exact_with_memory_of_pools() -> Result<()> {
    let _alone = alone();
    copies_between_devices_are_exact(&all(Some(PoolChoice::Own))?, LENGTHS)
}
