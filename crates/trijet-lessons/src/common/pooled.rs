//! Steps that allocate scratch memory from a pool, use the memory, free it, and wait. Each form has
//! its own release threshold.
#![forbid(unsafe_code)]

use super::ground::{Ground, Size, differs, source};
use crate::lesson::{Form, Program};
use trijet::testing::WORK;
use trijet::{Buffer, Bytes, Device, PinnedBuffer, Result, Stream};
use trijet_tools::bare::free_memory::FreeMemory;

/// The number of parts of the scratch memory of a step. The parts are separate allocations, so that
/// a pool can keep only some of them.
const PARTS: u32 = 4;
/// The number of rounds of a step. A step has kernels of one round each: from the source to the
/// first part of the scratch memory, from each part to the next part, and from the last part to the
/// result.
const ROUNDS: u32 = PARTS + 1;

pub(crate) struct Pooled {
    device: Device,
    stream: Stream,
    size: Size,
    x: Buffer<u32>,
    y: Buffer<u32>,
    back: PinnedBuffer<u32>,
    /// The release threshold of the pool in each form, in the order of the forms.
    keep: Vec<Bytes>,
    /// `None` on a host device, whose memory no other process can allocate.
    free: Option<FreeMemory>,
}

impl Pooled {
    /// Calls `keep` with two numbers of bytes: the memory that the pool holds during a step, and
    /// the scratch memory of a step. `keep` returns the release threshold of each form.
    pub(crate) fn boxed(
        ground: &Ground,
        keep: fn(Bytes, Bytes) -> Vec<Bytes>,
    ) -> Result<Box<dyn Program>> {
        let (device, size) = (ground.device.clone(), ground.size);
        let (stream, words) = (device.stream()?, size.small_words);
        let x = stream.upload(&(0..words).map(source).collect::<Vec<_>>())?;
        let (y, back) = (stream.alloc(words)?, device.pinned(words)?);
        let is_gpu = device.info().compute.0 > 0;
        let free = is_gpu.then(|| FreeMemory::of(device.id().0)).transpose()?;
        let mut pooled = Self { device, stream, size, x, y, back, keep: Vec::new(), free };
        // Memory that other programs left in the pool would count towards the threshold.
        pooled.stream.synchronize()?;
        pooled.device.trim_memory(Bytes(0))?;
        let scratch = pooled.scratch()?;
        let held = pooled.device.memory_stats()?.reserved;
        drop(scratch);
        pooled.keep = keep(held, Bytes((size.scratch_words * size_of::<u32>()) as u64));
        Ok(Box::new(pooled))
    }

    /// Allocates the scratch memory of a step.
    fn scratch(&self) -> Result<Vec<Buffer<u32>>> {
        (0..PARTS).map(|_| self.stream.alloc(self.size.scratch_words / PARTS as usize)).collect()
    }

    fn steps(&mut self) -> Result<()> {
        let words = self.size.small_words;
        for _ in 0..self.size.chunks {
            let mut scratch = self.scratch()?;
            let mut from = self.x.view();
            for part in &mut scratch {
                self.stream.launch(&WORK, (1, from, part.slice_mut(..words)))?;
                from = part.slice(..words);
            }
            self.stream.launch(&WORK, (1, from, &mut self.y))?;
            drop(scratch);
            self.stream.synchronize()?;
        }
        Ok(())
    }
}

impl Program for Pooled {
    /// Fills the pool, so that it already has the memory of one step.
    fn prepare(&mut self) -> Result<()> {
        drop(self.scratch()?);
        self.stream.fill_bytes(&mut self.y, 0xee)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        self.device.keep_memory(self.keep[form])?;
        let outcome = self.steps();
        self.device.keep_memory(Bytes(u64::MAX))?;
        outcome
    }

    /// The run ended with a wait, at which the pool gave back the memory above its threshold.
    fn seen(&mut self, _: Form) -> Result<Option<String>> {
        let kept = self.device.memory_stats()?.reserved;
        Ok(Some(match &self.free {
            Some(free) => {
                let free = free.now()?;
                format!("the pool keeps {kept}, and other processes can allocate {free}")
            }
            None => format!("the pool keeps {kept}"),
        }))
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.stream.copy(&self.y, &mut self.back)?;
        Ok(differs(&self.back.read()?, ROUNDS, |index| index))
    }
}

#[cfg(test)]
mod tests {
    use super::{Ground, Pooled, Size};
    use trijet::{Bytes, Result};

    #[test]
    fn after_a_run_the_pool_keeps_the_parts_below_its_threshold() -> Result<()> {
        let ground = Ground::on_model(Size::MODEL)?;
        let mut program = Pooled::boxed(&ground, |held, scratch| {
            let without = |parts| Bytes(held.0 - parts * scratch.0 / 4);
            vec![Bytes(0), without(3), without(2), held, Bytes(u64::MAX)]
        })?;
        // A part has 256 KiB, and the other memory of the program has 192 KiB.
        let kept = ["192 KiB", "448 KiB", "704 KiB", "1.19 MiB", "1.19 MiB"];
        for (form, kept) in kept.into_iter().enumerate() {
            program.prepare()?;
            program.run(form)?;
            assert_eq!(program.seen(form)?, Some(format!("the pool keeps {kept}")));
            assert_eq!(program.wrong(form)?, None);
        }
        Ok(())
    }
}
