//! A cache that becomes longer in each step: by a copy to a larger buffer, or in place.
#![forbid(unsafe_code)]

use crate::common::cache::{Cache, device_of_caches};
use crate::common::ground::{Ground, differs, part, source};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::testing::WORK;
use trijet::{Buffer, Device, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "growing",
    topic: Topic::Memory,
    texts: &["notes:220"],
    claim: "A cache that grows in place takes less time than one that is copied to a larger buffer.",
    forms: &["a copy to a larger buffer in each step", "growth in place"],
    expect: Expect::Faster,
    flag: Flag::None("no rule is about copies within a device"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some(
        "On the model, memory of the largest size stands in for memory that grows in place",
    ),
    make: growing,
};

/// The number of steps. Each step adds an equal part of the cache.
const STEPS: usize = 64;

struct Growing {
    device: Device,
    stream: Stream,
    x: Buffer<u32>,
    cache: Cache,
    back: PinnedBuffer<u32>,
}

fn growing(ground: &Ground) -> Result<Box<dyn Program>> {
    let device = device_of_caches(ground)?;
    let (stream, words) = (device.stream()?, ground.size.words);
    let x = stream.upload(&(0..words).map(source).collect::<Vec<_>>())?;
    let (cache, back) = (Cache::copied(&stream)?, device.pinned(words)?);
    Ok(Box::new(Growing { device, stream, x, cache, back }))
}

impl Program for Growing {
    fn prepare(&mut self) -> Result<()> {
        self.stream.fill_bytes(&mut self.cache.view_mut(), 0xee)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { device, stream, x, cache, .. } = self;
        *cache = match form {
            BAD => Cache::copied(stream)?,
            _ => Cache::in_place(device, stream, x.len())?,
        };
        for new in (0..STEPS).map(|step| part(step, x.len() / STEPS)) {
            cache.grow(stream, new.start, new.end)?;
            stream.launch(&WORK, (1, x.slice(new.clone()), cache.view_mut().slice(new)))?;
        }
        Ok(())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.stream.copy(&self.cache.view(), &mut self.back)?;
        Ok(differs(&self.back.read()?, 1, |index| index))
    }
}
