//! Sixteen batches through three staging buffers. A host function returns each buffer.
//!
//! A host function runs after the earlier work of its stream (law A27), so it can report that the
//! upload no longer reads its buffer. It must not call the driver (law A28), so it only sends a
//! number. After a context loss it never runs (law A29). So the host also waits for a ticket that
//! was taken after the host function. The ticket returns the error.

mod common;

use common::{Outcome, run, sample, verify};
use std::collections::{BTreeSet, VecDeque};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use trijet::kernels::AFFINE_F32;
use trijet::{Device, PinnedBuffer, Result, Ticket};

const STAGING: usize = 3;
const BATCHES: usize = 16;
const LEN: usize = 40_009;

fn example(device: &Device) -> Outcome<String> {
    let s = device.stream()?;
    let pinned = |_| device.pinned(LEN);
    let mut staging: Vec<PinnedBuffer<f32>> = (0..STAGING).map(pinned).collect::<Result<_>>()?;
    let (recycle, recycled) = channel();
    (0..STAGING).try_for_each(|index| recycle.send(index))?;
    let mut tickets: VecDeque<Ticket> = VecDeque::new();
    let (mut outputs, mut waited) = (Vec::new(), 0);
    for k in 0..BATCHES {
        let index = loop {
            if let Ok(index) = recycled.try_recv() {
                break index;
            }
            tickets.pop_front().ok_or("a staging buffer got lost")?.wait()?;
            waited += 1;
        };
        let input = &mut staging[index];
        input.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(k + i));
        let (mut x, mut y, mut output) = (s.alloc(LEN)?, s.alloc(LEN)?, device.pinned(LEN)?);
        s.copy(input, &mut x)?;
        let recycle = recycle.clone();
        s.host_fn(move || recycle.send(index).unwrap_or(()))?; // the send fails only after an error
        tickets.push_back(s.ticket()?);
        s.launch(&AFFINE_F32, (2.0, 5.0, &x, &mut y))?;
        s.copy(&y, &mut output)?;
        outputs.push(output);
    }
    s.synchronize()?;
    let back: BTreeSet<usize> = recycled.try_iter().collect();
    verify("staging buffers that came back", &[back.len()], |_| STAGING)?;
    for (k, output) in outputs.iter().enumerate() {
        verify(&format!("batch {k}"), &output.read()?, |i| 2.0 * sample(k + i) + 5.0)?;
    }
    Ok(format!("{BATCHES} batches through {STAGING} staging buffers, all back, {waited} waits"))
}

fn main() -> ExitCode {
    run(example)
}
