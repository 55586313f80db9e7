//! A copy between devices through the memory of the host, or directly.
#![forbid(unsafe_code)]

use crate::common::both::Both;
use crate::common::ground::{Ground, differs, spoil};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::{Buffer, PinnedBuffer, Result};

pub(crate) const LESSON: Lesson = Lesson {
    name: "peer-copy",
    topic: Topic::Devices,
    texts: &["book:1030"],
    claim: "A direct copy between two GPUs takes less time than a copy through host memory.",
    forms: &["through host memory", "directly"],
    expect: Expect::Faster,
    flag: Flag::None("no rule follows data from a download to an upload"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: peer_copy,
};

/// Bad: a download from the first device, then an upload to the second device. Good: one copy
/// between the devices.
struct PeerCopy {
    both: Both,
    between: PinnedBuffer<u32>,
    y: Buffer<u32>,
}

fn peer_copy(ground: &Ground) -> Result<Box<dyn Program>> {
    let words = ground.size.words * ground.size.chunks;
    let both = Both::new(ground, words)?;
    let (between, y) = (ground.device.pinned(words)?, both.streams[1].alloc(words)?);
    Ok(Box::new(PeerCopy { both, between, y }))
}

impl Program for PeerCopy {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.between.write()?, 0);
        self.both.streams[1].fill_bytes(&mut self.y, 0xee)?;
        self.both.synchronize()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Both { streams: [from, to], x: [x, _], .. } = &self.both;
        if form == BAD {
            from.copy(x, &mut self.between)?;
            return to.copy(&self.between, &mut self.y);
        }
        from.copy(x, &mut self.y)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        let Both { streams: [_, to], back, .. } = &mut self.both;
        to.copy(&self.y, back)?;
        Ok(differs(&back.read()?, 0, |index| index))
    }
}
