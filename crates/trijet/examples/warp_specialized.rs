//! Sums of batches with two levels of overlap: batches over streams, and tiles over warps.
//!
//! Uploads, sums and downloads have separate streams, so three batches are in flight at once.
//! Inside a block of the kernel, one warp loads a tile, one warp adds the previous tile, and one
//! warp stores the tile before that. Both operands of a sum are in one upload, so the second one
//! may start at any element.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::Device;
use trijet::staged::Staged;
use trijet::testing::warp_specialized::{ADD, TILE, config};

const BATCHES: usize = 60;
fn len(batch: usize) -> usize {
    20_000 + 1_111 * (batch % 11)
}

fn example(device: &Device) -> Outcome<String> {
    let blocks = device.info().multiprocessors;
    let mut staged = Staged::<usize>::on(device);
    let read = staged.host_stage("read", staged.item(), |_, batch| {
        let mut pairs = device.pinned::<f32>(2 * len(*batch))?;
        pairs.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(batch + i));
        Ok(pairs)
    });
    let pairs = staged.stage("upload", read, |s, pairs| {
        let mut copied = s.alloc::<f32>(pairs.len())?;
        s.copy(pairs, &mut copied)?;
        Ok(copied)
    });
    let sums = staged.stage("add", pairs, |s, pairs| {
        let len = pairs.len() / 2;
        let mut z = s.alloc::<f32>(len)?;
        s.launch_with(&ADD, config(len, blocks), (pairs.slice(..len), pairs.slice(len..), &mut z))?;
        Ok(z)
    });
    let results = staged.stage("download", sums, |s, z| {
        let mut result = device.pinned::<f32>(z.len())?;
        s.copy(z, &mut result)?;
        Ok(result)
    });
    let mut found = Vec::new();
    staged.run((0..BATCHES).map(Ok), results, |z| z.read().map(|z| found.push(z.to_vec())))?;
    verify("batches", &[found.len()], |_| BATCHES)?;
    for (batch, z) in found.iter().enumerate() {
        verify("length", &[z.len()], |_| len(batch))?;
        let sum = |i| sample(batch + i) + sample(batch + len(batch) + i);
        verify(&format!("batch {batch}"), z, sum)?;
    }
    let tiles = (0..BATCHES).map(|batch| len(batch).div_ceil(TILE)).sum::<usize>();
    Ok(format!("{BATCHES} batches, {tiles} tiles of {TILE}"))
}

fn main() -> ExitCode {
    run(example)
}
