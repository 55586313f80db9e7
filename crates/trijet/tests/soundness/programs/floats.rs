//! Steps on floats: collectives, and reductions of tasks. A NaN is smaller and larger than every
//! other number; of the two zeros, -0 is the smaller one. Sums are of small whole numbers, so their
//! order does not matter.

use super::luck::{Checked, caught, must};
use super::memory::compare_floats;
use super::step::{Collective, How};
use super::world::{FLOATS, World};
use trijet::Uses;
use trijet::comm::Communicator;
use trijet::kernels::{Max, Min, Reduction, Sum};
use trijet::testing::Prng;
use trijet::{Buffer, ErrorKind, Result, Stream, View, ViewMut};

/// A combination that panics.
#[derive(Debug, Clone, Copy)]
struct Panics;

impl Reduction<f32> for Panics {
    const IDENTITY: f32 = 0.0;

    fn combine(_: &Stream, _: View<'_, f32>, _: ViewMut<'_, f32>) -> Result<()> {
        panic!("drawn panic of a combination")
    }
}

/// Values of all kinds.
fn values(seed: u64, len: usize) -> Vec<f32> {
    const ALL: [f32; 12] = [
        f32::NAN,
        -f32::NAN,
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        3.0,
        -5.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
    ];
    let mut prng = Prng::new(seed);
    let calm = if super::switch::is_on("nan") { 0 } else { 4 };
    (0..len)
        .map(|_| ALL[usize::try_from(calm + prng.below(5 + 7 * u64::from(calm == 0))).unwrap_or(4)])
        .collect()
}

fn combined(how: How, a: f32, b: f32) -> f32 {
    match how {
        How::Sum => a + b,
        _ if a.is_nan() || b.is_nan() => f32::NAN,
        How::Min if a == b => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        How::Max if a == b => {
            if a.is_sign_negative() {
                b
            } else {
                a
            }
        }
        How::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
        How::Max | How::Panics => {
            if a > b {
                a
            } else {
                b
            }
        }
    }
}

fn column(how: How, cells: &[Vec<f32>], at: usize) -> f32 {
    cells[1..].iter().fold(cells[0][at], |sum, cells| combined(how, sum, cells[at]))
}

/// The floats of each device after a collective.
fn after(what: Collective, how: How, root: usize, cells: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let (count, part) = (cells.len(), FLOATS / cells.len());
    let all: Vec<f32> = (0..FLOATS).map(|at| column(how, cells, at)).collect();
    let each = |device: usize| -> Vec<f32> {
        let own = &cells[device];
        match what {
            Collective::AllReduce => all.clone(),
            Collective::Broadcast => cells[root].clone(),
            Collective::Reduce if device == root => all.clone(),
            Collective::Reduce => own.clone(),
            Collective::AllGather => (0..FLOATS).map(|at| cells[at / part][at % part]).collect(),
            Collective::ReduceScatter => {
                let scattered = all[device * part..][..part].iter().copied();
                scattered.chain(own[part..].iter().copied()).collect()
            }
            Collective::AllToAll => {
                (0..FLOATS).map(|at| cells[at / part][device * part + at % part]).collect()
            }
        }
    };
    (0..count).map(each).collect()
}

/// The memory of a collective: its floats, and copies of them as the source.
struct Memory<'a> {
    floats: Vec<ViewMut<'a, f32>>,
    sources: Vec<View<'a, f32>>,
}

fn call<R: Reduction<f32> + Copy>(
    communicator: &Communicator,
    (what, how): (Collective, R),
    root: usize,
    memory: Memory<'_>,
) -> Result<()> {
    let Memory { mut floats, sources } = memory;
    let part = FLOATS / sources.len();
    match what {
        Collective::AllReduce => communicator.all_reduce(&mut floats, how),
        Collective::Broadcast => communicator.broadcast(&mut floats, root),
        Collective::Reduce => {
            let into = floats.into_iter().nth(root);
            communicator.reduce(&sources, into, how, root)
        }
        Collective::AllGather => {
            let parts: Vec<_> = sources.iter().map(|source| source.slice(..part)).collect();
            communicator.all_gather(&parts, &mut floats)
        }
        Collective::ReduceScatter => {
            let mut parts: Vec<_> = floats.into_iter().map(|into| into.slice(..part)).collect();
            communicator.reduce_scatter(&sources, &mut parts, how)
        }
        Collective::AllToAll => communicator.all_to_all(&sources, &mut floats),
    }
}

fn call_any(
    communicator: &Communicator,
    (what, how): (Collective, How),
    root: usize,
    memory: Memory<'_>,
) -> Result<()> {
    match how {
        How::Sum => call(communicator, (what, Sum), root, memory),
        How::Min => call(communicator, (what, Min), root, memory),
        How::Max => call(communicator, (what, Max), root, memory),
        How::Panics => call(communicator, (what, Panics), root, memory),
    }
}

fn memory<'a>(floats: &'a mut [Buffer<f32>], sources: &'a [Buffer<f32>]) -> Memory<'a> {
    Memory {
        floats: floats.iter_mut().map(Buffer::view_mut).collect(),
        sources: sources.iter().map(Buffer::view).collect(),
    }
}

impl World {
    pub(super) fn set_floats(&mut self, device: usize, stream: u8, seed: u64) -> Checked {
        let device = self.device(device);
        if self.floats.is_empty() {
            return Ok(());
        }
        let s = self.stream(device, stream);
        let new = values(seed, FLOATS);
        let source = must(s.upload(&new))?;
        must(s.copy(&source, &mut self.floats[device]))?;
        self.float_cells[device] = new;
        Ok(())
    }

    pub(super) fn collective(
        &mut self,
        (what, how): (Collective, How),
        root: usize,
        is_recorded: bool,
        stream: u8,
    ) -> Checked {
        let (root, devices) = (self.device(root), self.devices.clone());
        let Some(communicator) = self.communicator.clone() else { return Ok(()) };
        let streams: Vec<_> =
            (0..devices.len()).map(|device| self.stream(device, stream)).collect();
        let mut sources = vec![];
        for (s, floats) in streams.iter().zip(&self.floats) {
            let mut source = must(s.alloc::<f32>(FLOATS))?;
            must(s.copy(floats, &mut source))?;
            sources.push(source);
        }
        let panics = how == How::Panics;
        let floats = &mut self.floats;
        let outcome = if is_recorded {
            caught(|| {
                let mut graph = devices[0].record(|g| {
                    for source in &sources {
                        g.argument(source)?;
                    }
                    for floats in floats.iter() {
                        g.argument(floats)?;
                    }
                    let recorded = communicator.recorded(g)?;
                    call_any(&recorded, (what, how), root, memory(floats, &sources))
                })?;
                let Memory { floats, sources } = memory(floats, &sources);
                let all = sources.into_iter().fold(Uses::new(), Uses::read);
                let all = floats.into_iter().fold(all, Uses::write);
                streams[0].launch_graph(&mut graph, all)
            })
        } else {
            caught(|| call_any(&communicator, (what, how), root, memory(floats, &sources)))
        };
        match outcome {
            Some(Ok(())) if !panics => {
                self.float_cells = after(what, how, root, &self.float_cells);
            }
            Some(Err(error)) if error.kind() != ErrorKind::Panicked => {
                return Err(format!("{what:?} {how:?}: {error}"));
            }
            Some(Err(_)) if !panics => return Err(format!("{what:?} {how:?} panics")),
            // One device, or a call that combines nothing, makes no panic. Otherwise any values may
            // be left.
            _ => {
                for device in 0..devices.len() {
                    self.set_floats(device, stream, 7)?;
                }
            }
        }
        Ok(())
    }

    /// Reductions of tasks into one datum, and the read of this datum.
    pub(super) fn float_tasks(&mut self, set: usize, how: How, seed: u64) -> Checked {
        let tasks = self.sets[set].tasks.clone();
        let s = self.stream(0, 0);
        let mut cells = values(seed, FLOATS);
        let total = tasks.data(must(s.upload(&cells))?);
        for part in 1..4_u64 {
            let new = values(seed.wrapping_add(part), FLOATS);
            let x = tasks.data(must(s.upload(&new))?);
            let copy =
                |s: &Stream, (x, mut y): (View<'_, f32>, ViewMut<'_, f32>)| s.copy(&x, &mut y);
            let id = match how {
                How::Sum => tasks.task((x.read(), total.reduce(Sum))).run(copy),
                How::Min => tasks.task((x.read(), total.reduce(Min))).run(copy),
                How::Max => tasks.task((x.read(), total.reduce(Max))).run(copy),
                How::Panics => tasks.task((x.read(), total.reduce(Panics))).run(copy),
            };
            must(id)?;
            cells.iter_mut().zip(new).for_each(|(y, x)| *y = combined(how, x, *y));
        }
        let taken = tasks.take(total);
        if how == How::Panics {
            self.sets[set].note_failure();
            return if taken.is_err() { Ok(()) } else { Err("a reduction that panics".to_owned()) };
        }
        let total = must(taken)?;
        let found = self.luck.insist(|| s.download(&total))?;
        compare_floats(&cells, &found).map_err(|why| format!("tasks that reduce by {how:?}: {why}"))
    }
}
