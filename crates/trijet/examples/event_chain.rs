//! Four streams in a chain, by explicit events: A uploads, B and C compute, D downloads.
//!
//! A record makes an event mark the work of its stream so far (law A4). A wait uses the state of
//! the event at the call (law A7). The event from D to A prevents that a batch overwrites a slot in
//! use. It is recorded before the first batch, because a wait for an event without a record does
//! not wait (law A5), and the checker warns about it. Buffers order themselves, but here the events
//! suffice, so the library adds no wait.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::{Device, Event, Result};

const BATCHES: usize = 9;
const SLOTS: usize = 2;
const LEN: usize = 50_021;

fn example(device: &Device) -> Outcome<String> {
    let (a, b, c, d) = (device.stream()?, device.stream()?, device.stream()?, device.stream()?);
    let slot = |_| Ok((a.alloc(LEN)?, a.alloc(LEN)?, a.alloc(LEN)?));
    let mut slots: Vec<_> = (0..SLOTS).map(slot).collect::<Result<_>>()?;
    let events = |_| Ok([device.event()?, device.event()?, device.event()?, device.event()?]);
    let events: Vec<[Event; 4]> = (0..SLOTS).map(events).collect::<Result<_>>()?;
    events.iter().try_for_each(|[.., done]| done.record(&d))?;
    let mut outputs = Vec::new();
    let before = device.ordering().waits;
    for k in 0..BATCHES {
        let (x, y, z) = &mut slots[k % SLOTS];
        let [uploaded, scaled, shifted, done] = &events[k % SLOTS];
        let (mut input, mut output) = (device.pinned::<f32>(LEN)?, device.pinned::<f32>(LEN)?);
        input.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(k + i));
        a.wait(done)?;
        a.copy(&input, x)?;
        uploaded.record(&a)?;
        b.wait(uploaded)?;
        b.launch(&AFFINE_F32, (3.0, 0.0, &*x, &mut *y))?;
        scaled.record(&b)?;
        c.wait(scaled)?;
        c.launch(&AFFINE_F32, (1.0, 7.0, &*y, &mut *z))?;
        shifted.record(&c)?;
        d.wait(shifted)?;
        d.copy(&*z, &mut output)?;
        done.record(&d)?;
        outputs.push(output);
    }
    verify("waits that the events lacked", &[device.ordering().waits - before], |_| 0)?;
    for (k, output) in outputs.iter().enumerate() {
        verify(&format!("batch {k}"), &output.read()?, |i| 3.0 * sample(k + i) + 7.0)?;
    }
    Ok(format!("{BATCHES} batches through 4 streams, {} explicit waits, 0 added", 4 * BATCHES))
}

fn main() -> ExitCode {
    run(example)
}
