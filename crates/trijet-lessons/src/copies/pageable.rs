//! Copies of pageable and of page-locked memory.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Desk, overlapped};
use crate::common::ground::{Ground, differs, spoil};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::{PageableBuffer, Result};

pub(crate) const LESSON: Lesson = Lesson {
    name: "pageable",
    topic: Topic::Copies,
    texts: &["notes:11", "guide:407", "guide:825"],
    claim: "Copies of pageable memory do not overlap; copies of page-locked memory do.",
    forms: &["pageable memory", "page-locked memory"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::Pageable),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: pageable,
};

/// Bad: the arrays are pageable. Good: the arrays are page-locked.
struct Unlocked {
    desk: Desk,
    arrays: Arrays<trijet::memory::Pageable>,
}

fn pageable(ground: &Ground) -> Result<Box<dyn Program>> {
    let all = ground.size.words * ground.size.chunks;
    let array = || -> Result<PageableBuffer<u32>> { ground.device.pageable(all) };
    let arrays = Arrays { source: array()?, landed: array()? }.fill()?;
    Ok(Box::new(Unlocked { desk: Desk::new(ground)?, arrays }))
}

impl Program for Unlocked {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.arrays.landed.write()?, self.desk.rounds);
        spoil(&mut self.desk.arrays.landed.write()?, self.desk.rounds);
        Ok(())
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Desk { free, slots, arrays, words, rounds, .. } = &mut self.desk;
        match form {
            BAD => overlapped(free, slots, *words, *rounds, &mut self.arrays),
            _ => overlapped(free, slots, *words, *rounds, arrays),
        }
    }

    fn wrong(&mut self, form: Form) -> Result<Option<String>> {
        let landed = match form {
            BAD => self.arrays.landed.read()?,
            _ => self.desk.arrays.landed.read()?,
        };
        Ok(differs(&landed, self.desk.rounds, |index| index))
    }
}
