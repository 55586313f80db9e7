//! The steps of a program. A step that does not apply, such as one on memory that is gone, does
//! nothing, so any part of a program is a program.

use super::memory::Part;
use std::fmt::Write as _;

/// The end of a closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Well,
    Error,
    /// A payload of one of several kinds.
    Panic(u8),
}

/// The work of a task on its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Fill,
    Stir,
    Copy,
    /// A copy through memory that the function allocates.
    Through,
    Blend,
    Sum,
    Min,
    Max,
    /// A function on a thread of the host.
    Host,
    /// `Tasks::copy`.
    Between,
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) set: usize,
    pub(super) form: Form,
    pub(super) from: (usize, Part),
    pub(super) to: (usize, Part),
    pub(super) salt: u32,
    pub(super) end: End,
    pub(super) is_urgent: bool,
    pub(super) is_cancelled: bool,
    /// Whether the function has a handle of its own tasks.
    pub(super) has_handle: bool,
    pub(super) on: Option<usize>,
    pub(super) nested: Vec<Task>,
}

/// An operation of a graph on its arguments.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Fill(usize, Part, u32),
    FillBytes(usize, Part, u8),
    Stir(usize, Part, u32),
    Copy(usize, usize),
    Blend(usize, usize, u32),
    /// A blend through memory of the graph.
    Through(usize, usize, u32),
    Host(End),
}

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collective {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

/// A way to combine floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Sum,
    Min,
    Max,
    /// Its combination panics.
    Panics,
}

/// A closure that gets no memory of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    PipelineStage,
    PipelineSource,
    PipelineSink,
    PipelineProgress,
    StagedStage,
    StagedHost,
    StagedRecycled,
    StagedSink,
    StagedSource,
    Explore,
    Script,
}

/// A step. Numbers name streams: the kind, and one of two devices.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Alloc {
        stream: u8,
        slot: usize,
        len: usize,
        kind: u8,
    },
    Drop {
        slot: usize,
    },
    Split {
        slot: usize,
        at: u8,
    },
    Fill {
        stream: u8,
        to: (usize, Part),
        value: u32,
    },
    FillBytes {
        stream: u8,
        to: (usize, Part),
        value: u8,
    },
    FillNow {
        to: (usize, Part),
        value: u8,
    },
    Copy {
        stream: u8,
        from: (usize, Part),
        to: (usize, Part),
    },
    CopyNow {
        from: (usize, Part),
        to: (usize, Part),
    },
    Batch {
        stream: u8,
        copies: Vec<((usize, Part), (usize, Part))>,
        order: u8,
    },
    Blend {
        stream: u8,
        from: (usize, Part),
        to: (usize, Part),
        salt: u32,
    },
    Stir {
        stream: u8,
        to: (usize, Part),
        salt: u32,
    },
    Host {
        stream: u8,
        from: Option<usize>,
        to: usize,
        salt: u32,
        end: End,
    },
    Plain {
        stream: u8,
        end: End,
    },
    Guard {
        slot: usize,
        salt: u32,
        writes: bool,
        body: Vec<Step>,
    },
    Download {
        stream: u8,
        from: (usize, Part),
    },
    Scope {
        stream: u8,
        to: (usize, Part),
        from: (usize, Part),
        salt: u32,
        end: End,
    },
    Wait {
        stream: u8,
        device: usize,
        how: u8,
    },
    Event {
        stream: u8,
        event: usize,
        how: u8,
    },
    Grow {
        slot: usize,
        len: usize,
    },
    Truncate {
        slot: usize,
        len: usize,
    },
    Dlpack {
        slot: usize,
        to: Part,
        value: u32,
        comes_back: bool,
    },
    Record {
        graph: usize,
        args: Vec<(usize, Part)>,
        nodes: Vec<(usize, Node)>,
        end: End,
        keeps: bool,
    },
    RecordAgain {
        graph: usize,
        args: Vec<usize>,
        salt: u32,
        end: End,
    },
    Launch {
        graph: usize,
        stream: u8,
        args: Vec<(usize, u8)>,
    },
    Left {
        slot: usize,
        part: Part,
        value: u32,
    },
    Give {
        set: usize,
        slot: usize,
    },
    Take {
        slot: usize,
    },
    Task(Task),
    Region {
        tasks: Vec<Task>,
        end: End,
    },
    Finish {
        set: usize,
    },
    TakenUse {
        slot: usize,
        how: u8,
    },
    Tangle {
        how: u8,
    },
    Abandon {
        set: usize,
        count: u64,
        has_handle: bool,
    },
    Float {
        device: usize,
        stream: u8,
        seed: u64,
    },
    Collective {
        what: Collective,
        how: How,
        root: usize,
        is_recorded: bool,
        stream: u8,
    },
    FloatTasks {
        set: usize,
        how: How,
        seed: u64,
    },
    Closure {
        place: Place,
        at: u64,
        end: End,
    },
    Threads {
        bodies: Vec<Vec<Step>>,
        end: End,
    },
    Trim {
        device: usize,
    },
    Refill {
        device: usize,
    },
    TwinPanic {
        stream: u8,
        to: usize,
    },
}

/// Lists that lack one part each, and are not empty.
fn lacking<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    let without = |at: usize| {
        let mut some = all.to_vec();
        some.remove(at);
        some
    };
    if all.len() < 2 { vec![] } else { (0..all.len()).map(without).collect() }
}

impl Step {
    /// Steps that lack a part of this one.
    pub(super) fn thinner(&self) -> Vec<Self> {
        match self.clone() {
            Self::Record { graph, args, nodes, end, keeps } => lacking(&nodes)
                .into_iter()
                .map(|nodes| Self::Record { graph, args: args.clone(), nodes, end, keeps })
                .collect(),
            Self::Region { tasks, end } => {
                lacking(&tasks).into_iter().map(|tasks| Self::Region { tasks, end }).collect()
            }
            Self::Task(task) => (0..task.nested.len())
                .map(|at| {
                    let mut thinner = task.clone();
                    thinner.nested.remove(at);
                    Self::Task(thinner)
                })
                .collect(),
            Self::Guard { slot, salt, writes, body } => lacking(&body)
                .into_iter()
                .map(|body| Self::Guard { slot, salt, writes, body })
                .collect(),
            Self::Threads { bodies, end } => {
                let thinner = |number: usize| {
                    let bodies = &bodies;
                    (0..bodies[number].len()).map(move |at| {
                        let mut bodies = bodies.clone();
                        bodies[number].remove(at);
                        Self::Threads { bodies, end }
                    })
                };
                (0..bodies.len()).flat_map(thinner).collect()
            }
            _ => vec![],
        }
    }
}

/// The variables of a program, its graphs, its events, and its sets of tasks.
pub(super) const SLOTS: usize = 9;
pub(super) const GRAPHS: usize = 3;
pub(super) const EVENTS: usize = 2;
pub(super) const SETS: usize = 2;

/// The steps, each in a line.
pub(super) fn text(steps: &[(usize, Step)]) -> String {
    steps.iter().fold(String::new(), |mut text, (number, step)| {
        // Text takes every line.
        writeln!(text, "  {number:3} {step:?}").unwrap_or_else(|_| unreachable!("text grows"));
        text
    })
}
