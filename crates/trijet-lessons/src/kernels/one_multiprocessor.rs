//! Two kernels in two streams, each with a block or two for each multiprocessor. The blocks wait
//! instead of computing, so their time does not depend on what else is on the multiprocessor.
#![forbid(unsafe_code)]

use crate::common::ground::Ground;
use crate::common::stays::Stays;
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::{LaunchConfig, Result};
use trijet_tools::bare::stay::{Stay, WIDE_THREADS, stay, stay_wide};

pub(crate) const LESSON: Lesson = Lesson {
    name: "one-multiprocessor",
    topic: Topic::Kernels,
    texts: &["notes:169", "notes:189", "book:297", "examples:134"],
    claim: "A multiprocessor runs blocks of two kernels at the same time only if it has room for both.",
    forms: &[
        "shared memory for one kernel",
        "registers for one kernel",
        "threads for one kernel",
        "room for both kernels",
    ],
    expect: Expect::Faster,
    flag: Flag::None("the library does not know which kernels fit beside each other"),
    timed: Some("from the first start of a block to the last end"),
    rows: Rows::Streams,
    unmodelled: Some("The model has no multiprocessors"),
    make: one_multiprocessor,
};

/// The time of each block, in nanoseconds.
const NS: u32 = 300_000;

struct BothKernels {
    kernels: Stays,
    multiprocessors: u32,
    /// The kernel that is launched twice in each form, and its configuration.
    forms: [(Stay, LaunchConfig); 4],
}

fn one_multiprocessor(ground: &Ground) -> Result<Box<dyn Program>> {
    let info = ground.device.info();
    let (multiprocessors, shared) = (info.multiprocessors, info.shared_bytes_optin);
    let grid = |blocks, threads| LaunchConfig::new([blocks, 1, 1], [threads, 1, 1]);
    let room = grid(multiprocessors, 32);
    // A multiprocessor has at most twice the threads of the largest block.
    let threads = grid(2 * multiprocessors, info.block_threads_max);
    let forms = [
        (stay(shared), room.shared_bytes(shared)),
        (stay_wide(), grid(multiprocessors, WIDE_THREADS)),
        (stay(0), threads),
        (stay(0), room),
    ];
    let kernels = Stays::new(&ground.device, threads.grid[0], NS)?;
    Ok(Box::new(BothKernels { kernels, multiprocessors, forms }))
}

impl Program for BothKernels {
    fn prepare(&mut self) -> Result<()> {
        self.kernels.clear()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let (kernel, config) = &self.forms[form];
        self.kernels.launch(kernel, *config)
    }

    fn own_ms(&mut self) -> Result<Option<f64>> {
        Ok(Some(self.kernels.fetch()?.length_ms()))
    }

    fn seen(&mut self, _: Form) -> Result<Option<String>> {
        let (shared, all) = (self.kernels.fetch()?.shared(), self.multiprocessors);
        Ok(Some(format!("{shared} of {all} multiprocessors ran blocks of both kernels at once")))
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        Ok(self.kernels.fetch()?.wrong())
    }
}
