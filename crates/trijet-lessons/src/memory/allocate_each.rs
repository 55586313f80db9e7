//! An allocation and a free of the driver in each step, or stream-ordered memory.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Desk, step};
use crate::common::ground::{Ground, differs, part, spoil};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet_tools::bare::lab::Lab;
use trijet_tools::bare::step::{BareStep, Held};

pub(crate) const LESSON: Lesson = Lesson {
    name: "allocate-each",
    topic: Topic::Memory,
    texts: &["examples:19", "examples:36", "notes:15"],
    claim: "cuMemAlloc and cuMemFree in each step stop the pipeline; stream-ordered memory does not.",
    forms: &["cuMemAlloc and cuMemFree for each chunk", "stream-ordered memory"],
    expect: Expect::Faster,
    flag: Flag::None(
        "the library does not trace the program's own driver calls; `trijet trace` does",
    ),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model has no cuMemAlloc and no cuMemFree"),
    make: allocating,
};

/// The size of the allocation in each step, in MiB.
const SCRATCH_MIB: usize = 16;

/// Bad: each step allocates scratch memory with `cuMemAlloc` and frees it with `cuMemFree`. Good:
/// the scratch memory is stream-ordered. No kernel uses the scratch memory, so only the calls are
/// compared.
struct Allocating {
    desk: Desk,
    /// The bare driver calls of the bad form. `None` on a host device, on which both forms use
    /// stream-ordered memory.
    lab: Option<Lab>,
}

fn allocating(ground: &Ground) -> Result<Box<dyn Program>> {
    let is_gpu = ground.device.info().compute.0 > 0;
    let lab = is_gpu.then(|| Lab::new(ground.device.id().0)).transpose()?;
    Ok(Box::new(Allocating { desk: Desk::new(ground)?, lab }))
}

impl Program for Allocating {
    fn prepare(&mut self) -> Result<()> {
        spoil(&mut self.desk.arrays.landed.write()?, self.desk.rounds);
        self.lab.as_ref().map_or(Ok(()), Lab::enter)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Desk { free, slots, arrays, chunks, words, rounds, .. } = &mut self.desk;
        let Arrays { source, landed } = arrays;
        let mut held = Held::default();
        for chunk in 0..*chunks {
            let (slot, part) = (chunk % slots.len(), part(chunk, *words));
            let to = landed.slice_mut(part.clone());
            step(free.roles(), *rounds, source.slice(part), &mut slots[slot], to)?;
            match &self.lab {
                Some(lab) if form == BAD => {
                    lab.act(BareStep::Alloc(SCRATCH_MIB), &mut held)?;
                    lab.act(BareStep::Free(SCRATCH_MIB), &mut held)?;
                }
                _ => drop(free.run.alloc::<u8>(SCRATCH_MIB << 20)?),
            }
        }
        Ok(())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        Ok(differs(&self.desk.arrays.landed.read()?, self.desk.rounds, |index| index))
    }
}
