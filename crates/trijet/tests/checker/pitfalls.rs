//! Common mistakes, each as a program that runs, with the mistake and without. Only the program
//! with the mistake gets a finding. The programs order their memory by hand, because otherwise the
//! library would insert the waits. Mistakes that only cost time are among the remarks about
//! performance (`tests/measure`).

use crate::live::{by_hand, devices, found, recorded};
use trijet::check::{Conflict, FindingClass};
use trijet::testing::MIX;
use trijet::trace::Op;
use trijet::{Device, Result};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const WAR: FindingClass = FindingClass::Race(Conflict::War);

/// Demands findings of `class` only from the program with the mistake, and no finding without it.
#[track_caller]
fn flagged(class: FindingClass, program: impl Fn(bool) -> Vec<Op>) {
    let (classes, verdict) = found(&program(false));
    assert!(!classes.is_empty() && classes.iter().all(|found| *found == class), "{verdict}");
    let (classes, verdict) = found(&program(true));
    assert_eq!(classes, [], "{verdict}");
}

/// Each stage has its own stream, and there are no events between them.
#[test]
fn stages_without_events_between_them_are_found() {
    flagged(RAW, |cured| {
        recorded(|device, copies, kernels| {
            let h = device.pinned::<u64>(64)?;
            let (mut x, mut y) = (by_hand(kernels, 64)?, by_hand(kernels, 64)?);
            copies.copy(&h, &mut x)?;
            if cured {
                let event = device.event()?;
                event.record(copies)?;
                kernels.wait(&event)?;
            }
            kernels.launch(&MIX, (1, &x, &mut y))?;
            device.synchronize()
        })
    });
}

/// A loader fills a slot again while the kernel that reads it may still run: the event from the
/// kernel to the loader is missing.
#[test]
fn a_slot_that_is_used_again_without_a_way_back_is_found() {
    flagged(WAR, |cured| {
        recorded(|device, copies, kernels| {
            let h = device.pinned::<u64>(64)?;
            let (mut slot, mut y) = (by_hand(kernels, 64)?, by_hand(kernels, 64)?);
            let (full, empty) = (device.event()?, device.event()?);
            for batch in 0..3 {
                if cured && batch > 0 {
                    copies.wait(&empty)?;
                }
                copies.copy(&h, &mut slot)?;
                full.record(copies)?;
                kernels.wait(&full)?;
                kernels.launch(&MIX, (batch, &slot, &mut y))?;
                empty.record(kernels)?;
            }
            device.synchronize()
        })
    });
}

/// Two devices and one buffer between them: the next batch overwrites the bytes that the copy still
/// reads.
#[test]
fn a_batch_that_overtakes_the_copy_to_the_next_device_is_found() {
    flagged(WAR, |cured| {
        let run = || -> Result<Vec<Op>> {
            let devices = devices(2);
            let (first, link) = (devices[0].stream()?, devices[0].stream()?);
            devices[0].start_trace(&first)?;
            let (source, mut out) = (by_hand(&first, 64)?, by_hand(&first, 64)?);
            let mut far = by_hand(&devices[1].stream()?, 64)?;
            let (made, sent) = (devices[0].event()?, devices[0].event()?);
            for batch in 0..2 {
                if cured && batch > 0 {
                    first.wait(&sent)?;
                }
                first.launch(&MIX, (batch, &source, &mut out))?;
                made.record(&first)?;
                link.wait(&made)?;
                link.copy(&out, &mut far)?;
                sent.record(&link)?;
            }
            devices.iter().try_for_each(Device::synchronize)?;
            drop((source, out, far));
            devices.iter().try_for_each(Device::synchronize)?;
            devices[0].take_trace().map(|trace| trace.ops)
        };
        run().expect("no call fails")
    });
}

/// A result is downloaded on the default stream while another stream still computes it.
#[test]
fn a_result_that_is_fetched_on_the_default_stream_too_early_is_found() {
    flagged(RAW, |cured| {
        recorded(|device, producer, _| {
            let legacy = device.legacy_stream()?;
            let (x, mut y) = (by_hand(producer, 64)?, by_hand(producer, 64)?);
            let mut h = device.pinned::<u64>(64)?;
            producer.launch(&MIX, (1, &x, &mut y))?;
            if cured {
                let event = device.event()?;
                event.record(producer)?;
                legacy.wait(&event)?;
            }
            legacy.copy(&y, &mut h)?;
            device.synchronize()
        })
    });
}

/// One event for two readers: the second record replaces the first, so the writer waits for one
/// reader only.
#[test]
fn two_readers_that_share_one_event_are_found() {
    flagged(WAR, |cured| {
        recorded(|device, a, b| {
            let writer = device.stream()?;
            let (mut x, mut y) = (by_hand(a, 64)?, by_hand(a, 64)?);
            let mut z = by_hand(b, 64)?;
            let (read, also_read) = (device.event()?, device.event()?);
            a.launch(&MIX, (1, &x, &mut y))?;
            read.record(a)?;
            b.launch(&MIX, (2, &x, &mut z))?;
            if cured { &also_read } else { &read }.record(b)?;
            writer.wait(&read)?;
            if cured {
                writer.wait(&also_read)?;
            }
            writer.fill_bytes(&mut x, 0)?;
            device.synchronize()
        })
    });
}

/// A buffer of the host is filled again while its upload may still read it.
#[test]
fn a_download_into_a_buffer_that_is_still_uploaded_is_found() {
    flagged(WAR, |cured| {
        recorded(|device, up, down| {
            let mut staging = device.pinned::<u64>(64)?;
            staging.write()?.fill(1);
            // SAFETY: the words are plain and are not read. Both copies are complete at the
            // synchronisation below, before the buffer is dropped.
            unsafe { staging.order_manually() };
            let (mut x, y) = (by_hand(up, 64)?, by_hand(down, 64)?);
            up.copy(&staging, &mut x)?;
            if cured {
                let event = device.event()?;
                event.record(up)?;
                down.wait(&event)?;
            }
            down.copy(&y, &mut staging)?;
            device.synchronize()
        })
    });
}
