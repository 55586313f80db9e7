//! Switches for the contents of programs. `TRIJET_PROGRAMS_OFF=graphs,nan` turns two off, so that a
//! known fault hides no other. The rest of the program of a seed stays the same. Most switches are
//! named after the steps; `beside` lets threads of tasks call the library while a script runs.

use super::step::{End, Place, Step, Task};
use std::sync::LazyLock;

const NAMES: [&str; 30] = [
    "abandon",
    "batches",
    "beside",
    "bombs",
    "change-panics",
    "closures",
    "collectives",
    "cancel",
    "dlpack",
    "events",
    "failures",
    "float-tasks",
    "graphs",
    "growing",
    "handles",
    "host-panics",
    "left",
    "legacy",
    "losses",
    "manual",
    "nan",
    "nested",
    "record-again",
    "refill",
    "regions",
    "splits",
    "taken",
    "tangle",
    "thread-panics",
    "threads",
];

static OFF: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let asked = std::env::var("TRIJET_PROGRAMS_OFF").unwrap_or_default();
    let names = asked.split(',').filter(|name| !name.is_empty());
    names
        .map(|name| {
            let known = NAMES.iter().find(|known| **known == name);
            *known.unwrap_or_else(|| panic!("TRIJET_PROGRAMS_OFF: `{name}` is none of {NAMES:?}"))
        })
        .collect()
});

pub(super) fn is_on(name: &str) -> bool {
    !OFF.contains(&name)
}

fn panics(end: End) -> bool {
    matches!(end, End::Panic(_))
}

/// Removes the parts of a task that are off.
fn calm(task: &mut Task) {
    task.has_handle &= is_on("handles");
    task.is_cancelled &= is_on("cancel");
    if !is_on("failures") {
        task.end = End::Well;
    }
    if !is_on("nested") {
        task.nested.clear();
    }
    task.nested.iter_mut().for_each(calm);
}

/// Makes the payload of a panic a text.
fn defuse(step: &mut Step) {
    let defused = |end: &mut End| {
        if let End::Panic(kind) = end {
            *kind = 0;
        }
    };
    match step {
        Step::Host { end, .. }
        | Step::Plain { end, .. }
        | Step::Scope { end, .. }
        | Step::Record { end, .. }
        | Step::RecordAgain { end, .. }
        | Step::Region { end, .. }
        | Step::Closure { end, .. }
        | Step::Threads { end, .. } => defused(end),
        Step::Task(task) => defused(&mut task.end),
        _ => {}
    }
}

/// Whether a step has its switch on. Parts of it that are off are left out.
pub(super) fn keeps(step: &mut Step) -> bool {
    if !is_on("bombs") {
        defuse(step);
    }
    let legacy = |stream: u8| stream % 5 != 4 || is_on("legacy");
    match step {
        Step::FillNow { .. } | Step::CopyNow { .. } => is_on("legacy"),
        Step::Alloc { kind: 5, .. } | Step::Grow { .. } | Step::Truncate { .. } => is_on("growing"),
        Step::Batch { stream, .. } => is_on("batches") && legacy(*stream),
        Step::Split { .. } => is_on("splits"),
        Step::Host { stream, end, .. } | Step::Plain { stream, end } => {
            legacy(*stream) && (is_on("host-panics") || !panics(*end))
        }
        Step::Event { .. } => is_on("events"),
        Step::Guard { body, .. } => {
            body.retain_mut(keeps);
            true
        }
        Step::Dlpack { .. } => is_on("dlpack"),
        Step::Record { .. } => is_on("graphs"),
        Step::RecordAgain { end, .. } => {
            is_on("record-again") && (is_on("change-panics") || !panics(*end))
        }
        Step::Left { .. } => is_on("left"),
        Step::Launch { stream, .. } => legacy(*stream),
        Step::Task(task) => {
            calm(task);
            true
        }
        Step::Region { tasks, .. } => {
            tasks.iter_mut().for_each(calm);
            is_on("regions")
        }
        Step::TakenUse { .. } => is_on("taken"),
        Step::Tangle { .. } => is_on("tangle"),
        Step::Abandon { has_handle, .. } => is_on("abandon") && (is_on("handles") || !*has_handle),
        Step::Collective { .. } => is_on("collectives"),
        Step::FloatTasks { .. } => is_on("float-tasks"),
        Step::Closure { place: Place::Script, .. } => is_on("threads") && is_on("thread-panics"),
        Step::Closure { .. } => is_on("closures"),
        Step::Threads { bodies, end } => {
            if !is_on("thread-panics") {
                *end = End::Well;
            }
            bodies.iter_mut().for_each(|body| body.retain_mut(keeps));
            is_on("threads")
        }
        Step::Refill { .. } => is_on("refill"),
        Step::TwinPanic { .. } => is_on("losses"),
        Step::Fill { stream, .. }
        | Step::FillBytes { stream, .. }
        | Step::Copy { stream, .. }
        | Step::Blend { stream, .. }
        | Step::Stir { stream, .. }
        | Step::Download { stream, .. }
        | Step::Scope { stream, .. } => legacy(*stream),
        _ => true,
    }
}
