//! Threads that end while their per-thread streams have pending work.

use super::cuda;
use crate::alone;
use std::thread;
use trijet::testing::WORK;
use trijet::{Buffer, Device, Result};

const THREADS: usize = 8;
/// The number of kernels of each thread.
const KERNELS: usize = 4;
const WORDS: usize = 2048;
/// The number of rounds of a kernel, which then takes a fraction of a millisecond.
const ROUNDS: u32 = 10_000;

type Pairs = Vec<(Buffer<u32>, Buffer<u32>)>;

/// Launches the kernels of one thread, and ends without a wait.
fn launch(device: &Device, pairs: &mut [(Buffer<u32>, Buffer<u32>)]) -> Result<()> {
    let stream = device.per_thread_stream()?;
    pairs.iter_mut().try_for_each(|(x, y)| stream.launch(&WORK, (ROUNDS, &*x, y)))
}

/// Driver 580 waits at the end of such threads, without end if several of them end at once.
#[test]
fn threads_with_pending_work_in_their_default_streams_end() -> Result<()> {
    let _alone = alone();
    let device = cuda();
    device.load(&WORK)?;
    let home = device.stream()?;
    let mut pairs: Pairs = Vec::new();
    for _ in 0..THREADS * KERNELS {
        pairs.push((home.upload(&vec![1; WORDS])?, home.alloc(WORDS)?));
    }
    for round in 0..20 {
        for (_, y) in &mut pairs {
            home.fill_bytes(y, 0xee)?;
        }
        thread::scope(|scope| {
            let start = |own| scope.spawn(|| launch(&device, own));
            let started: Vec<_> = pairs.chunks_mut(KERNELS).map(start).collect();
            // In every other round, the device is waited for while the threads end.
            if round % 2 == 0 {
                started.into_iter().try_for_each(|thread| thread.join().expect("no panic"))?;
            }
            Ok::<(), trijet::Error>(())
        })?;
        device.synchronize()?;
        let first = home.download(&pairs[0].1)?;
        assert!(first.iter().all(|word| *word == first[0] && *word != 0xeeee_eeee));
        for (_, y) in &pairs {
            assert_eq!(home.download(y)?, first, "each kernel computed the same");
        }
    }
    Ok(())
}
