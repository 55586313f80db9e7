//! The issue of tasks: chooses the next task and its stream, and notes how the order of the task
//! after earlier tasks is kept.
#![forbid(unsafe_code)]

use super::declared::StreamBody;
use super::lanes::Predecessor;
use super::region::RegionIssue;
use super::region::RunIssue;
use super::state::State;
use super::task_state::{
    Hazard, HostBody, KeptBy, Name, Number, TaskBody, TaskProgress, TaskState, UNNAMED,
};
use crate::base::error::Result;
use crate::order::domain::Domain;
use crate::stream::Stream;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::Arc;

/// Maximum number of ready tasks that are examined to find another task that should continue the
/// stream of an earlier task.
const HEIRS_MAX: usize = 32;

/// The next task, region or run to issue.
pub(super) enum Issued {
    Task(TaskIssue),
    Region(RegionIssue),
    Run(RunIssue),
}

/// The next task to issue, and its stream.
pub(super) struct TaskIssue {
    pub(super) number: Number,
    pub(super) lane: usize,
    pub(super) stream: Arc<Stream>,
    /// The name of the task, if the task has a name and a trace is on.
    pub(super) name: Option<Name>,
    pub(super) body: StreamBody,
}

impl State {
    /// Whether a task or a region may be issued.
    pub(super) fn may_issue(&self, look_ahead: usize) -> bool {
        !self.regions.ready.is_empty() || !self.ready.is_empty() && !self.holds_back(look_ahead)
    }

    /// Whether the ready tasks are held back. Four conditions must hold: at most `look_ahead` tasks
    /// are not issued, no thread waits for tasks, a handle is left, and no ready task is due.
    fn holds_back(&self, look_ahead: usize) -> bool {
        let is_due = |(_, Reverse(number)): &(_, Reverse<Number>)| *number <= self.due;
        let is_asked = self.waiting > 0 || self.is_closing;
        self.unissued <= look_ahead && !is_asked && !self.ready.iter().any(is_due)
    }

    /// The next task, region or run to issue. `None` if nothing is ready or the ready tasks are
    /// held back.
    pub(super) fn next(&mut self, look_ahead: usize, domain: &Domain) -> Option<Issued> {
        if let Some(region) = self.next_region(domain) {
            return Some(region);
        }
        loop {
            if self.holds_back(look_ahead) {
                return None;
            }
            let (_, Reverse(number)) = self.ready.pop()?;
            let Some(task) = self.task(number) else { continue };
            if task.progress != TaskProgress::Ready {
                continue;
            }
            let (lane, stream) = match self.choose(number) {
                Ok(chosen) => chosen,
                Err(error) => {
                    self.returned(number, Err(error), None);
                    continue;
                }
            };
            self.order_edges(number, lane, &stream, domain);
            let task = self.task_mut(number)?;
            task.progress = TaskProgress::Running;
            task.lane = Some(lane);
            let is_traced = task.name != UNNAMED && domain.log().tracers.is_on();
            match task.body.take() {
                Some(TaskBody::Stream(body)) => {
                    let name = is_traced.then(|| task.name.clone());
                    return Some(Issued::Task(TaskIssue { number, lane, stream, name, body }));
                }
                Some(TaskBody::Node(node)) => {
                    let (bound, members) = (Arc::clone(&node.bound), vec![(number, node)]);
                    let edges = Vec::new();
                    return Some(Issued::Run(RunIssue { bound, members, edges, lane, stream }));
                }
                Some(TaskBody::Host(_)) | None => continue,
            }
        }
    }

    fn choose(&mut self, number: Number) -> Result<(usize, Arc<Stream>)> {
        let Some(task) = self.task(number) else { unreachable!("task {number} is ready") };
        let serves = task.serves;
        let own = task.successors.len();
        // Tasks that reduce into the same bytes should run at the same time. So a task of a
        // reduction does not continue the stream of another task of this reduction.
        let continued = task.edges.iter().filter(|edge| edge.hazard != Hazard::Reduction);
        let predecessors: SmallVec<[Predecessor; 4]> = continued
            .filter_map(|edge| {
                let from = self.task(edge.from)?;
                // A task that is over has no `successors` any more. So the search looks for the
                // earlier task in the edges of the ready tasks.
                let has_other_heir =
                    self.ready.iter().take(HEIRS_MAX).any(|(_, Reverse(other))| {
                        self.task(*other).is_some_and(|other| {
                            other.successors.len() > own
                                && other.edges.iter().any(|other| other.from == edge.from)
                        })
                    });
                Some(Predecessor { number: edge.from, lane: from.lane?, has_other_heir })
            })
            .collect();
        let lane = self.lanes.choose(predecessors.into_iter(), serves)?;
        self.counts.streams = self.lanes.count();
        Ok((lane, Arc::clone(self.lanes.stream(lane))))
    }

    /// For each earlier task that a task comes after, notes how this order is kept on the stream of
    /// the task.
    pub(super) fn order_edges(
        &mut self,
        number: Number,
        lane: usize,
        stream: &Stream,
        domain: &Domain,
    ) {
        let Some(task) = self.task_mut(number) else { return };
        let mut edges = std::mem::take(&mut task.edges);
        for edge in &mut edges {
            edge.kept_by = self.task(edge.from).map(|from| match (from.lane, from.end) {
                (None, _) => KeptBy::HeldBack,
                (Some(earlier), _) if earlier == lane => KeptBy::SameStream,
                (Some(_), None) => KeptBy::Complete,
                (Some(_), Some(end)) if stream.lane().lane().covers(&[end]) => KeptBy::Implied,
                (Some(_), Some(end)) if domain.is_done(end) => KeptBy::Complete,
                (Some(_), Some(_)) => KeptBy::Waits,
            });
        }
        if let Some(task) = self.task_mut(number) {
            task.edges = edges;
        }
    }

    /// Takes the next task for the host that may run, with its function.
    pub(super) fn next_on_host(&mut self) -> Option<(Number, HostBody)> {
        loop {
            let number = self.ready_on_host.pop_front()?;
            let Some(task) = self.task(number) else { continue };
            if task.progress != TaskProgress::Ready {
                continue;
            }
            let kept_by = |from: Option<&TaskState>| match from {
                Some(from) if from.is_host => KeptBy::HeldBack,
                Some(_) => KeptBy::HostWaits,
                None => KeptBy::Complete,
            };
            let all: SmallVec<[KeptBy; 4]> =
                task.edges.iter().map(|edge| kept_by(self.task(edge.from))).collect();
            let task = self.task_mut(number)?;
            for (edge, kept_by) in task.edges.iter_mut().zip(all) {
                edge.kept_by = Some(kept_by);
            }
            task.progress = TaskProgress::Running;
            match task.body.take() {
                Some(TaskBody::Host(body)) => return Some((number, body)),
                Some(TaskBody::Stream(_) | TaskBody::Node(_)) | None => continue,
            }
        }
    }
}
