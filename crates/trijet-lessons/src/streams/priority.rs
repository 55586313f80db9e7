//! A small kernel beside kernels that fill the device, with and without a higher priority.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, differs, source};
use crate::common::latency::Latency;
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::testing::WORK;
use trijet::{Buffer, Result, Stream, StreamOptions};

pub(crate) const LESSON: Lesson = Lesson {
    name: "priority",
    topic: Topic::Streams,
    texts: &["guide:249", "book:1099"],
    claim: "A small kernel in a stream of high priority need not wait for kernels queued in other streams.",
    forms: &["equal priorities", "a higher priority for the small kernel"],
    expect: Expect::Faster,
    flag: Flag::None("the library does not know which kernel is urgent"),
    timed: Some("the 99th percentile of 100 small kernels"),
    rows: Rows::Streams,
    unmodelled: None,
    make: priority,
};

/// The number of small kernels in a run. Two large kernels are queued before each small kernel.
const SMALL: usize = 100;

/// The host queues large kernels in a background stream, and then launches a small kernel and waits
/// for it. Each form has its own stream for the small kernels.
struct Beside {
    background: Stream,
    streams: [Stream; 2],
    large: [Buffer<u32>; 2],
    small: [Buffer<u32>; 2],
    rounds: u32,
    latency: Latency,
}

fn priority(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, size, background) = (&ground.device, ground.size, ground.device.stream()?);
    let urgent = StreamOptions::new().priority(device.info().priorities.1);
    let pair = |words: usize| -> Result<[Buffer<u32>; 2]> {
        let x = (0..words).map(source).collect::<Vec<_>>();
        Ok([background.upload(&x)?, background.alloc(words)?])
    };
    let (large, small) = (pair(size.words)?, pair(size.small_words)?);
    let streams = [device.stream()?, device.stream_with(urgent)?];
    let (rounds, latency) = (ground.rounds * size.long, Latency::new(ground)?);
    Ok(Box::new(Beside { background, streams, large, small, rounds, latency }))
}

impl Program for Beside {
    fn prepare(&mut self) -> Result<()> {
        self.latency.clear();
        let results = [&mut self.large, &mut self.small];
        results.into_iter().try_for_each(|[_, y]| self.background.fill_bytes(y, 0xee))
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { background, large: [x, y], small: [from, to], latency, rounds, .. } = self;
        let stream = &self.streams[form];
        (0..SMALL).try_for_each(|_| {
            (0..2).try_for_each(|_| background.launch(&WORK, (*rounds, &*x, &mut *y)))?;
            latency.measure(stream, || stream.launch(&WORK, (1, &*from, &mut *to)))
        })
    }

    fn own_ms(&mut self) -> Result<Option<f64>> {
        Ok(self.latency.quantile_ms(0.99))
    }

    fn seen(&mut self, _: Form) -> Result<Option<String>> {
        Ok(self.latency.percentiles())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        let [large, small] = [&self.large[1], &self.small[1]].map(|y| self.background.download(y));
        Ok(differs(&large?, self.rounds, |index| index).or(differs(&small?, 1, |index| index)))
    }
}
