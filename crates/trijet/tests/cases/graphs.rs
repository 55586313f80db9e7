//! Graphs: recorded once, launched many times, ordered with all other work.

use super::words;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use trijet::graph::{Graph, Recording};
use trijet::kernels::{AXPY, FILL_U32};
use trijet::testing::WORK;
use trijet::{Buffer, Device, ErrorKind, PinnedBuffer, Result, Stream, Uses};

const LEN: usize = 3000;

fn numbers(seed: u64) -> Vec<u32> {
    words(seed, LEN).iter().map(|word| (word % 1_000_000) as u32).collect()
}

/// Uploads `h`, hashes both halves in two streams, and downloads the result to `back`.
fn two_halves(
    device: &Device,
    (h, back): (&PinnedBuffer<u32>, &mut PinnedBuffer<u32>),
    (x, y): (&mut Buffer<u32>, &mut Buffer<u32>),
) -> Result<Graph> {
    device.record(|g| {
        g.argument(h)?;
        g.argument(back)?;
        g.argument(x)?;
        g.argument(y)?;
        let (a, b) = (g.stream()?, g.stream()?);
        a.copy(h, x)?;
        let (first, second) = (0..LEN / 2, LEN / 2..LEN);
        a.launch(&WORK, (1_u32, x.slice(first.clone()), y.slice_mut(first)))?;
        b.launch(&WORK, (2_u32, x.slice(second.clone()), y.slice_mut(second)))?;
        a.copy(y, back)
    })
}

/// The expected result, by the same kernels without a graph.
fn wanted(device: &Device, x: &[u32]) -> Result<Vec<u32>> {
    let s = device.stream()?;
    let (x, mut y) = (s.upload(x)?, s.alloc::<u32>(LEN)?);
    s.launch(&WORK, (1_u32, x.slice(..LEN / 2), y.slice_mut(..LEN / 2)))?;
    s.launch(&WORK, (2_u32, x.slice(LEN / 2..), y.slice_mut(LEN / 2..)))?;
    s.download(&y)
}

pub(crate) fn each_launch_of_a_graph_computes_what_its_operations_do(
    device: &Device,
) -> Result<()> {
    let s = device.stream()?;
    let (mut h, mut back) = (device.pinned::<u32>(LEN)?, device.pinned::<u32>(LEN)?);
    let (mut x, mut y) = (s.alloc::<u32>(LEN)?, s.alloc::<u32>(LEN)?);
    let mut graph = two_halves(device, (&h, &mut back), (&mut x, &mut y))?;
    assert_eq!(graph.len(), 4);
    for seed in 0..4 {
        h.write()?.copy_from_slice(&numbers(seed));
        back.write()?.fill(0);
        let arguments = Uses::new().read(h.view()).write(back.view_mut());
        // On a new stream each time: the previous launch may still run.
        let arguments = arguments.write(x.view_mut()).write(y.view_mut());
        device.stream()?.launch_graph(&mut graph, arguments)?;
        assert_eq!(*back.read()?, *wanted(device, &numbers(seed))?, "launch {seed}");
    }
    Ok(())
}

pub(crate) fn a_launch_takes_other_memory_of_the_same_size(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let (h, mut back) = (device.pinned::<u32>(LEN)?, device.pinned::<u32>(LEN)?);
    let (mut x, mut y) = (s.alloc::<u32>(LEN)?, s.alloc::<u32>(LEN)?);
    let mut graph = two_halves(device, (&h, &mut back), (&mut x, &mut y))?;
    // The memory that was recorded may be freed before the next launch.
    drop((h, back, x));
    let mut landed = Vec::new();
    for seed in 10..14 {
        let (mut h, mut back) = (device.pinned::<u32>(LEN)?, device.pinned::<u32>(2 * LEN)?);
        h.write()?.copy_from_slice(&numbers(seed));
        let mut x = s.alloc::<u32>(LEN)?;
        let arguments = Uses::new().read(h.view()).write(back.slice_mut(LEN..));
        let arguments = arguments.write(x.view_mut()).write(y.view_mut());
        s.launch_graph(&mut graph, arguments)?;
        // `x` is freed after the launch.
        landed.push((seed, h, back));
    }
    drop((graph, y));
    for (seed, _h, back) in landed {
        assert_eq!(back.read()?[LEN..], wanted(device, &numbers(seed))?, "seed {seed}");
    }
    device.synchronize()
}

pub(crate) fn a_launch_is_ordered_with_all_uses_of_its_memory(device: &Device) -> Result<()> {
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let (mut x, mut y) = (a.alloc::<f32>(LEN)?, a.alloc::<f32>(LEN)?);
    let mut add = device.record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        let s = g.stream()?;
        s.launch(&AXPY, (1.0_f32, &x, &mut y))
    })?;
    let mut wanted = 0.0;
    a.fill_bytes(&mut y, 0)?;
    for step in 0..20_u8 {
        // Consecutive operations are on different streams. Only their memory orders them.
        a.copy(&b.upload(&vec![f32::from(step); LEN])?, &mut x)?;
        let s = if step % 2 == 0 { &b } else { &c };
        s.launch_graph(&mut add, Uses::new().read(x.view()).write(y.view_mut()))?;
        a.launch(&AXPY, (2.0_f32, &x, &mut y))?;
        wanted += 3.0 * f32::from(step);
    }
    assert!(c.download(&y)?.iter().all(|value| *value == wanted));
    Ok(())
}

/// Law A31: a launch of a graph follows the launch before it, even if their memory differs.
pub(crate) fn launches_of_one_graph_follow_each_other(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let mut buffers = (0..6).map(|_| a.alloc::<u32>(LEN)).collect::<Result<Vec<_>>>()?;
    let mut fill = device.record(|g| {
        g.argument(&buffers[0])?;
        let s = g.stream()?;
        s.launch(&FILL_U32, (7, &mut buffers[0]))
    })?;
    for (turn, buffer) in buffers.iter_mut().enumerate() {
        let s = if turn % 2 == 0 { &a } else { &b };
        s.launch_graph(&mut fill, Uses::new().write(buffer.view_mut()))?;
    }
    for buffer in &buffers {
        assert_eq!(a.download(buffer)?, vec![7; LEN]);
    }
    Ok(())
}

pub(crate) fn a_graph_is_changed_in_place_or_stays_as_it_was(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let (x, mut y) = (s.upload(&[1.0_f32; LEN])?, s.alloc_zeroed::<f32>(LEN)?);
    let other = s.upload(&[5.0_f32; LEN])?;
    type Step = fn(&Stream, &Stream, &Buffer<f32>, &mut Buffer<f32>) -> Result<()>;
    let mut record = |graph: Option<&mut Graph>, step: Step| -> Result<Option<Graph>> {
        let work = |g: &Recording| {
            g.argument(&x)?;
            g.argument(&y)?;
            step(&g.stream()?, &g.stream()?, &x, &mut y)
        };
        match graph {
            None => device.record(work).map(Some),
            Some(graph) => device.record_again(graph, work).map(|()| None),
        }
    };
    let first: Step = |a, _, x, y| {
        a.fill_bytes(y, 0)?;
        a.launch(&AXPY, (2.0, x, y))
    };
    let mut graph = record(None, first)?.expect("a new graph");
    let refused: [(Step, &str); 5] = [
        (|a, _, _, y| a.fill_bytes(y, 0), "had 2 operations, and has 1"),
        (
            |a, _, x, y| {
                a.fill_bytes(y, 0)?;
                a.copy(x, y)
            },
            "operation 1: it is `copy`, and was `axpy_f32`",
        ),
        (
            |a, _, x, y| {
                a.fill_bytes(&mut y.slice_mut(1..), 0)?;
                a.launch(&AXPY, (2.0, x, y))
            },
            "operation 0: it uses other bytes",
        ),
        (
            |a, b, x, y| {
                a.fill_bytes(&mut y.slice_mut(..1), 0)?;
                b.launch(&AXPY, (2.0, x.slice(1..), y.slice_mut(1..)))
            },
            "operation 0: it uses other bytes",
        ),
        (
            |a, _, x, y| {
                a.launch(&AXPY, (2.0, x, &mut *y))?;
                a.launch(&AXPY, (2.0, x, y))
            },
            "operation 0: it is `axpy_f32`, and was `fill`",
        ),
    ];
    for (step, why) in refused {
        let error = record(Some(&mut graph), step).expect_err("another graph");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains(why), "{error}, not {why}");
    }
    let sum = |graph: &mut Graph, x: &Buffer<f32>, y: &mut Buffer<f32>| {
        s.launch_graph(graph, Uses::new().read(x.view()).write(y.view_mut()))?;
        s.download(y)
    };
    let mut z = s.alloc_zeroed::<f32>(LEN)?;
    assert_eq!(sum(&mut graph, &other, &mut z)?, [10.0; LEN], "it is as it was");
    // The values of the fill and of the kernel change while the graph uses memory that it was not
    // recorded with.
    let second: Step = |a, _, x, y| {
        a.fill_bytes(y, 0x40)?;
        a.launch(&AXPY, (3.0, x, y))
    };
    record(Some(&mut graph), second)?;
    let filled = f32::from_bits(0x4040_4040);
    assert_eq!(sum(&mut graph, &other, &mut z)?, [filled + 15.0; LEN]);
    Ok(())
}

/// Sends a message when it is dropped.
struct Tells(Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        // If the test has failed, the message has no receiver.
        let _ended = self.0.send(());
    }
}

/// Law A27 for each launch. The closure belongs to the graph and is dropped only once.
pub(crate) fn a_host_function_of_a_graph_runs_in_each_launch(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let mut x = s.alloc_zeroed::<u32>(LEN)?;
    let (seen, (sender, dropped)) = (Arc::new(Mutex::new(Vec::new())), channel());
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        let (a, b) = (g.stream()?, g.stream()?);
        for turn in 0..3 {
            let (seen, tells) = (Arc::clone(&seen), Tells(sender.clone()));
            g.host_fn(&a, move || {
                let _owned = &tells;
                seen.lock().expect("no panic here").push(turn);
            })?;
            a.launch(&FILL_U32, (turn, &mut x))?;
        }
        let error = a.host_fn(|| ()).expect_err("it runs once");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let error = g.host_fn(&s, || ()).expect_err("a stream of no recording");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        b.fill_bytes(&mut x.slice_mut(..1), 0)
    })?;
    for launch in 1..=4 {
        s.launch_graph(&mut graph, Uses::new().write(x.view_mut()))?;
        assert_eq!(s.download(&x)?[1..], [2; LEN - 1]);
        assert_eq!(*seen.lock().expect("no panic there"), [0, 1, 2].repeat(launch));
    }
    s.launch_graph(&mut graph, Uses::new().write(x.view_mut()))?;
    // The last launch of the graph may be pending.
    drop((graph, sender));
    s.synchronize()?;
    assert_eq!(seen.lock().expect("no panic there").len(), 15);
    for _ in 0..3 {
        dropped.recv().expect("the graph is gone");
    }
    assert!(dropped.recv().is_err(), "each was dropped once");
    let mut panics = device.record(|g| g.host_fn(&g.stream()?, || panic!("on purpose")))?;
    for _ in 0..2 {
        s.launch_graph(&mut panics, Uses::new())?;
        let error = s.synchronize().expect_err("the function panicked");
        assert_eq!(error.kind(), ErrorKind::Panicked);
        assert!(error.to_string().contains("on purpose"), "{error}");
    }
    Ok(())
}

pub(crate) fn what_a_graph_cannot_have_is_refused(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let (x, mut y) = (s.upload(&numbers(1))?, s.alloc_zeroed::<u32>(LEN)?);
    let (mut kept, outside) = (None, device.event()?);
    outside.record(&s)?;
    let outcome = device.record(|g| {
        g.argument(&x)?;
        let a = g.stream()?;
        let error = a.launch(&WORK, (0_u32, &x, &mut y)).expect_err("y is no argument");
        assert!(error.to_string().contains("no argument of the graph"), "{error}");
        let error = g.argument(&x.slice(5..6)).expect_err("it shares bytes with x");
        assert!(error.to_string().contains("argument 1 shares bytes with argument 0"), "{error}");
        let error = a.host_fn(|| ()).expect_err("it runs once");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let barred = [
            a.synchronize().expect_err("nothing is enqueued"),
            device.event()?.record(&a).expect_err("no event stands for a recording"),
            a.wait(&outside).expect_err("the event stands for work outside"),
            a.query().expect_err("nothing is enqueued"),
            a.upload(&[5_u32]).map(drop).expect_err("its source is read at the launch"),
            a.download(&x).map(drop).expect_err("nothing is enqueued"),
        ];
        for error in barred {
            assert_eq!((error.kind(), error.code()), (ErrorKind::Capturing, Some(900)), "{error}");
        }
        kept = Some(a);
        Ok(())
    });
    let mut nothing = outcome?;
    assert!(nothing.is_empty());
    s.launch_graph(&mut nothing, Uses::new().read(x.view()))?;
    let late = kept.expect("the stream").launch(&WORK, (0_u32, &x, &mut y));
    let error = late.expect_err("the recording has ended");
    assert!(error.to_string().contains("has ended"), "{error}");
    // An error of the caller leaves nothing behind.
    let failed = device.record(|g| g.argument(&x).and(s.copy(&x.slice(..1), &mut y)));
    let error = failed.expect_err("a copy between different lengths");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert_eq!(s.download(&y)?, vec![0; LEN]);
    Ok(())
}

pub(crate) fn arguments_that_do_not_fit_are_refused_by_number(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let (mut x, mut y) = (s.upload(&numbers(1))?, s.alloc_zeroed::<u32>(LEN)?);
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        let a = g.stream()?;
        a.launch(&WORK, (0_u32, &x, &mut y))
    })?;
    let mut refused = |arguments: Uses<'_>, why: &str| {
        let error = s.launch_graph(&mut graph, arguments).expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(Uses::new().read(x.view()), "the graph has 2 arguments, and 1 were passed");
    refused(
        Uses::new().read(x.slice(1..)).write(y.view_mut()),
        "argument 0 was recorded with 12000 bytes, and 11996 bytes were passed",
    );
    refused(
        Uses::new().read(x.view()).read(y.view()),
        "the graph writes argument 1; pass it to `write`",
    );
    let floats = s.alloc_zeroed::<f32>(LEN)?;
    refused(
        Uses::new().read(&floats).write(&mut y),
        "argument 0 has elements of u32, and a buffer of f32 was passed",
    );
    let long = s.alloc_zeroed::<u32>(LEN + 1)?;
    let (moved, why) = (long.slice(1..), "the address of argument 0 modulo 256 differs");
    refused(Uses::new().read(moved).write(y.view_mut()), why);
    let host = device.pinned::<u32>(LEN)?;
    refused(
        Uses::new().read(host.view()).write(y.view_mut()),
        "argument 0 was recorded as memory of",
    );
    let right = Uses::new().read(x.view()).write(y.view_mut());
    s.launch_graph(&mut graph, right)?;
    assert_eq!(s.download(&y)?, numbers(1));
    // An argument that is only read may also be passed as written.
    s.launch_graph(&mut graph, Uses::new().write(x.view_mut()).write(y.view_mut()))?;
    s.synchronize()
}
