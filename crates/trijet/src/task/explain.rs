//! The reason why a task came after another task, and the graph of tasks.
#![forbid(unsafe_code)]

use super::declared::DatumName;
use super::state::State;
use super::task_state::{Hazard, KeptBy, Number, TaskEdge, TaskProgress, TaskState};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// A step from a task to a task that comes directly after it; see [`Explanation`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStep {
    /// The name and the number of the earlier task.
    pub from: String,
    /// The name and the number of the later task.
    pub to: String,
    /// The conflict of the later task with the earlier task.
    pub hazard: Hazard,
    /// The number of the datum that both tasks use.
    pub datum: u32,
    /// The name of the buffer of the datum, if it has one.
    pub datum_name: Option<String>,
    /// The range of bytes of the datum that both tasks use.
    pub bytes: Range<u64>,
    /// How the order is kept; `None` while the later task is not issued.
    pub kept_by: Option<KeptBy>,
}

impl TaskStep {
    /// The name of the datum, for texts.
    fn data(&self) -> DatumName {
        DatumName { number: self.datum, given: self.datum_name.as_deref().map(Arc::from) }
    }
}

/// The reason why a task came after another task; see [`Tasks::explain`](super::Tasks::explain).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Explanation {
    /// A chain of tasks orders the two tasks. At each step, both tasks use the same bytes, and at
    /// least one of the two tasks writes them. There is no shorter chain.
    Data(Vec<TaskStep>),
    /// No use of data orders the two tasks, but both are on one stream.
    Stream,
    /// Nothing orders the two tasks.
    Nothing,
}

impl Explanation {
    /// The change that would let the two tasks run at the same time; `None` if nothing orders them.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        let steps = match self {
            Self::Nothing => return None,
            Self::Stream => {
                return Some(
                    "more streams: all streams had work when the later task was issued".into(),
                );
            }
            Self::Data(steps) => steps,
        };
        let step = steps.iter().min_by_key(|step| match step.hazard {
            Hazard::War | Hazard::Waw => 0,
            Hazard::Raw | Hazard::Reduction => 1,
        })?;
        let (TaskStep { from, to, .. }, datum) = (step, step.data());
        Some(match step.hazard {
            Hazard::War => format!(
                "a separate buffer for `{to}`: this task only overwrites what `{from}` read in \
                 {datum}"
            ),
            Hazard::Waw => format!(
                "a separate buffer for `{to}`: this task needs nothing that `{from}` wrote to \
                 {datum}"
            ),
            Hazard::Reduction => {
                format!(
                    "nothing: `{from}` and `{to}` run at once, and only their parts are combined in order"
                )
            }
            Hazard::Raw => format!(
                "if `{to}` needs what `{from}` wrote: nothing; if not: a `write` instead of an \
                 `update`, or smaller ranges"
            ),
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing orders the tasks"),
            Self::Stream => {
                f.write_str("no data dependency orders the two tasks, but both are on one stream")
            }
            Self::Data(steps) => {
                for (at, step) in steps.iter().enumerate() {
                    let TaskStep { from, to, hazard, bytes, kept_by, .. } = step;
                    let datum = step.data();
                    let Range { start, end } = bytes;
                    let between = if at > 0 { "; " } else { "" };
                    write!(
                        f,
                        "{between}`{to}` {hazard} (`{from}`): bytes {start} to {end} of {datum}"
                    )?;
                    if let Some(kept_by) = kept_by {
                        write!(f, " ({kept_by})")?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn label(number: Number, task: &TaskState) -> String {
    format!("{} #{number}", task.name)
}

/// Returns the shortest chain of uses from the task `from` to the task `to`. If there is no chain,
/// returns whether a stream orders the two tasks. `None` if one of the tasks is forgotten.
pub(super) fn explain(state: &State, from: Number, to: Number) -> Option<Explanation> {
    let (first, last) = (state.task(from)?, state.task(to)?);
    let mut came: BTreeMap<Number, (Number, &TaskEdge)> = BTreeMap::new();
    let mut queue = VecDeque::from([to]);
    while let Some(at) = queue.pop_front() {
        if at == from {
            break;
        }
        let Some(task) = state.task(at) else { continue };
        // If several hazards order the same two tasks, a read after write comes first, because a
        // separate buffer cannot remove this hazard.
        let mut edges: Vec<&TaskEdge> = task.edges.iter().collect();
        edges.sort_by_key(|edge| edge.hazard);
        for edge in edges {
            if edge.from >= from && !came.contains_key(&edge.from) {
                came.insert(edge.from, (at, edge));
                queue.push_back(edge.from);
            }
        }
    }
    let (mut steps, mut at) = (Vec::new(), from);
    while at != to {
        let Some((next, edge)) = came.get(&at) else {
            let same = first.lane.is_some() && first.lane == last.lane;
            return Some(if same { Explanation::Stream } else { Explanation::Nothing });
        };
        steps.push(TaskStep {
            from: label(at, state.task(at)?),
            to: label(*next, state.task(*next)?),
            hazard: edge.hazard,
            datum: edge.datum,
            datum_name: state.datum_name(edge.datum).given.as_deref().map(str::to_owned),
            bytes: edge.range.clone(),
            kept_by: edge.kept_by,
        });
        at = *next;
    }
    Some(Explanation::Data(steps))
}

/// Escapes a text for a quoted string of Graphviz.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The graph of the remembered tasks, in the language of Graphviz.
pub(super) fn dot(state: &State) -> String {
    let mut text = String::from("digraph tasks {\n  node [shape=box];\n");
    for (number, task) in state.tasks() {
        let name = quoted(&task.name);
        let place = match task.lane {
            _ if task.is_host => "host".to_owned(),
            Some(lane) => format!("stream {lane}"),
            None => "not issued".to_owned(),
        };
        let style = match (task.progress, &task.failure) {
            (TaskProgress::Over, None) => "",
            (TaskProgress::Over, Some(_)) => ", style=filled, fillcolor=salmon",
            _ => ", style=dashed",
        };
        let _infallible =
            writeln!(text, "  t{number} [label=\"{name} #{number}\\n{place}\"{style}];");
        let mut drawn: Vec<&TaskEdge> = Vec::new();
        for edge in &task.edges {
            if state.task(edge.from).is_none() || drawn.iter().any(|one| one.from == edge.from) {
                continue;
            }
            drawn.push(edge);
            let hazard = match edge.hazard {
                Hazard::Raw => "read after write",
                Hazard::War => "write after read",
                Hazard::Waw => "write after write",
                Hazard::Reduction => "reduction",
            };
            let waits =
                matches!(edge.kept_by, Some(KeptBy::Waits | KeptBy::HeldBack | KeptBy::HostWaits));
            let style = if waits { "solid" } else { "dashed" };
            let _infallible = writeln!(
                text,
                "  t{} -> t{number} [label=\"{hazard}, {}\", style={style}];",
                edge.from,
                quoted(&state.datum_name(edge.datum).to_string())
            );
        }
    }
    text += "}\n";
    text
}
