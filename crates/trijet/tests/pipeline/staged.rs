//! Pipelines over items: every item goes through every stage once and in order, whatever the
//! stages, and an error or an early end of any part ends the run.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

use super::{Checked, simulated, threads};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trijet::check::CheckOptions;
use trijet::sim::Order;
use trijet::staged::{Issue, Staged, Value};
use trijet::testing::{self, MIX, Prng, WORK};
use trijet::trace::Engine;
use trijet::{Buffer, Cancel, Device, Error, ErrorKind, PinnedBuffer, Result, Stream};

/// The longest item. Recycled buffers have room for it.
const LEN_MAX: usize = 300;

/// The words of an item on the host or on the device.
enum Data {
    Host(PinnedBuffer<u64>),
    Device { buffer: Buffer<u64>, len: usize },
}

fn other_side() -> Error {
    Error::new(ErrorKind::InvalidValue, "test", "the data are on the other side")
}

impl Data {
    fn host(&self) -> Result<&PinnedBuffer<u64>> {
        if let Self::Host(buffer) = self { Ok(buffer) } else { Err(other_side()) }
    }

    fn device(&self) -> Result<(&Buffer<u64>, usize)> {
        match self {
            Self::Device { buffer, len } => Ok((buffer, *len)),
            Self::Host(_) => Err(other_side()),
        }
    }
}

/// A stage of a random pipeline. Numbers name earlier stages.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Computes words on the pool.
    Host {
        from: usize,
        salt: u64,
    },
    Upload {
        from: usize,
    },
    /// A new buffer with a hash of two.
    Mix {
        one: usize,
        other: usize,
        salt: u64,
        lanes: usize,
    },
    /// The same in recycled buffers.
    Recycled {
        one: usize,
        other: usize,
        salt: u64,
        slots: usize,
    },
    Download {
        from: usize,
    },
}

#[derive(Debug)]
struct Program {
    kinds: Vec<Kind>,
    items: u64,
    depth: usize,
    issue: Issue,
}

/// A part of the run that fails or ends early at an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Source(u64),
    Stage(usize, u64),
    Sink(u64),
    Break(u64),
}

fn item(number: u64) -> Vec<u64> {
    let mut draw = Prng::new(number);
    let len = 1 + usize::try_from(draw.next_u64() % (LEN_MAX as u64 - 1)).unwrap();
    (0..len).map(|_| draw.next_u64()).collect()
}

impl Program {
    fn random(seed: u64) -> (Self, Trouble) {
        let mut draw = Prng::new(seed);
        let mut below = |count: usize| usize::try_from(draw.next_u64() % count as u64).unwrap();
        // Stage 0 makes host data of the item.
        let (mut kinds, mut host, mut device) = (Vec::new(), vec![0], Vec::new());
        for stage in 1..=2 + below(7) {
            let salt = below(1000) as u64;
            let kind = match below(6) {
                _ if device.is_empty() => Kind::Upload { from: host[below(host.len())] },
                0 => Kind::Upload { from: host[below(host.len())] },
                1 => Kind::Download { from: device[below(device.len())] },
                2 => Kind::Host { from: host[below(host.len())], salt },
                3 => {
                    let (one, other) = (device[below(device.len())], device[below(device.len())]);
                    Kind::Recycled { one, other, salt, slots: 1 + below(3) }
                }
                _ => {
                    let (one, other) = (device[below(device.len())], device[below(device.len())]);
                    Kind::Mix { one, other, salt, lanes: 1 + below(3) }
                }
            };
            match kind {
                Kind::Host { .. } | Kind::Download { .. } => host.push(stage),
                Kind::Upload { .. } | Kind::Mix { .. } | Kind::Recycled { .. } => {
                    device.push(stage)
                }
            }
            kinds.push(kind);
        }
        let last = *device.last().unwrap();
        kinds.push(Kind::Download { from: last });
        let items = below(7) as u64;
        let issue = if below(2) == 0 { Issue::DepthFirst } else { Issue::BreadthFirst };
        let at = below(7) as u64;
        let trouble = match below(9) {
            0 => Trouble::Source(at),
            1 => Trouble::Stage(below(1 + kinds.len()), at),
            2 => Trouble::Sink(at),
            3 => Trouble::Break(at),
            _ => Trouble::None,
        };
        (Self { kinds, items, depth: 1 + below(5), issue }, trouble)
    }

    /// Runs the program. Returns the items of the sink, and the end of the run.
    fn run(
        &self,
        device: &Device,
        trouble: Trouble,
        cancel: &Cancel,
    ) -> (Vec<Vec<u64>>, Result<u64>) {
        let failed = || Error::new(ErrorKind::Io, "test", "trouble");
        let fails = move |stage: usize, item: u64| match trouble == Trouble::Stage(stage, item) {
            true => Err(failed()),
            false => Ok(()),
        };
        let mut staged = Staged::<Vec<u64>>::on(device);
        let source = staged.item();
        let mut values: Vec<Value<Data>> = Vec::new();
        values.push(staged.host_stage("prepare", source, move |item, words: &Vec<u64>| {
            fails(0, item)?;
            locked(device, words)
        }));
        for (number, kind) in (1..).zip(&self.kinds) {
            let value =
                append(&mut staged, *kind, &values, device, move |item| fails(number, item));
            values.push(value);
        }
        let got = Mutex::new(Vec::new());
        let items = (0..self.items).map(|n| match trouble == Trouble::Source(n) {
            true => Err(failed()),
            false => Ok(item(n)),
        });
        let next = AtomicU64::new(0);
        let ended = staged.depth(self.depth).issue(self.issue).cancel_with(cancel).run_until(
            items,
            values[values.len() - 1],
            |data: &Data| {
                let n = next.fetch_add(1, Relaxed);
                if trouble == Trouble::Sink(n) {
                    return Err(failed());
                }
                got.lock().unwrap().push(data.host()?.read()?.to_vec());
                Ok(if trouble == Trouble::Break(n) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            },
        );
        (got.into_inner().unwrap(), ended)
    }

    /// Each item alone, on one stream, with a wait for the device after each stage.
    fn serial(&self) -> Vec<Vec<u64>> {
        let device = threads();
        let s = device.stream().unwrap();
        let one = |number: u64| -> Result<Vec<u64>> {
            let mut all = vec![locked(&device, &item(number))?];
            for kind in &self.kinds {
                let data = match *kind {
                    Kind::Host { from, salt } => {
                        let words: Vec<u64> = all[from]
                            .host()?
                            .read()?
                            .iter()
                            .map(|word| word.wrapping_mul(salt | 1))
                            .collect();
                        locked(&device, &words)?
                    }
                    Kind::Upload { from } => upload(&s, &all[from])?,
                    Kind::Download { from } => download(&device, &s, &all[from])?,
                    Kind::Mix { one, other, salt, .. }
                    | Kind::Recycled { one, other, salt, .. } => {
                        let len = all[one].device()?.1;
                        let mut buffer = s.alloc::<u64>(len)?;
                        mix(&s, &all[one], &all[other], salt, &mut buffer)?;
                        Data::Device { buffer, len }
                    }
                };
                s.synchronize()?;
                all.push(data);
            }
            Ok(all[all.len() - 1].host()?.read()?.to_vec())
        };
        (0..self.items).map(|number| one(number).unwrap()).collect()
    }
}

/// Appends a stage of a random program. `fails` gives the trouble of an item.
fn append<'a>(
    staged: &mut Staged<'a, Vec<u64>>,
    kind: Kind,
    values: &[Value<Data>],
    device: &'a Device,
    fails: impl Fn(u64) -> Result<()> + Send + Sync + 'a,
) -> Value<Data> {
    match kind {
        Kind::Host { from, salt } => {
            staged.host_stage("host", values[from], move |item, data: &Data| {
                fails(item)?;
                let words: Vec<u64> =
                    data.host()?.read()?.iter().map(|word| word.wrapping_mul(salt | 1)).collect();
                locked(device, &words)
            })
        }
        Kind::Upload { from } => staged.stage("upload", values[from], move |s, data: &Data| {
            fails(s.item())?;
            upload(s, data)
        }),
        Kind::Download { from } => staged.stage("download", values[from], move |s, data: &Data| {
            fails(s.item())?;
            download(device, s, data)
        }),
        Kind::Mix { one, other, salt, lanes } => {
            let inputs = (values[one], values[other]);
            let value = staged.stage("mix", inputs, move |s, (x, y): (&Data, &Data)| {
                fails(s.item())?;
                let len = x.device()?.1;
                let mut buffer = s.alloc::<u64>(len)?;
                mix(s, x, y, salt, &mut buffer)?;
                Ok(Data::Device { buffer, len })
            });
            staged.lanes(value, lanes);
            value
        }
        Kind::Recycled { one, other, salt, slots } => {
            let inputs = (values[one], values[other]);
            let make = |s: &Stream| Ok(Data::Device { buffer: s.alloc::<u64>(LEN_MAX)?, len: 0 });
            staged.recycled(
                "recycled",
                inputs,
                slots,
                make,
                move |s, (x, y): (&Data, &Data), z: &mut Data| {
                    fails(s.item())?;
                    let Data::Device { buffer, len } = z else { return Err(other_side()) };
                    *len = x.device()?.1;
                    mix(s, x, y, salt, buffer)
                },
            )
        }
    }
}

fn locked(device: &Device, words: &[u64]) -> Result<Data> {
    let mut buffer = device.pinned::<u64>(words.len())?;
    buffer.write()?.copy_from_slice(words);
    Ok(Data::Host(buffer))
}

fn upload(s: &Stream, data: &Data) -> Result<Data> {
    let from = data.host()?;
    let mut buffer = s.alloc::<u64>(from.len())?;
    s.copy(from, &mut buffer)?;
    Ok(Data::Device { len: from.len(), buffer })
}

fn download(device: &Device, s: &Stream, data: &Data) -> Result<Data> {
    let (from, len) = data.device()?;
    let mut buffer = device.pinned::<u64>(len)?;
    s.copy(&from.slice(..len), &mut buffer)?;
    Ok(Data::Host(buffer))
}

fn mix(s: &Stream, x: &Data, y: &Data, salt: u64, into: &mut Buffer<u64>) -> Result<()> {
    let ((x, len), (y, _)) = (x.device()?, y.device()?);
    s.copy(&x.slice(..len), &mut into.slice_mut(..len))?;
    s.launch(&MIX, (salt, y.slice(..len), into.slice_mut(..len)))
}

/// Runs random programs. `cargo xtask staged` runs many.
fn random_programs(seeds: std::ops::Range<u64>, device: impl Fn(u64) -> Checked) {
    for seed in seeds {
        let (program, trouble) = Program::random(seed);
        let device = device(seed);
        let (got, ended) = program.run(&device, trouble, &Cancel::new());
        let right = program.serial();
        let case = format!("seed {seed}: {program:?}, {trouble:?}");
        assert!(got.len() <= right.len() && got[..] == right[..got.len()], "{case}: wrong results");
        let failed = |named: &str, end: Result<u64>| {
            let error = end.expect_err(&case);
            assert_eq!(error.kind(), ErrorKind::Io, "{case}: {error}");
            assert!(error.to_string().contains(named), "{case}: {error}");
        };
        match trouble {
            Trouble::Source(at) if at < program.items => {
                failed(&format!("the source, at item {at}"), ended);
                assert!(got.len() as u64 <= at, "{case}");
            }
            Trouble::Stage(_, at) if at < program.items => {
                failed(&format!("item {at}, stage `"), ended)
            }
            Trouble::Sink(at) if at < program.items => {
                failed(&format!("item {at}, sink"), ended);
                assert_eq!(got.len() as u64, at, "{case}");
            }
            Trouble::Break(at) if at < program.items => {
                assert_eq!((ended.expect(&case), got.len() as u64), (at + 1, at + 1), "{case}");
            }
            _ => assert_eq!(
                (ended.expect(&case), got.len() as u64),
                (program.items, program.items),
                "{case}"
            ),
        }
        device.synchronize().expect(&case);
        assert_eq!(device.memory_stats().expect(&case).used.0, 0, "{case}: memory is left");
    }
}

/// Each wait of a random program holds a conflict, which the checker finds without the wait.
#[test]
fn random_programs_without_one_of_their_waits_are_flagged() {
    let (mut flagged, programs) = (0, count(150));
    for seed in 2_000_000..2_000_000 + programs {
        let device = watched(Order::Seeded(seed));
        let (program, _) = Program::random(seed);
        let number = 1 + seed % 30;
        testing::drop_wait(&device, number);
        let (_, ended) = program.run(&device, Trouble::None, &Cancel::new());
        ended.unwrap();
        let verdict = device.verdict().unwrap();
        match testing::dropped_wait(&device) {
            None => assert_eq!(verdict.findings, [], "seed {seed}: {program:?}: {verdict}"),
            Some(wait) => {
                assert!(!verdict.findings.is_empty(), "seed {seed}: {program:?} without {wait:?}");
                flagged += 1;
            }
        }
    }
    assert!(flagged * 4 > programs, "only {flagged} programs have so many waits");
}

/// A simulated device under the checker. The test wants the findings.
fn watched(order: Order) -> Device {
    let config = super::virtual_host(order);
    Device::builder().host(config).check(CheckOptions::default()).open().unwrap()
}

/// `TRIJET_STAGED=N` runs N programs.
fn count(usual: u64) -> u64 {
    std::env::var("TRIJET_STAGED").map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn random_programs_on_threads_equal_a_serial_run() {
    random_programs(0..count(150), |_| threads());
}

#[test]
fn random_programs_in_any_order_of_the_device_equal_a_serial_run() {
    random_programs(1_000_000..1_000_000 + count(150), |seed| simulated(Order::Seeded(seed)));
}

/// A slot is free as soon as its last user is enqueued. If the next item took this slot again, it
/// would wait for that user, and the other slots would bring no overlap.
#[test]
fn all_slots_of_a_stage_are_used_in_turn() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (made, used) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let mut staged = Staged::<u64>::on(&device);
    let item = staged.item();
    let make = |_: &Stream| Ok(made.fetch_add(1, Relaxed));
    let slot = staged.recycled("fill", item, 3, make, |_, _: &u64, slot: &mut u64| {
        used.lock().unwrap().push(*slot);
        Ok(())
    });
    let result = staged.stage("use", slot, |_, slot: &u64| Ok(*slot));
    staged.run((0..8).map(Ok), result, |_: &u64| Ok(()))?;
    assert_eq!(*used.lock().unwrap(), [0, 1, 2, 0, 1, 2, 0, 1]);
    Ok(())
}

/// A run that is the same each time: nothing is on the pool or on other lanes.
fn two_slots(device: &Device) -> Result<Vec<u64>> {
    let mut staged = Staged::<u64>::on(device);
    let source = staged.item();
    let x = staged.recycled(
        "fill",
        source,
        1,
        |s| s.alloc::<u64>(64),
        |s, item: &u64, x: &mut Buffer<u64>| s.fill_bytes(x, u8::try_from(*item).unwrap()),
    );
    let y = staged.recycled(
        "mix",
        x,
        1,
        |s| s.alloc::<u64>(64),
        |s, x: &Buffer<u64>, y: &mut Buffer<u64>| {
            s.copy(x, &mut *y)?;
            s.launch(&MIX, (1, x, y))
        },
    );
    let result = staged.stage("download", y, |s, y: &Buffer<u64>| {
        let mut result = device.pinned::<u64>(64)?;
        s.copy(y, &mut result)?;
        Ok(result)
    });
    let mut got = Vec::new();
    staged.run((0..5).map(Ok), result, |words: &PinnedBuffer<u64>| {
        got.push(words.read()?[63]);
        Ok(())
    })?;
    Ok(got)
}

/// Forward edges and back edges alike: each wait holds a conflict.
#[test]
fn a_run_without_one_of_its_waits_is_flagged() {
    let device = watched(Order::Greedy);
    let right = two_slots(&device).unwrap();
    assert_eq!(device.verdict().unwrap().findings, []);
    assert_eq!(right.len(), 5);
    let mut dropped = 0;
    for number in 1..100 {
        let device = watched(Order::Greedy);
        testing::drop_wait(&device, number);
        two_slots(&device).unwrap();
        let Some(wait) = testing::dropped_wait(&device) else { break };
        let verdict = device.verdict().unwrap();
        assert!(!verdict.findings.is_empty(), "without {wait:?}: {verdict}");
        dropped += 1;
    }
    // For each item the upload waits for the mix of the item before, and so on.
    assert!(dropped >= 12, "only {dropped} waits");
}

#[test]
fn any_number_of_items_comes_out_once_and_in_order() {
    for items in 0..12 {
        for depth in 1..6 {
            let device = threads();
            let mut staged = Staged::<u64>::on(&device);
            let source = staged.item();
            let twice = staged.host_stage("twice", source, |_, n: &u64| Ok(2 * n));
            let sum = staged
                .host_stage("sum", (source, twice), |_, (n, twice): (&u64, &u64)| Ok(n + twice));
            let mut got = Vec::new();
            let ended = staged.depth(depth).run((0..items).map(Ok), sum, |n| {
                got.push(*n);
                Ok(())
            });
            assert_eq!(ended.unwrap(), items);
            assert_eq!(got, (0..items).map(|n| 3 * n).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_source_is_read_a_bounded_number_of_items_ahead() {
    let device = threads();
    let (read, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut staged = Staged::<u64>::on(&device);
    let source = staged.item();
    let same = staged.stage("same", source, |_, n: &u64| Ok(*n));
    let items = (0..50).map(|n| {
        let ahead = read.fetch_add(1, Relaxed) + 1 - taken.load(Relaxed);
        assert!(ahead <= 3 + 3 + 1, "{ahead} items are read and not taken");
        Ok(n)
    });
    let ended = staged.depth(3).run(items, same, |_| {
        taken.fetch_add(1, Relaxed);
        Ok(())
    });
    assert_eq!(ended.unwrap(), 50);
}

#[test]
fn a_cancelled_run_finishes_the_items_in_flight() {
    let device = threads();
    let cancel = Cancel::new();
    let mut staged = Staged::<u64>::on(&device);
    let source = staged.item();
    let same = staged.stage("same", source, |_, n: &u64| Ok(*n));
    let mut got = Vec::new();
    let ended = staged.depth(2).cancel_with(&cancel).run((0..).map(Ok), same, |n| {
        got.push(*n);
        if *n == 5 {
            cancel.cancel();
        }
        Ok(())
    });
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains(&format!("cancelled before item {}", got.len())), "{error}");
    assert!(got.len() >= 6 && got == (0..got.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_panic_of_any_function_on_another_thread_is_an_error() {
    for (place, named) in [
        (0, "the source, at item 2 panicked"),
        (1, "stage `compute` panicked"),
        (2, "sink panicked"),
    ] {
        let device = threads();
        let mut staged = Staged::<u64>::on(&device);
        let source = staged.item();
        let computed = staged.host_stage("compute", source, move |_, n: &u64| {
            assert!(place != 1 || *n < 2, "on purpose");
            Ok(*n)
        });
        let items = (0..9).map(|n| {
            assert!(place != 0 || n < 2, "on purpose");
            Ok(n)
        });
        let ended = staged.run(items, computed, |n| {
            assert!(place != 2 || *n < 2, "on purpose");
            Ok(())
        });
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panicked, "{error}");
        assert!(
            error.to_string().contains(named) && error.to_string().contains("on purpose"),
            "{error}"
        );
    }
}

#[test]
fn a_description_that_cannot_run_is_refused_with_the_stage() {
    let device = threads();
    let refused = |staged: Staged<'_, u64>, result: Value<u64>, words: &str| {
        let error = staged.run((0..1).map(Ok), result, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains(words), "{error}");
    };
    let mut other = Staged::<u64>::on(&device);
    let foreign =
        (0..3).fold(other.item(), |value, _| other.host_stage("other", value, |_, n: &u64| Ok(*n)));
    let mut staged = Staged::on(&device);
    let value = staged.host_stage("compute", foreign, |_, n: &u64| Ok(*n));
    refused(staged, value, "`compute` takes a value of another pipeline");
    refused(Staged::on(&device), foreign, "the result is a value of another pipeline");
    let staged = Staged::on(&device);
    let item = staged.item();
    refused(staged.depth(0), item, "the depth is 0");
    let mut staged = Staged::on(&device);
    let value = staged.recycled("fill", staged.item(), 0, |_| Ok(0), |_, _: &u64, _| Ok(()));
    refused(staged, value, "`fill` has 0 slots");
    let mut staged = Staged::on(&device);
    let value = staged.stage("same", staged.item(), |_, n: &u64| Ok(*n));
    staged.lanes(value, 0);
    refused(staged, value, "`lanes` needs");
}

/// Every item is enqueued before the host waits for the first one.
#[test]
fn the_stages_of_neighbouring_items_overlap() {
    let device = simulated(Order::Greedy);
    let (items, words) = (6, 1 << 18);
    let (enqueued, all) = std::sync::mpsc::channel();
    let mut staged = Staged::<u64>::on(&device);
    let source = staged.item();
    let x = staged.stage("upload", source, |s, _: &u64| {
        let input = device.pinned::<u32>(words)?;
        let mut x = s.alloc::<u32>(words)?;
        s.copy(&input, &mut x)?;
        Ok((input, x))
    });
    let y = staged.stage("work", x, |s, (_, x): &(PinnedBuffer<u32>, Buffer<u32>)| {
        let mut y = s.alloc::<u32>(words)?;
        s.launch(&WORK, (4, x, &mut y))?;
        Ok(y)
    });
    let result = staged.stage("download", y, |s, y: &Buffer<u32>| {
        let mut result = device.pinned::<u32>(words)?;
        s.copy(y, &mut result)?;
        enqueued.send(s.item()).unwrap();
        Ok(result)
    });
    device.start_trace(&device.stream().unwrap()).unwrap();
    let mut last = None;
    let sink = move |result: &PinnedBuffer<u32>| {
        while last.is_none_or(|item| item + 1 < items) {
            last = Some(all.recv().unwrap());
        }
        result.read().map(drop)
    };
    let ended = staged.depth(6).run((0..items).map(Ok), result, sink);
    assert_eq!(ended.unwrap(), items);
    device.synchronize().unwrap();
    let ops = device.take_trace().unwrap().ops;
    let busy = |engine| ops.iter().filter(move |op| op.engine == engine).filter_map(|op| op.times);
    for (one, other) in [(Engine::Upload, Engine::Compute), (Engine::Compute, Engine::Download)] {
        let pairs = busy(one).flat_map(|a| busy(other).map(move |b| (a, b)));
        let at_once = pairs.filter(|(a, b)| a.begin < b.end && b.begin < a.end).count();
        assert!(at_once >= 4, "{one:?} and {other:?} overlap {at_once} times");
    }
}

/// The other threads end, and the run returns the words of the panic.
#[test]
fn a_panic_of_a_stage_on_the_calling_thread_is_an_error() {
    let device = threads();
    let mut staged = Staged::<u64>::on(&device);
    let source = staged.item();
    let same = staged.stage("same", source, |_, n: &u64| {
        assert!(*n < 3, "on purpose");
        Ok(*n)
    });
    let doubled = staged.host_stage("double", same, |_, n: &u64| Ok(2 * n));
    let error = staged.run((0..).map(Ok), doubled, |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panicked, "{error}");
    let text = error.to_string();
    assert!(text.contains("item 3, stage `same`") && text.contains("on purpose"), "{text}");
}
