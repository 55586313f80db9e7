//! Regions in the state of tasks: the tasks that hold a region back, and the issue of a region as a
//! graph.
#![forbid(unsafe_code)]

use super::bound::BoundData;
use super::declared::DeclaredUse;
use super::issue::Issued;
use super::lanes::{Group, Predecessor};
use super::region::RunIssue;
use super::region::{Member, Region, RegionIssue};
use super::state::State;
use super::task_state::{KeptBy, New, Number, TaskBody, TaskProgress};
use crate::base::error::Result;
use crate::order::domain::Domain;
use crate::stream::Stream;
use smallvec::SmallVec;
use std::hash::Hasher;
use std::sync::Arc;

impl State {
    /// Begins a region, and returns its number. The tasks of the region are held back until the
    /// region is closed.
    pub(super) fn open_region(&mut self) -> u64 {
        self.regions.next += 1;
        let number = self.regions.next;
        self.regions.all.insert(number, Region::default());
        number
    }

    /// Notes the uses of a task in its region, before the task is added.
    pub(super) fn note_member(&mut self, region: u64, new: &New, declared: &[DeclaredUse]) {
        if let Some(region) = self.regions.all.get_mut(&region) {
            region.note(new, declared);
        }
    }

    /// Adds a task to its region. `blockers` are the earlier tasks that hold the task back.
    pub(super) fn join_region(&mut self, region: u64, number: Number, blockers: &[Number]) {
        let Some(known) = self.regions.all.get(&region) else { return };
        let first = known.members.first().copied().unwrap_or(number);
        let outside = blockers.iter().filter(|one| self.region_of(**one) != Some(region));
        let (count, is_mixed) =
            outside.fold((0, false), |(count, mixed), one| (count + 1, mixed || *one > first));
        let place = self.task(number).map_or(0, |task| task.serves.0);
        let first_place = self.task(first).map_or(place, |task| task.serves.0);
        let Some(known) = self.regions.all.get_mut(&region) else { return };
        known.blockers += count;
        known.members.push(number);
        // A task outside of the region may have been submitted after a member. This task may wait
        // for that member, and a later member may wait for this task. Then the region as a whole
        // would never start, so its members are issued one by one. A graph has one device, so
        // members on several devices are issued one by one too.
        known.is_loose |= is_mixed || place != first_place;
    }

    /// The number of the region for which a task is held back, if any.
    pub(super) fn region_of(&self, number: Number) -> Option<u64> {
        self.task(number)?.region.filter(|region| self.regions.all.contains_key(region))
    }

    /// Notes that a task outside of the region no longer holds back a member of the region.
    pub(super) fn unblock_region(&mut self, region: u64) {
        let Some(known) = self.regions.all.get_mut(&region) else { return };
        known.blockers -= 1;
        if known.is_closed && known.blockers == 0 {
            self.regions.ready.push(region);
        }
    }

    /// Closes a region after the submission of its last task.
    pub(super) fn close_region(&mut self, region: u64, checks_reads: bool) {
        let is_given = self.lanes.is_given();
        let Some(known) = self.regions.all.get_mut(&region) else { return };
        // A stream of the program may be in capture. The check of reads needs host functions, which
        // a region cannot have. In both cases, the tasks are issued one by one.
        known.is_loose |= (is_given || checks_reads) && known.workers.is_none();
        known.is_closed = true;
        self.counts.regions += u64::from(!known.members.is_empty());
        if known.is_loose || known.members.is_empty() {
            self.dissolve(region);
        } else if known.blockers == 0 {
            self.regions.ready.push(region);
        }
    }

    /// Lets the submitted tasks of open regions be issued, before these regions are closed. Called
    /// when a thread waits for tasks.
    pub(super) fn end_open(&mut self) {
        let open = self.regions.all.iter().filter(|(_, region)| !region.is_closed);
        let open: Vec<u64> = open.map(|(number, _)| *number).collect();
        for region in open {
            let Some(known) = self.regions.all.get_mut(&region) else { continue };
            if known.workers.is_some() && !known.is_loose {
                let begun = std::mem::take(known);
                self.split(begun);
            } else {
                self.dissolve(region);
            }
        }
    }

    /// Moves the tasks of an open region of workers to a new region, and closes the new region.
    fn split(&mut self, begun: Region) {
        let number = self.open_region();
        for member in &begun.members {
            if let Some(task) = self.task_mut(*member) {
                task.region = Some(number);
            }
        }
        self.regions.all.insert(number, begun);
        self.close_region(number, false);
    }

    /// Removes a region, and lets its members be issued one by one.
    fn dissolve(&mut self, region: u64) {
        let Some(mut known) = self.regions.all.remove(&region) else { return };
        let members = std::mem::take(&mut known.members);
        self.discard(Some(known));
        for number in members {
            let Some(task) = self.task_mut(number) else { continue };
            task.region = None;
            if task.blockers == 0 && task.progress == TaskProgress::Blocked {
                self.unblock(number);
            }
        }
    }

    /// The next region to issue, as a graph or as a run of workers. `None` if no region is ready.
    pub(super) fn next_region(&mut self, domain: &Domain) -> Option<Issued> {
        while let Some(region) = self.regions.ready.pop() {
            let Some(known) = self.regions.all.get(&region) else { continue };
            let has_end = |number: &Number| {
                self.task(*number).is_none_or(|task| task.failure.is_some() || task.is_cancelled)
            };
            // A task that failed or was cancelled has no operations, so the graph would differ from
            // the other graphs of the region.
            if known.members.iter().any(has_end) {
                self.dissolve(region);
                continue;
            }
            match self.choose_for_region(region) {
                Ok((lane, stream)) => {
                    if let Some(issue) = self.issue_region(region, lane, stream, domain) {
                        return Some(issue);
                    }
                }
                // The same error is then reported for each task, when a stream is chosen for the
                // task.
                Err(_) => self.dissolve(region),
            }
        }
        None
    }

    fn choose_for_region(&mut self, region: u64) -> Result<(usize, Arc<Stream>)> {
        let members = self.regions.all.get(&region).map_or(&[][..], |known| &known.members);
        let (mut predecessors, mut serves) = (SmallVec::<[Predecessor; 8]>::new(), None);
        for number in members {
            let Some(task) = self.task(*number) else { continue };
            serves.get_or_insert(task.serves);
            for edge in &task.edges {
                let lane = self.task(edge.from).and_then(|from| from.lane);
                predecessors.extend(lane.map(|lane| Predecessor {
                    number: edge.from,
                    lane,
                    has_other_heir: false,
                }));
            }
        }
        let serves = serves.unwrap_or((0, Group::Work { is_urgent: false }));
        let lane = self.lanes.choose(predecessors.into_iter(), serves)?;
        self.counts.streams = self.lanes.count();
        Ok((lane, Arc::clone(self.lanes.stream(lane))))
    }

    fn issue_region(
        &mut self,
        region: u64,
        lane: usize,
        stream: Arc<Stream>,
        domain: &Domain,
    ) -> Option<Issued> {
        let known = self.regions.all.remove(&region)?;
        let Region { members: numbers, data, hasher, workers, .. } = known;
        if let Some(bound) = workers {
            return Some(Issued::Run(self.issue_run(&numbers, bound, lane, stream, domain)));
        }
        let mut members = Vec::with_capacity(numbers.len());
        for number in &numbers {
            self.order_edges(*number, lane, &stream, domain);
            let task = self.task_mut(*number)?;
            let mut reads = SmallVec::new();
            for edge in &mut task.edges {
                if let Ok(at) = numbers.binary_search(&edge.from) {
                    edge.kept_by = Some(KeptBy::Graph);
                    if edge.hazard.reads() {
                        reads.push(at);
                    }
                }
            }
            task.progress = TaskProgress::Running;
            task.lane = Some(lane);
            task.region = None;
            if let Some(TaskBody::Stream(body)) = task.body.take() {
                members.push(Member { number: *number, body, reads });
            }
        }
        let place = self.task(numbers[0])?.serves.0;
        let key = hasher.finish();
        Some(Issued::Region(RegionIssue { key, members, data, lane, place, stream }))
    }

    /// Makes a run of workers with the members of a region as its nodes.
    fn issue_run(
        &mut self,
        numbers: &[Number],
        bound: Arc<BoundData>,
        lane: usize,
        stream: Arc<Stream>,
        domain: &Domain,
    ) -> RunIssue {
        let (mut members, mut edges) = (Vec::with_capacity(numbers.len()), Vec::new());
        for (at, number) in numbers.iter().enumerate() {
            self.order_edges(*number, lane, &stream, domain);
            let Some(task) = self.task_mut(*number) else { continue };
            let first = edges.len();
            for edge in &mut task.edges {
                if let Ok(from) = numbers.binary_search(&edge.from) {
                    edge.kept_by = Some(KeptBy::Workers);
                    if !edges[first..].contains(&(from, at)) {
                        edges.push((from, at));
                    }
                }
            }
            task.progress = TaskProgress::Running;
            task.lane = Some(lane);
            task.region = None;
            if let Some(TaskBody::Node(node)) = task.body.take() {
                members.push((*number, node));
            }
        }
        RunIssue { bound, members, edges, lane, stream }
    }
}
