//! Programs for workers that are bound to data of tasks, and tasks that workers run as nodes of a
//! graph.
#![forbid(unsafe_code)]

use super::declared::{AllDeclared, DeclaredUse};
use crate::base::error::{Error, ErrorKind, Result};
use crate::launch::ArgsFor;
use crate::stream::Stream;
use crate::workers::{FIELDS, Kinds, Program, Run, RunOptions, TaskGraph, Work};
use std::fmt;
use std::sync::{Arc, Mutex};

/// A program for workers that is bound to data of tasks; see [`Task::bind`](super::Task::bind). A
/// clone is a handle of the same bound program.
#[derive(Clone)]
pub struct Workers(pub(super) Arc<BoundData>);

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("program", &self.0.name).finish_non_exhaustive()
    }
}

/// A function that starts a run of the program on a stream, with the nodes of a graph as its tasks.
pub(super) type Start = Box<dyn FnMut(&Stream, &TaskGraph) -> Result<Run> + Send>;

/// A program and the data that it is bound to.
pub(super) struct BoundData {
    /// The id of the [`Tasks`](super::Tasks) to which the data belong.
    pub(super) core: u64,
    pub(super) name: &'static str,
    pub(super) kinds: usize,
    /// The number of the program's device among the devices of the tasks.
    pub(super) place: usize,
    pub(super) data: AllDeclared,
    /// The function that starts a run. Only one thread at a time issues tasks, so no thread waits
    /// for this lock.
    pub(super) start: Mutex<Start>,
}

/// One run of a program for workers on the data that it is bound to; see
/// [`Task::bind`](super::Task::bind).
pub struct BoundProgram<'a, K: 'static, P: 'static> {
    pub(super) program: &'static Program<K, P>,
    pub(super) stream: &'a Stream,
    pub(super) graph: &'a TaskGraph,
    pub(super) options: RunOptions,
}

impl<K, P> fmt::Debug for BoundProgram<'_, K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundProgram").field("program", self.program).finish_non_exhaustive()
    }
}

impl<K: Kinds, P> BoundProgram<'_, K, P> {
    /// Starts the run. `args` are the arguments of the program.
    ///
    /// # Errors
    /// The errors of [`Stream::run_workers`].
    #[track_caller]
    pub fn run<'a, A: ArgsFor<'a, P>>(&self, args: A) -> Result<Run> {
        let Self { program, stream, graph, options } = self;
        let graph = stream.load_graph(graph)?;
        stream.run_workers(program, Work::Graph(&graph), options, args)
    }
}

/// A task that is a node of a run of workers.
pub(super) struct NodeBody {
    pub(super) bound: Arc<BoundData>,
    pub(super) kind: u8,
    pub(super) fields: [u64; FIELDS],
}

fn refused(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "task", cause)
}

impl BoundData {
    /// Returns the body of a task of kind `kind`. Refuses a task that uses bytes to which the
    /// program is not bound.
    pub(super) fn node(
        self: &Arc<Self>,
        kind: u8,
        words: &[u64],
        core: u64,
        place: Option<usize>,
        uses: &[DeclaredUse],
    ) -> Result<NodeBody> {
        let Self { name, kinds, data, .. } = &**self;
        if core != self.core {
            return Err(refused(format!(
                "`{name}` is bound to data of another `Tasks`; bind it again in this one"
            )));
        }
        if usize::from(kind) >= *kinds {
            return Err(refused(format!("there is no kind {kind}; `{name}` has {kinds} kinds")));
        }
        if words.len() > FIELDS {
            let len = words.len();
            return Err(refused(format!("{len} fields are given; the limit is {FIELDS}")));
        }
        if let Some(place) = place.filter(|place| *place != self.place) {
            let own = self.place;
            return Err(refused(format!(
                "the task is on device {place}, but `{name}` is on device {own}"
            )));
        }
        for one in uses {
            if one.reduces {
                let cause = "a task for workers cannot declare a reduction; use atomic operations in the body";
                return Err(refused(cause.to_owned()));
            }
            let is_there = data.all().iter().any(|of| {
                of.number == one.number
                    && of.range.start <= one.range.start
                    && one.range.end <= of.range.end
                    && (of.mode.writes() || !one.mode.writes())
            });
            if !is_there && !one.range.is_empty() {
                let how = if one.mode.writes() { "write" } else { "read" };
                let (datum, range) = (&one.name, &one.range);
                return Err(refused(format!(
                    "the task is to {how} bytes {} to {} of {datum}, but the `bind` of `{name}` \
                     does not declare this use; add the bytes to that `bind`",
                    range.start, range.end
                )));
            }
        }
        let mut fields = [0; FIELDS];
        fields[..words.len()].copy_from_slice(words);
        Ok(NodeBody { bound: Arc::clone(self), kind, fields })
    }
}
