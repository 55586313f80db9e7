//! Batches that the host fills, in turn or while earlier batches are uploaded and computed.
#![forbid(unsafe_code)]

use crate::common::batches::Batches;
use crate::common::desk::{Desk, Slot, step};
use crate::common::ground::{Ground, differs, part, spoil};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use std::cell::RefCell;
use trijet::Result;
use trijet::check::lint::Rule;
use trijet::staged::Staged;
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "loader",
    topic: Topic::Pipelines,
    texts: &["guide:326", "guide:361"],
    claim: "A loader that fills and uploads the next batches while one is computed keeps the GPU busy.",
    forms: &["a wait for each batch", "stages that work on different batches"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::OverSync),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: loader,
};

/// Bad: the host fills a batch, and waits for the result of the batch. Good: the stages work on
/// different batches at the same time.
struct Loader {
    desk: Desk,
    batches: Batches,
}

fn loader(ground: &Ground) -> Result<Box<dyn Program>> {
    let mut desk = Desk::new(ground)?;
    let batches = Batches::of(&mut desk)?;
    Ok(Box::new(Loader { desk, batches }))
}

impl Program for Loader {
    fn prepare(&mut self) -> Result<()> {
        self.batches.empty()?;
        spoil(&mut self.desk.arrays.landed.write()?, self.desk.rounds);
        Ok(())
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { desk: Desk { device, free, slots, arrays, words, rounds, .. }, batches } = self;
        let (landed, count) = (&mut arrays.landed, slots.len());
        if form == BAD {
            return (0..batches.len()).try_for_each(|number| {
                let from = batches.lock(batches.fill(number)?);
                let to = landed.slice_mut(part(number, *words));
                step([&free.run; 3], *rounds, from.view(), &mut slots[0], to)?;
                free.run.synchronize()
            });
        }
        let (slots, landed) = (RefCell::new(slots), RefCell::new(landed));
        let mut staged = Staged::<usize>::on(device);
        let filled = staged.host_stage("fill", staged.item(), |_, n| batches.fill(*n));
        let uploaded = staged.stage("upload", filled, |s, &number| {
            let x = &mut slots.borrow_mut()[number % count].x;
            s.copy(&*batches.lock(number), x).map(|()| number)
        });
        let computed = staged.stage("kernel", uploaded, |s, &number| {
            let Slot { x, y } = &mut slots.borrow_mut()[number % count];
            s.launch(&WORK, (*rounds, &*x, y)).map(|()| number)
        });
        let downloaded = staged.stage("download", computed, |s, &number| {
            let mut landed = landed.borrow_mut();
            s.copy(&slots.borrow()[number % count].y, &mut landed.slice_mut(part(number, *words)))
        });
        staged.run((0..batches.len()).map(Ok), downloaded, |()| Ok(())).map(drop)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        Ok(differs(&self.desk.arrays.landed.read()?, self.desk.rounds, |index| index))
    }
}
