//! Work of the host after a wait for the GPU, or while the GPU works.
#![forbid(unsafe_code)]

use crate::common::desk::{Desk, overlapped};
use crate::common::ground::{Ground, differs, source, spoil};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet_tools::work::hash;

pub(crate) const LESSON: Lesson = Lesson {
    name: "host-work",
    topic: Topic::Streams,
    texts: &["book:29", "guide:129"],
    claim: "A launch returns at once, so the host can compute while the GPU works.",
    forms: &["the host waits, then computes", "the host computes meanwhile"],
    expect: Expect::Faster,
    flag: Flag::None("the library does not see the work of the host"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model's clock stands still while the host computes"),
    make: host_work,
};

/// The device computes this many words for each word that the host computes. On an H100, the device
/// and the host then take about equally long.
const SHARE: usize = 4096;

/// Bad: the host waits for the device, and then computes. Good: the host computes before it waits
/// for the device.
struct HostWork {
    desk: Desk,
    own: Vec<u32>,
}

fn host_work(ground: &Ground) -> Result<Box<dyn Program>> {
    let desk = Desk::new(ground)?;
    let own = vec![0; desk.words * desk.chunks / SHARE];
    Ok(Box::new(HostWork { desk, own }))
}

impl Program for HostWork {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.own, self.desk.rounds);
        spoil(&mut self.desk.arrays.landed.write()?, self.desk.rounds);
        Ok(())
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Desk { device, free, slots, arrays, words, rounds, .. } = &mut self.desk;
        overlapped(free, slots, *words, *rounds, arrays)?;
        if form == BAD {
            device.synchronize()?;
        }
        for (index, word) in self.own.iter_mut().enumerate() {
            *word = hash(*rounds, source(index));
        }
        Ok(())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        let landed = &self.desk.arrays.landed.read()?;
        let found = differs(landed, self.desk.rounds, |index| index);
        Ok(found.or_else(|| differs(&self.own, self.desk.rounds, |index| index)))
    }
}
