//! Micro-batches through two devices, one after the other or all at once.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, differs, spoil};
use crate::common::halves::Halves;
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::lint::Rule;
use trijet::training::{LayerPipeline, MicroBatchOrder};

pub(crate) const LESSON: Lesson = Lesson {
    name: "four-engines",
    topic: Topic::Devices,
    texts: &["notes:126", "book:1058"],
    claim: "Upload, kernels, copy to the next GPU and download of several micro-batches run at once.",
    forms: &["each micro-batch after the other", "all micro-batches at once"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::OverSync),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: four_engines,
};

/// Bad: the host waits for each micro-batch. Good: the pipeline enqueues all micro-batches.
struct FourEngines {
    halves: Halves,
    /// A pipeline for one micro-batch, and a pipeline for all micro-batches.
    pipelines: [LayerPipeline<u32>; 2],
    chunks: usize,
}

fn four_engines(ground: &Ground) -> Result<Box<dyn Program>> {
    let (halves, chunks) = (Halves::new(ground)?, ground.size.chunks);
    let (devices, lens) = (&halves.devices, [halves.words]);
    let of = |count| LayerPipeline::new(devices, &lens, MicroBatchOrder::Forward, count);
    let pipelines = [of(1)?, of(chunks)?];
    Ok(Box::new(FourEngines { halves, pipelines, chunks }))
}

impl Program for FourEngines {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.halves.arrays.landed.write()?, 2 * self.halves.rounds);
        Ok(())
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { halves, pipelines: [single, all], chunks } = self;
        if form != BAD {
            return all.run(|work| halves.stage(work.micro_batch, work));
        }
        (0..*chunks).try_for_each(|number| {
            single.run(|work| halves.stage(number, work))?;
            halves.down.synchronize()
        })
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        Ok(differs(&self.halves.arrays.landed.read()?, 2 * self.halves.rounds, |index| index))
    }
}
