//! Host time of one launch: tracked, ordered by hand, and the bare driver call, in turn, in bursts
//! that fit the device's queue. Against a driver of empty functions, what is left is our own.
#![forbid(unsafe_code)]

use crate::bare::Bare;
use crate::record::Record;
use crate::stats::Samples;
use serde::Deserialize;
use std::time::Instant;
use trijet::kernels::AXPY;
use trijet::{Buffer, Device, Error, ErrorKind, Result, Stream};

#[derive(Debug, Deserialize)]
struct Definition {
    burst: u32,
    bursts: usize,
    elements: u64,
}

fn buffers(device: &Device, s: &Stream, n: u64) -> Result<(Buffer<f32>, Buffer<f32>)> {
    let (mut x, mut y) = (s.alloc::<f32>(n)?, s.alloc::<f32>(n)?);
    let mut ones = device.pinned::<f32>(n)?;
    ones.write()?.fill(1.0);
    s.copy(&ones, &mut x)?;
    s.fill_bytes(&mut y, 0)?;
    s.synchronize()?;
    Ok((x, y))
}

/// Nanoseconds per launch of one burst; the device is idle before and after.
fn burst(s: &[&Stream], x: &Buffer<f32>, y: &mut Buffer<f32>, count: u32) -> Result<f64> {
    let start = Instant::now();
    for index in 0..count {
        s[index as usize % s.len()].launch(&AXPY, (1.0f32, x, &mut *y))?;
    }
    let time = start.elapsed();
    for stream in s {
        stream.synchronize()?;
    }
    Ok(time.as_secs_f64() * 1e9 / f64::from(count))
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; what the device reports.
pub fn run(device: &Device) -> Result<Record> {
    let text = include_str!("../definitions/enqueue.toml");
    let definition: Definition = toml::from_str(text)
        .map_err(|e| Error::new(ErrorKind::InvalidValue, "bench", "definition").caused_by(e))?;
    let (a, b) = (device.stream()?, device.stream()?);
    let (x, mut y) = buffers(device, &a, definition.elements)?;
    let (x2, mut y2) = buffers(device, &a, definition.elements)?;
    let mut bare = Bare::new(definition.elements);
    let count = definition.burst;
    let mut names = ["tracked, one stream", "tracked, two streams in turn", "bare call"];
    let mut samples = vec![Samples::default(); names.len()];
    let mut before = device.ordering();
    let mut crossing = 0u64;
    for round in 0..=definition.bursts {
        let one = burst(&[&a], &x, &mut y, count)?;
        let mark = device.ordering();
        let two = burst(&[&a, &b], &x2, &mut y2, count)?;
        let after = device.ordering();
        if round == 0 {
            before = after;
            continue;
        }
        crossing += after.waits - mark.waits;
        samples[0].push(one);
        samples[1].push(two);
        if let Ok(bare) = &mut bare {
            samples[2].push(bare.burst(count)?);
        }
    }
    let after = device.ordering();
    let launches = f64::from(count) * (definition.bursts + 1) as f64;
    let mut record = Record::new("enqueue", device, verify(device, &a, &y, launches)?);
    if bare.is_err() {
        names[2] = "bare call (not available)";
    }
    for (name, samples) in names.into_iter().zip(samples) {
        if samples.count() > 0 {
            record.push(name, "ns", samples, None);
        }
    }
    let per_launch = |value: u64| {
        let mut samples = Samples::default();
        samples.push(value as f64 / (definition.bursts as f64 * f64::from(count)));
        samples
    };
    record.push("waits per launch, two streams", "count", per_launch(crossing), None);
    let records = after.records - before.records;
    record.push("records per launch, two streams", "count", per_launch(records), None);
    Ok(record)
}

/// Every launch added 1 to each element, as long as a float can count.
fn verify(device: &Device, s: &Stream, y: &Buffer<f32>, launches: f64) -> Result<String> {
    if device.info().name.starts_with("empty") {
        return Ok("nothing: a driver of empty functions computes nothing".to_owned());
    }
    let mut back = device.pinned::<f32>(y.len())?;
    s.copy(y, &mut back)?;
    let wrong = back.read()?.iter().find(|v| f64::from(**v) != launches).copied();
    match wrong {
        None => Ok(format!("{launches} launches counted by the kernel")),
        Some(v) => {
            let cause = format!("{v} launches counted, not {launches}");
            Err(Error::new(ErrorKind::InvalidValue, "bench enqueue", cause))
        }
    }
}
