//! Draws programs.

use super::memory::{PANIC, Part};
use super::step::{
    Collective, EVENTS, End, Form, GRAPHS, How, Node, Place, SETS, SLOTS, Step, Task,
};
use trijet::testing::Prng;

/// A number below `bound`.
pub(super) fn below<T: TryFrom<u64>>(prng: &mut Prng, bound: u64) -> T {
    T::try_from(prng.below(bound)).unwrap_or_else(|_| unreachable!("the bound fits"))
}

fn part(prng: &mut Prng) -> Part {
    match prng.below(3) {
        0 => Part(0, 255),
        _ => Part(below(prng, 256), below(prng, 256)),
    }
}

fn slot(prng: &mut Prng) -> usize {
    below(prng, SLOTS as u64)
}

fn place(prng: &mut Prng) -> (usize, Part) {
    (slot(prng), part(prng))
}

fn stream(prng: &mut Prng) -> u8 {
    below(prng, 10)
}

fn salt(prng: &mut Prng) -> u32 {
    below(prng, u64::from(PANIC))
}

fn end(prng: &mut Prng, of: u64) -> End {
    match prng.below(of) {
        0 => End::Panic(below(prng, 3)),
        1 => End::Error,
        _ => End::Well,
    }
}

fn task(prng: &mut Prng, set: usize, deep: u64) -> Task {
    const FORMS: [Form; 12] = [
        Form::Fill,
        Form::Stir,
        Form::Stir,
        Form::Copy,
        Form::Through,
        Form::Blend,
        Form::Blend,
        Form::Sum,
        Form::Min,
        Form::Max,
        Form::Host,
        Form::Between,
    ];
    let form = FORMS[below::<usize>(prng, 12)];
    let count = if deep > 0 && prng.below(4) == 0 { 1 + prng.below(2) } else { 0 };
    let nested = (0..count)
        .map(|n| {
            let set = below(prng, SETS as u64);
            // Only the last one has more, because the order of others would depend on when their
            // functions run.
            task(prng, set, if n + 1 == count { deep - 1 } else { 0 })
        })
        .collect();
    Task {
        set,
        form,
        from: place(prng),
        to: place(prng),
        salt: salt(prng),
        end: end(prng, 14),
        is_urgent: prng.below(6) == 0,
        is_cancelled: prng.below(20) == 0,
        has_handle: prng.below(3) == 0,
        on: (prng.below(2) == 0).then(|| below(prng, 2)),
        nested,
    }
}

fn node(prng: &mut Prng, args: u64) -> Node {
    let (a, b) = (below(prng, args), below(prng, args));
    match prng.below(12) {
        0..3 => Node::Fill(a, part(prng), salt(prng)),
        3 => Node::FillBytes(a, part(prng), below(prng, 256)),
        4 | 5 => Node::Stir(a, part(prng), salt(prng)),
        6 | 7 => Node::Copy(a, b),
        8 | 9 => Node::Blend(a, b, salt(prng)),
        10 => Node::Through(a, b, salt(prng)),
        _ => Node::Host(end(prng, 6)),
    }
}

/// A step on memory and streams only.
fn plain(prng: &mut Prng) -> Step {
    let s = stream(prng);
    match prng.below(28) {
        0..3 => Step::Fill { stream: s, to: place(prng), value: salt(prng) },
        3 => Step::FillBytes { stream: s, to: place(prng), value: below(prng, 256) },
        4 | 5 => Step::FillNow { to: place(prng), value: below(prng, 256) },
        6..9 => Step::Copy { stream: s, from: place(prng), to: place(prng) },
        9 => Step::CopyNow { from: place(prng), to: place(prng) },
        10 => {
            let count = 1 + prng.below(3);
            let copies = (0..count).map(|_| (place(prng), place(prng))).collect();
            Step::Batch { stream: s, copies, order: below(prng, 3) }
        }
        11..14 => Step::Blend { stream: s, from: place(prng), to: place(prng), salt: salt(prng) },
        14..16 => Step::Stir { stream: s, to: place(prng), salt: salt(prng) },
        16 | 17 => {
            let from = (prng.below(2) == 0).then(|| slot(prng));
            Step::Host { stream: s, from, to: slot(prng), salt: salt(prng), end: end(prng, 9) }
        }
        18 => Step::Plain { stream: s, end: end(prng, 6) },
        19 | 20 => Step::Download { stream: s, from: place(prng) },
        21 => Step::Wait { stream: s, device: below(prng, 4), how: below(prng, 6) },
        22 => Step::Event { stream: s, event: below(prng, EVENTS as u64), how: below(prng, 5) },
        23 | 24 => {
            let len = 1 + below::<usize>(prng, 40);
            let len = if prng.below(12) == 0 { len * 200 } else { len };
            Step::Alloc { stream: s, slot: slot(prng), len, kind: below(prng, 8) }
        }
        25 => Step::Drop { slot: slot(prng) },
        26 => Step::Split { slot: slot(prng), at: below(prng, 256) },
        _ => Step::Grow { slot: slot(prng), len: below(prng, 700) },
    }
}

fn graph_step(prng: &mut Prng) -> Step {
    let graph = below(prng, GRAPHS as u64);
    match prng.below(8) {
        0..3 => {
            let count = 1 + prng.below(3);
            let args = (0..count).map(|_| place(prng)).collect();
            let nodes = (0..1 + prng.below(5)).map(|_| (below(prng, 2), node(prng, count)));
            let nodes = nodes.collect();
            let keeps = prng.below(4) == 0;
            Step::Record { graph, args, nodes, end: end(prng, 8), keeps }
        }
        3 => {
            let args = (0..3).map(|_| slot(prng)).collect();
            Step::RecordAgain { graph, args, salt: salt(prng), end: end(prng, 5) }
        }
        4 if prng.below(2) == 0 => {
            Step::Left { slot: slot(prng), part: part(prng), value: salt(prng) }
        }
        _ => {
            let args = (0..3).map(|_| (slot(prng), below(prng, 256))).collect();
            Step::Launch { graph, stream: stream(prng), args }
        }
    }
}

fn task_step(prng: &mut Prng) -> Step {
    let set = below(prng, SETS as u64);
    match prng.below(24) {
        0..5 => Step::Give { set, slot: slot(prng) },
        5 => Step::Take { slot: slot(prng) },
        6 | 7 => Step::Finish { set },
        8 => Step::TakenUse { slot: slot(prng), how: below(prng, 3) },
        9 if prng.below(3) == 0 => Step::Tangle { how: below(prng, 4) },
        9 if prng.below(3) == 0 => {
            Step::Abandon { set, count: 1 + prng.below(12), has_handle: prng.below(2) == 0 }
        }
        10..15 => {
            let count = 1 + prng.below(4);
            let tasks = (0..count).map(|_| task(prng, set, 0)).collect();
            Step::Region { tasks, end: end(prng, 10) }
        }
        _ => Step::Task(task(prng, set, 2)),
    }
}

fn how(prng: &mut Prng) -> How {
    [How::Sum, How::Min, How::Max, How::Min, How::Max, How::Sum, How::Min, How::Panics]
        [below::<usize>(prng, 8)]
}

fn float_step(prng: &mut Prng) -> Step {
    const ALL: [Collective; 6] = [
        Collective::AllReduce,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
    ];
    let s = stream(prng);
    match prng.below(5) {
        0 | 1 => Step::Float { device: below(prng, 4), stream: s, seed: prng.next_u64() },
        2 => Step::FloatTasks { set: below(prng, 2), how: how(prng), seed: prng.next_u64() },
        _ => Step::Collective {
            what: ALL[below::<usize>(prng, 6)],
            how: how(prng),
            root: below(prng, 4),
            is_recorded: prng.below(3) == 0,
            stream: s,
        },
    }
}

fn closure_step(prng: &mut Prng) -> Step {
    const ALL: [Place; 11] = [
        Place::PipelineStage,
        Place::PipelineSource,
        Place::PipelineSink,
        Place::PipelineProgress,
        Place::StagedStage,
        Place::StagedHost,
        Place::StagedRecycled,
        Place::StagedSink,
        Place::StagedSource,
        Place::Explore,
        Place::Script,
    ];
    let place = ALL[below::<usize>(prng, 11)];
    Step::Closure { place, at: prng.below(6), end: end(prng, 3) }
}

/// A step of any kind.
fn step(prng: &mut Prng) -> Step {
    match prng.below(100) {
        0..43 => plain(prng),
        43..64 => graph_step(prng),
        64..86 => task_step(prng),
        86..90 => float_step(prng),
        90 | 91 => Step::Dlpack {
            slot: slot(prng),
            to: part(prng),
            value: salt(prng),
            comes_back: prng.below(4) != 0,
        },
        92 => Step::Truncate { slot: slot(prng), len: below(prng, 60) },
        93 | 94 => {
            let body = (0..1 + prng.below(3)).map(|_| plain(prng)).collect();
            Step::Guard { slot: slot(prng), salt: salt(prng), writes: prng.below(2) == 0, body }
        }
        95 => Step::Scope {
            stream: stream(prng),
            to: place(prng),
            from: place(prng),
            salt: salt(prng),
            end: end(prng, 4),
        },
        96 if prng.below(6) == 0 => closure_step(prng),
        97 => {
            let bodies = (0..2 + prng.below(2))
                .map(|_| (0..1 + prng.below(4)).map(|_| plain(prng)).collect())
                .collect();
            Step::Threads { bodies, end: end(prng, 8) }
        }
        98 => Step::Trim { device: below(prng, 4) },
        99 if prng.below(4) == 0 => Step::Refill { device: below(prng, 4) },
        _ => plain(prng),
    }
}

/// The same region on other data, as programs repeat regions.
fn repeated(prng: &mut Prng, tasks: &[Task], end: End) -> Vec<Step> {
    let mut again = |_| {
        let (from, to) = (slot(prng), slot(prng));
        let moved = |task: &Task| {
            let mut task = task.clone();
            (task.from.0, task.to.0) = ((task.from.0 + from) % SLOTS, (task.to.0 + to) % SLOTS);
            task
        };
        Step::Region { tasks: tasks.iter().map(moved).collect(), end }
    };
    (0..2).map(&mut again).collect()
}

/// Parts of one length, at other places within 256 bytes, as data of tasks.
fn parts_for_tasks(prng: &mut Prng) -> Vec<Step> {
    let (set, first) = (below(prng, SETS as u64), slot(prng));
    let mut steps = vec![Step::Drop { slot: first }];
    steps.push(Step::Alloc { stream: below(prng, 2), slot: first, len: 16, kind: 3 });
    steps.push(Step::Split { slot: first, at: 0 });
    steps.extend((0..3 + prng.below(3)).map(|n| {
        let slot = if n == 0 { first } else { slot(prng) };
        Step::Give { set, slot }
    }));
    steps
}

/// The steps of a program: memory first, and in a few programs the loss of a device last.
pub(super) fn draw(prng: &mut Prng) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..SLOTS - 2)
        .map(|slot| {
            let len = [8, 8, 16, 1 + below::<usize>(prng, 24)][below::<usize>(prng, 4)];
            Step::Alloc { stream: stream(prng), slot, len, kind: below(prng, 8) }
        })
        .collect();
    if prng.below(3) == 0 {
        steps.extend(parts_for_tasks(prng));
    }
    let count = 4 + prng.below(26);
    for _ in 0..count {
        let step = step(prng);
        let others = if let Step::Region { tasks, end } = &step {
            repeated(prng, tasks, *end)
        } else {
            vec![]
        };
        steps.push(step);
        steps.extend(others);
    }
    if prng.below(40) == 0 {
        steps.push(Step::TwinPanic { stream: stream(prng), to: slot(prng) });
    }
    steps
}
