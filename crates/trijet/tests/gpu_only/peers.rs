//! Copies between all pairs of GPUs, with memory of heaps and of pools. On a host with one GPU
//! there is no pair.

use crate::alone;
use crate::peers::copies_between_devices_are_exact;
use trijet::{Device, PoolChoice, Result, Select};

/// The second round needs memory that the heap did not map in the first one.
const LENGTHS: [usize; 2] = [100_000, 10_000_000];

fn all(pool: Option<PoolChoice>) -> Result<Vec<Device>> {
    let open = |ordinal| {
        let builder = Device::builder().select(Select::Cuda(ordinal));
        match pool {
            Some(pool) => builder.pool(pool).open(),
            None => builder.open(),
        }
    };
    (0..u32::try_from(Device::cuda_devices()?.len()).expect("a few GPUs")).map(open).collect()
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
