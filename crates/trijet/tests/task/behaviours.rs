//! The expectations of users of task systems, each with its count of waits and streams.

use crate::rule::{OF_BF16, OF_F32, Rule};
use crate::{demand_clean, device};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::mpsc::channel;
use trijet::kernels::{AXPY, Max, Min, Reduction, Sum};
use trijet::sim::Order;
use trijet::task::{Explanation, Hazard, KeptBy, TaskOptions, Tasks};
use trijet::trace::{OpKind, StreamWork};
use trijet::{Device, Element, Result};

fn waits(device: &Device) -> u64 {
    device.ordering().waits
}

/// A chain stays on one stream and needs neither events nor waits.
#[test]
fn a_chain_of_tasks_is_one_stream_without_a_wait() -> Result<()> {
    for look_ahead in [0, 8] {
        let device = device(Order::Greedy)?;
        let tasks = device.tasks_with(TaskOptions::new().look_ahead(look_ahead));
        // They were used on another stream before.
        let s = device.stream()?;
        let (x, y) =
            (tasks.data(s.alloc_zeroed::<f32>(64)?), tasks.data(s.alloc_zeroed::<f32>(64)?));
        s.synchronize()?;
        for _ in 0..50 {
            tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
            tasks.task((y.read(), x.update())).run(|s, (y, x)| s.launch(&AXPY, (1.0, y, x)))?;
        }
        tasks.finish()?;
        let ordering = device.ordering();
        assert_eq!((ordering.waits, ordering.records, tasks.counts().streams), (0, 0, 1));
    }
    Ok(())
}

/// Independent chains run at once, each on its own stream, and no stream waits for another.
#[test]
fn independent_chains_get_streams_of_their_own() -> Result<()> {
    let device = device(Order::Seeded(1))?;
    let tasks = device.tasks();
    let data = (0..6).map(|_| tasks.alloc::<u8>(64)).collect::<Result<Vec<_>>>()?;
    for value in 0..10 {
        for x in &data {
            tasks.task(x.update()).run(move |s, mut x| s.fill_bytes(&mut x, value))?;
        }
    }
    tasks.finish()?;
    assert_eq!((waits(&device), tasks.counts().streams), (0, 6));
    Ok(())
}

/// Sub-range access with exact overlap: chunks never serialise falsely.
#[test]
fn chunks_of_one_buffer_do_not_wait_for_each_other() -> Result<()> {
    let device = device(Order::Seeded(2))?;
    let tasks = device.tasks();
    let x = tasks.alloc::<u8>(64)?;
    let chunk = |at: usize| at * 16..at * 16 + 16;
    let mut ids = Vec::new();
    for value in 0..3 {
        for at in 0..4 {
            let task = tasks.task(x.update_range(chunk(at)));
            ids.push(task.run(move |s, mut x| s.fill_bytes(&mut x, value))?);
        }
    }
    tasks.finish()?;
    assert_eq!((waits(&device), tasks.counts().streams), (0, 4));
    assert_eq!(tasks.explain(ids[0], ids[1])?, Explanation::Nothing);
    assert!(matches!(tasks.explain(ids[0], ids[8])?, Explanation::Data(steps) if steps.len() == 2));
    Ok(())
}

/// A writer comes after all readers, whatever their streams are, and waits for each stream once.
#[test]
fn a_writer_waits_for_all_readers() -> Result<()> {
    for seed in 0..40 {
        let device = device(Order::Seeded(seed))?;
        let tasks = device.tasks();
        let x = tasks.alloc::<u8>(256)?;
        tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 1))?;
        let landed: Vec<_> = (0..5)
            .map(|_| device.pinned::<u8>(256).map(|h| tasks.data(h)))
            .collect::<Result<_>>()?;
        for h in &landed {
            tasks.task((x.read(), h.write())).run(|s, (x, mut h)| s.copy(&x, &mut h))?;
        }
        tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 2))?;
        for h in landed {
            assert_eq!(&*tasks.take(h)?.read()?, &[1; 256], "seed {seed}");
        }
        tasks.finish()?;
        demand_clean(&device);
        // Four streams wait for the first fill, and the last fill waits for four of the copies,
        // unless the library found one of them complete.
        assert!(waits(&device) <= 8, "seed {seed}: {} waits", waits(&device));
    }
    Ok(())
}

/// Tasks that reduce run at once, each on its own stream. The sum of their parts has the same bits
/// in any order of the device: the sum of the tasks one after another.
#[test]
fn reductions_run_at_once_and_add_in_the_order_of_the_tasks() -> Result<()> {
    // Another order of the additions gives another sum.
    let weights = [1e8, 1.0, -1e8, 3e-3, 7.0, -5e7];
    let expected = weights.iter().fold(0.25f32, |sum, weight| weight + sum);
    for seed in 0..40 {
        let device = device(Order::Seeded(seed))?;
        let tasks = device.tasks();
        let (one, total) = (tasks.alloc::<f32>(64)?, tasks.alloc::<f32>(64)?);
        tasks.task((one.write(), total.write())).run(|s, (mut one, mut total)| {
            s.fill(&mut one, 1.0)?;
            s.fill(&mut total, 0.25)
        })?;
        let mut ids = Vec::new();
        for weight in weights {
            let uses = (one.read(), total.reduce(Sum));
            ids.push(
                tasks.task(uses).run(move |s, (one, part)| s.launch(&AXPY, (weight, one, part)))?,
            );
        }
        let found = device.stream()?.download(&tasks.take(total)?)?;
        assert_eq!(found, [expected; 64], "seed {seed}");
        tasks.finish()?;
        demand_clean(&device);
        assert_eq!(tasks.counts().streams, weights.len(), "seed {seed}");
        let Explanation::Data(steps) = tasks.explain(ids[0], ids[1])? else {
            panic!("they reduce")
        };
        assert_eq!(steps[0].hazard, Hazard::Reduction);
    }
    Ok(())
}

fn follow_the_rule<T: Element + Debug, B: Copy>(table: &[Rule<B>], of: fn(B) -> T) -> Result<()>
where
    Min: Reduction<T>,
    Max: Reduction<T>,
{
    let device = device(Order::Seeded(1))?;
    let (tasks, s) = (device.tasks(), device.stream()?);
    for (at, rule) in table.iter().enumerate() {
        for (total, part) in [(rule[0], rule[1]), (rule[1], rule[0])] {
            let (total, part) = (of(total), of(part));
            let (x, y) = (tasks.alloc::<T>(64)?, tasks.alloc::<T>(64)?);
            for data in [&x, &y] {
                tasks.task(data.write()).run(move |s, mut all| s.fill(&mut all, total))?;
            }
            tasks.task(x.reduce(Min)).run(move |s, mut one| s.fill(&mut one, part))?;
            tasks.task(y.reduce(Max)).run(move |s, mut one| s.fill(&mut one, part))?;
            for (data, right) in [(x, of(rule[2])), (y, of(rule[3]))] {
                let found = s.download(&tasks.take(data)?)?;
                let is_right = |one: &T| bytemuck::bytes_of(one) == bytemuck::bytes_of(&right);
                assert!(found.iter().all(is_right), "case {at}: {total:?} and {part:?}: {found:?}");
            }
        }
    }
    Ok(())
}

/// The minimum and the maximum of a total and a part, with either number in either place.
#[test]
fn minima_and_maxima_of_tasks_follow_the_rule_of_collectives() -> Result<()> {
    follow_the_rule(&OF_F32, f32::from_bits)?;
    follow_the_rule(&OF_BF16, half::bf16::from_bits)
}

/// Submission does not wait for the device: a task can be submitted while an earlier one is held
/// up.
#[test]
fn submission_waits_for_nothing() -> Result<()> {
    let device = Device::host(trijet::sim::HostConfig::default())?.remove(0);
    let tasks = device.tasks();
    let x = tasks.alloc::<u8>(64)?;
    let (send, receive) = channel::<()>();
    tasks.task(x.write()).run(move |s, mut x| {
        s.host_fn(move || receive.recv().expect("the test sends"))?;
        s.fill_bytes(&mut x, 1)
    })?;
    for value in 0..100 {
        tasks.task(x.update()).run(move |s, mut x| s.fill_bytes(&mut x, value))?;
    }
    assert_eq!(tasks.counts().submitted, 101);
    send.send(()).expect("the function receives");
    tasks.finish()
}

/// No lock is held while a function of the program runs: the function of one task waits for another
/// thread that submits.
#[test]
fn no_lock_is_held_while_the_function_of_a_task_runs() -> Result<()> {
    let device = Device::host(trijet::sim::HostConfig::default())?.remove(0);
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(0));
    let ((send, receive), (begun, has_begun)) = (channel(), channel());
    std::thread::scope(|scope| {
        let other = tasks.clone();
        scope.spawn(move || {
            has_begun.recv().expect("the function sends");
            let submitted = other.task(()).run(|_, ()| Ok(()));
            send.send(submitted.is_ok()).expect("the function receives");
        });
        tasks.task(()).run(move |_, ()| {
            begun.send(()).expect("the thread receives");
            assert!(receive.recv().expect("the thread sends"));
            Ok(())
        })
    })?;
    tasks.finish()
}

/// More tasks than the library remembers.
#[test]
fn tasks_without_end_are_forgotten_when_they_are_over() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let x = tasks.alloc::<u8>(16)?;
    let first = tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    let mut last = first;
    for _ in 0..6000 {
        last = tasks.task(x.update()).run(|_, _| Ok(()))?;
    }
    tasks.finish()?;
    assert!(tasks.explain(first, last).is_err(), "the first one is forgotten");
    tasks.wait(first)?;
    assert_eq!(device.stream()?.download(&tasks.take(x)?)?, [1; 16]);
    Ok(())
}

/// Urgent tasks overtake others that may be issued, on streams of the highest priority.
#[test]
fn urgent_tasks_are_issued_first() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(20));
    let (send, order) = channel();
    for number in 0..6 {
        let send = send.clone();
        let task = tasks.task(());
        let task = if number >= 4 { task.urgent() } else { task };
        task.run(move |_, ()| {
            send.send(number).expect("the test receives");
            Ok(())
        })?;
    }
    tasks.finish()?;
    drop(send);
    assert_eq!(order.iter().collect::<Vec<_>>(), [4, 5, 0, 1, 2, 3]);
    Ok(())
}

/// The reason why one task came after another, and a change that would let them run at once.
#[test]
fn an_explanation_names_the_bytes_the_order_and_a_remedy() -> Result<()> {
    let device = device(Order::Seeded(3))?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(0));
    let (x, y) = (tasks.alloc::<u8>(64)?, tasks.alloc::<u8>(64)?);
    let fill = tasks.task(x.write()).named("fill").run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    let copy = tasks.task((x.read(), y.write())).named("copy");
    let copy = copy.run(|s, (x, mut y)| s.copy(&x, &mut y))?;
    let next = tasks.task(x.write_range(..8)).named("next frame");
    let next = next.run(|s, mut x| s.fill_bytes(&mut x, 2))?;
    let other = tasks.task(y.read()).named("other").run(|_, _| Ok(()))?;
    tasks.finish()?;
    let Explanation::Data(steps) = tasks.explain(copy, next)? else { panic!("bytes order them") };
    let [step] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(
        (step.hazard, step.bytes.clone(), step.kept_by),
        (Hazard::War, 0..8, Some(KeptBy::SameStream))
    );
    let remedy = tasks.explain(copy, next)?.remedy().expect("there is one");
    assert!(remedy.contains("a separate buffer for `next frame #3`"), "{remedy}");
    assert_eq!(tasks.explain(next, other)?.remedy(), None);
    let text = tasks.explain(fill, other)?.to_string();
    assert!(
        text.contains("`copy #2` reads what the earlier task wrote")
            && text.contains("`other #4` reads"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_graph_for_graphviz_has_each_task_and_why_it_waits() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks: Tasks = device.tasks();
    let h = tasks.data(device.pinned::<u8>(8)?);
    let x = tasks.alloc::<u8>(8)?;
    tasks.task(h.write()).named("read \"a\"").host(|_| Ok(()))?;
    tasks.task((h.read(), x.write())).named("upload").run(|s, (h, mut x)| s.copy(&h, &mut x))?;
    tasks.finish()?;
    let text = tasks.dot();
    for line in [
        r#"t1 [label="read \"a\" #1\nhost"];"#,
        r#"t2 [label="upload #2\nstream 0"];"#,
        r#"t1 -> t2 [label="read after write, data 0", style=solid];"#,
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    Ok(())
}

/// A number among the data of tasks means nothing to the author of a program.
#[test]
fn texts_call_data_by_the_name_of_their_buffer() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let other = tasks.alloc::<u8>(8)?;
    let x = tasks.data(device.stream()?.alloc::<u8>(8)?.named("the \"weights\""));
    let fill = tasks.task(x.write()).named("fill").run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    let copy = (x.read(), other.write());
    let copy = tasks.task(copy).named("copy").run(|s, (x, mut y)| s.copy(&x, &mut y))?;
    let again = tasks.task(x.write()).named("again").run(|s, mut x| s.fill_bytes(&mut x, 2))?;
    tasks.finish()?;
    let name = "data `the \"weights\"`";
    let Explanation::Data(steps) = tasks.explain(fill, copy)? else { panic!("bytes order them") };
    assert_eq!(steps[0].datum_name.as_deref(), Some("the \"weights\""));
    let text = tasks.explain(fill, copy)?.to_string();
    assert!(text.contains(&format!("bytes 0 to 8 of {name}")), "{text}");
    let remedy = tasks.explain(copy, again)?.remedy().expect("there is one");
    assert!(remedy.ends_with(&format!("read in {name}")), "{remedy}");
    let dot = tasks.dot();
    assert!(dot.contains(r#"[label="read after write, data `the \"weights\"`", style="#), "{dot}");
    assert!(format!("{x:?}").starts_with(name) && format!("{:?}", x.read()).ends_with(name));
    assert!(format!("{other:?}").starts_with("data 0: "), "{other:?}");
    let twice = tasks.task((x.read(), x.write())).run(|_, _| Ok(())).expect_err("one use");
    assert!(twice.to_string().contains(&format!("bytes of {name} twice")), "{twice}");
    drop(tasks.take(x.clone())?);
    let taken = tasks.task(x.read()).run(|_, _| Ok(())).expect_err("it is gone");
    assert!(taken.to_string().contains(&format!("{name} was taken before")), "{taken}");
    // The number goes to other data, and the name does not.
    drop(x);
    let next = tasks.alloc::<u8>(8)?;
    assert!(format!("{next:?}").starts_with("data 1: "), "{next:?}");
    Ok(())
}

#[test]
fn the_operations_of_a_task_have_its_name_in_a_trace() -> Result<()> {
    let device = device(Order::Greedy)?;
    let stream = Arc::new(device.stream()?);
    let tasks = device.tasks_in(&stream);
    device.start_trace(&stream)?;
    let x = tasks.alloc::<u8>(8)?;
    tasks.task(x.write()).named("begin").run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    tasks.task(x.update()).run(|s, mut x| s.fill_bytes(&mut x, 2))?;
    stream.fill_bytes(&mut tasks.take(x)?, 3)?;
    stream.synchronize()?;
    let fills =
        device.take_trace()?.ops.into_iter().filter(|op| op.kind == OpKind::Work(StreamWork::Fill));
    let labels: Vec<String> = fills.map(|op| op.label.into_owned()).collect();
    assert_eq!(labels, ["begin: fill", "fill", "fill"]);
    Ok(())
}
