//! Steps that end a closure of a run by an error or a panic: pipelines, items through stages,
//! explorations, threads.

use super::luck::{Checked, caught, explode, finish, is_of_host_function};
use super::memory::{STIR, mix};
use super::step::{End, Place};
use super::world::World;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trijet::explore::{Strategy, explore};
use trijet::pipeline::{rows_from_fn, rows_to_fn};
use trijet::sim::HostConfig;
use trijet::staged::Staged;
use trijet::testing;
use trijet::{Bytes, Device, Pipeline, Result};

const ROWS: u64 = 40;
const SALT: u32 = 77;

/// Ends the closure of a place at its `at`-th call.
struct Fuse {
    place: Place,
    end: End,
    left: AtomicU64,
}

impl Fuse {
    fn pass(&self, place: Place) -> Result<()> {
        if self.place == place && self.left.fetch_sub(1, Relaxed) == 0 {
            return finish(self.end);
        }
        Ok(())
    }

    /// For closures that return nothing.
    fn pass_or_panic(&self, place: Place) {
        if self.place == place
            && self.left.fetch_sub(1, Relaxed) == 0
            && let End::Panic(kind) = self.end
        {
            explode(kind);
        }
    }
}

/// Runs a pipeline, whose results are right unless a closure ended it.
fn pipeline(device: &Device, fuse: &Fuse) -> Result<Checked> {
    let mut found = Vec::new();
    let source = rows_from_fn(ROWS, 4, |rows, into: &mut [u32]| {
        fuse.pass(Place::PipelineSource)?;
        for (row, into) in rows.zip(into.chunks_exact_mut(4)) {
            into.fill(u32::try_from(row).unwrap_or(0));
        }
        Ok(())
    });
    let sink = rows_to_fn(|_, rows: &[u32]| {
        fuse.pass(Place::PipelineSink)?;
        found.extend_from_slice(rows);
        Ok(())
    });
    Pipeline::on(device)
        .source(source)
        .stage::<u32, u32>(|s, x, mut y| {
            fuse.pass(Place::PipelineStage)?;
            s.copy(&x, &mut y)?;
            s.launch(&STIR, (SALT, y))
        })
        .on_progress(|_| fuse.pass_or_panic(Place::PipelineProgress))
        .sink(sink)
        .chunk(Bytes(128))
        .depth(2)
        .run()?;
    let expected = (0..ROWS).flat_map(|row| [mix(SALT, 0, u32::try_from(row).unwrap_or(0)); 4]);
    let is_right = found.iter().copied().eq(expected);
    Ok(if is_right { Ok(()) } else { Err(format!("a pipeline gives {found:?}")) })
}

fn staged(device: &Device, fuse: &Fuse) -> Result<Checked> {
    let mut found = Vec::new();
    let mut staged = Staged::on(device);
    let item = staged.item();
    let words = staged.host_stage("words", item, |_, item: &u32| {
        fuse.pass(Place::StagedHost)?;
        Ok(vec![*item; 8])
    });
    let x = staged.stage("upload", words, |s, words| {
        fuse.pass(Place::StagedStage)?;
        s.upload(words)
    });
    let y = staged.recycled(
        "stir",
        x,
        2,
        |s| s.alloc::<u32>(8),
        |s, x, y| {
            fuse.pass(Place::StagedRecycled)?;
            s.copy(x, y)?;
            s.launch(&STIR, (SALT, y))
        },
    );
    let output = staged.stage("download", y, |s, y| {
        let mut output = device.pinned::<u32>(8)?;
        s.copy(y, &mut output)?;
        Ok(output)
    });
    let items = (0..9_u32).map(|item| {
        fuse.pass(Place::StagedSource)?;
        Ok(item)
    });
    staged.run(items, output, |output| {
        fuse.pass(Place::StagedSink)?;
        found.push(output.read()?[7]);
        Ok(())
    })?;
    let is_right = found.iter().copied().eq((0..9).map(|item| mix(SALT, 0, item)));
    Ok(if is_right { Ok(()) } else { Err(format!("items through stages give {found:?}")) })
}

fn explored(fuse: &Fuse) -> Result<Checked> {
    let strategy = Strategy::Seeded { runs: 8, seed: fuse.left.load(Relaxed) };
    let found = explore(&HostConfig::default(), strategy, |devices| {
        let run = || {
            let (s, t) = (devices[0].stream()?, devices[0].stream()?);
            let mut x = s.upload(&[3_u32; 4])?;
            t.launch(&STIR, (SALT, &mut x))?;
            fuse.pass_or_panic(Place::Explore);
            s.download(&x)
        };
        run().map_err(|error| error.to_string())
    })?;
    let is_right =
        found.outcomes.len() == 1 && found.outcomes[0].value == Ok(vec![mix(SALT, 0, 3); 4]);
    Ok(if is_right { Ok(()) } else { Err("an exploration has other outcomes".to_owned()) })
}

fn script(device: &Device, fuse: &Fuse) -> Result<Checked> {
    let (s, t) = (device.stream()?, device.stream()?);
    testing::script(
        device,
        vec![
            Box::new(|| drop(s.synchronize())),
            Box::new(|| {
                drop(t.synchronize());
                fuse.pass_or_panic(Place::Script);
            }),
        ],
    );
    Ok(Ok(()))
}

impl World {
    /// Runs the call that has the closure, and runs it again without an end: nothing is left of the
    /// first run.
    pub(super) fn closure(&mut self, place: Place, at: u64, end: End) -> Checked {
        let device = self.devices[0].clone();
        if !super::switch::is_on("beside") {
            self.finish_all()?;
        }
        // A run waits for the device, which reports panics of host functions.
        for device in &self.devices {
            self.luck.insist(|| device.synchronize())?;
        }
        let run = |fuse: &Fuse| match place {
            Place::PipelineStage
            | Place::PipelineSource
            | Place::PipelineSink
            | Place::PipelineProgress => pipeline(&device, fuse),
            Place::Explore => explored(fuse),
            Place::Script => script(&device, fuse),
            _ => staged(&device, fuse),
        };
        let fuse = Fuse { place, end, left: AtomicU64::new(at) };
        match caught(|| run(&fuse)) {
            Some(Ok(outcome)) => outcome?,
            Some(Err(error)) if is_of_host_function(&error) && self.luck.may_report() => {}
            Some(Err(error)) if end == End::Well => return Err(format!("{place:?}: {error}")),
            Some(Err(_)) | None => {}
        }
        let calm = Fuse { place, end: End::Well, left: AtomicU64::new(at) };
        let again = || caught(|| run(&calm)).unwrap_or_else(|| finish(End::Error).map(Ok));
        self.luck.insist(again)?
    }
}
