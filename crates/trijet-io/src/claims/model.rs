//! A model of the protocol of claims, explored completely: three processes, a server, crashes,
//! processes that are cut off for longer than their lease and come back, old views of the folder,
//! and answers of the server that are lost.
//!
//! The model takes every decision with the code of the program (`decision.rs`). A state has the
//! files of the server and the position of each process. Each step is one call on files, so the
//! exploration has every order of these calls. Time passes for each process by itself: a lease may
//! run out for one process at any time, and no step compares the clocks of two processes.

use super::decision::{
    Beat, ClaimAction, ClaimWatch, FolderLook, Opening, OpeningLook, Owner, RangeClaim, Take,
};
use std::collections::{HashMap, VecDeque};

const LEASE: u64 = 1;

/// A fault of the protocol that the exploration must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// A process publishes when it has no range left, without a look at the others.
    PublishUnchecked,
    /// A range is marked as done before its bytes are on the disk.
    DoneBeforeSync,
    /// The partial output is created without the check that there is none.
    PartialReplaced,
    /// The output replaces whatever has the final name.
    OutputReplaced,
    /// A claim never falls back.
    NoLease,
    /// A process does not recognise its own claim after a lost answer.
    OwnClaimUnknown,
}

/// The part of the protocol that is explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scope {
    processes: usize,
    ranges: usize,
    crashes: usize,
    /// States with this number of attempts at one range are not continued.
    attempts_max: usize,
    /// Whether the processes open the job, or begin with an open partial output.
    is_opening: bool,
    mutant: Mutant,
}

/// The files of the folder of claims.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Folder {
    /// For each range, the owners of its claims in the order of the attempts.
    claims: Vec<Vec<Owner>>,
    done: Vec<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    Start,
    Record {
        had_partial: bool,
    },
    Check {
        is_first: bool,
        had_partial: bool,
    },
    Create,
    Open,
    Look,
    Claim(Take),
    /// The bytes of the range are computed, and a crash loses them.
    Sync(usize),
    Done(usize),
    Publish,
    Rename,
    Sweep,
    End,
    Failed,
    Crashed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    at: At,
    watch: ClaimWatch,
    /// The partial output that this process has open.
    partial: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelState {
    folder: Option<Folder>,
    partial: Option<usize>,
    out: Option<usize>,
    /// For each partial output that was ever created, the ranges that are on its disk.
    contents: Vec<Vec<bool>>,
    crashes: usize,
    processes: Vec<Process>,
}

/// The kind of a step, as far as the judgement depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Call,
    Crash,
}

/// A multiple of every number of ranges, so that all processes begin at the same range.
const STRIDE: usize = 2;

fn owner_of(index: usize) -> Owner {
    (index * STRIDE) as Owner
}

impl ModelState {
    fn new(scope: Scope) -> Self {
        let process = |index| Process {
            at: if scope.is_opening { At::Start } else { At::Look },
            watch: ClaimWatch::new(owner_of(index), LEASE, scope.ranges),
            partial: (!scope.is_opening).then_some(0),
        };
        let folder =
            Folder { claims: vec![Vec::new(); scope.ranges], done: vec![false; scope.ranges] };
        Self {
            folder: (!scope.is_opening).then_some(folder),
            partial: (!scope.is_opening).then_some(0),
            out: None,
            contents: if scope.is_opening { vec![] } else { vec![vec![false; scope.ranges]] },
            crashes: 0,
            processes: (0..scope.processes).map(process).collect(),
        }
    }

    /// The folder as it is now.
    fn look(&self, folder: &Folder) -> FolderLook {
        let range = |(claims, done): (&Vec<Owner>, &bool)| match (claims.split_last(), done) {
            (_, true) => RangeClaim::Done,
            (None, false) => RangeClaim::Free,
            (Some((last, earlier)), false) => RangeClaim::Claimed {
                attempt: u32::try_from(earlier.len()).unwrap(),
                owner: Some(*last),
            },
        };
        let ranges = folder.claims.iter().zip(&folder.done).map(range).collect();
        let beat = |(index, process): (usize, &Process)| {
            let is_over = matches!(process.at, At::End | At::Failed);
            (owner_of(index), Beat { count: 0, is_over })
        };
        FolderLook { ranges, beats: self.processes.iter().enumerate().map(beat).collect() }
    }

    /// Every look that the process may get: each range is as it is now, or as this process already
    /// knows it. An older state would tell the process nothing, because it keeps the latest one.
    fn looks(&self, index: usize, folder: &Folder) -> Vec<FolderLook> {
        let (now, old) = (self.look(folder), self.processes[index].watch.ranges());
        let mut looks = Vec::new();
        for mixture in 0..1_usize << now.ranges.len() {
            let mut look = now.clone();
            for (range, known) in old.iter().enumerate() {
                if mixture >> range & 1 == 1 {
                    look.ranges[range] = *known;
                }
            }
            if !looks.contains(&look) {
                looks.push(look);
            }
        }
        looks
    }

    fn with(&self, index: usize, at: At) -> Self {
        let mut next = self.clone();
        if matches!(at, At::End | At::Failed | At::Crashed) {
            next.processes[index].forget();
        }
        next.processes[index].at = at;
        next
    }

    /// The same state with the processes in a fixed order. Processes differ only in their numbers.
    fn sorted(mut self) -> Self {
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by_key(|index| self.processes[*index].at.clone());
        let of = |owner: Owner| {
            let old = usize::try_from(owner).unwrap() / STRIDE;
            owner_of(order.iter().position(|index| *index == old).unwrap())
        };
        for claims in self.folder.iter_mut().flat_map(|folder| &mut folder.claims) {
            claims.iter_mut().for_each(|owner| *owner = of(*owner));
        }
        let renamed = |index: &usize| {
            let mut process = self.processes[*index].clone();
            process.watch.rename(of);
            process
        };
        self.processes = order.iter().map(renamed).collect();
        self
    }

    /// The states after one step of each process.
    fn next(&self, scope: Scope) -> Vec<(StepKind, Self)> {
        let mut found = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            if matches!(process.at, At::End | At::Failed | At::Crashed) {
                continue;
            }
            let calls = self.calls(index, scope);
            found.extend(calls.into_iter().map(|next| (StepKind::Call, next)));
            if self.crashes < scope.crashes {
                let mut next = self.with(index, At::Crashed);
                next.crashes += 1;
                found.push((StepKind::Crash, next));
            }
        }
        found
    }

    /// The states after the next call of a process, one for each answer that it may get.
    fn calls(&self, index: usize, scope: Scope) -> Vec<Self> {
        let process = &self.processes[index];
        match process.at.clone() {
            At::Start => [false, true].map(|is_old| self.start(index, is_old)).to_vec(),
            At::Record { had_partial } => {
                let mut next = self.with(index, At::Start);
                let is_first = self.folder.is_none();
                next.folder.get_or_insert_with(|| Folder {
                    claims: vec![Vec::new(); scope.ranges],
                    done: vec![false; scope.ranges],
                });
                next.processes[index].at = At::Check { is_first, had_partial };
                let mut lost = next.clone();
                lost.processes[index].at = At::Check { is_first: false, had_partial };
                vec![next, lost]
            }
            At::Check { is_first, had_partial } => {
                [false, true].map(|is_old| self.check(index, is_first, had_partial, is_old)).into()
            }
            At::Create => vec![self.create(index, scope)],
            At::Open => vec![match self.partial {
                None => self.with(index, At::Start),
                Some(number) => {
                    let mut next = self.with(index, At::Look);
                    next.processes[index].partial = Some(number);
                    next
                }
            }],
            At::Look => self.decided(index, scope),
            At::Claim(take) => self.claimed(index, take, scope),
            At::Sync(range) => {
                let mut next = self.clone();
                let number = self.processes[index].partial;
                next.contents[number.expect("a process writes to an open output")][range] = true;
                next.processes[index].at = At::Look;
                // No other process sees whether the bytes are on the disk, so both calls are one
                // step.
                if scope.mutant != Mutant::DoneBeforeSync {
                    next.mark_done(index, range);
                }
                vec![next]
            }
            At::Done(range) => {
                let mut next = self.with(index, At::Sync(range));
                next.mark_done(index, range);
                vec![next]
            }
            At::Publish | At::Rename | At::Sweep => self.published(index, scope),
            At::End | At::Failed | At::Crashed => Vec::new(),
        }
    }

    fn start(&self, index: usize, is_old: bool) -> Self {
        match self.out {
            Some(_) if !is_old => self.with(index, At::End),
            _ => self.with(index, At::Record { had_partial: self.partial.is_some() && !is_old }),
        }
    }

    fn check(&self, index: usize, is_first: bool, had_partial: bool, is_old: bool) -> Self {
        let look = OpeningLook {
            has_output: self.out.is_some() && !is_old,
            is_first,
            has_partial: self.partial.is_some() && !is_old,
            had_partial,
            has_done: self.folder.as_ref().is_some_and(|folder| folder.done.contains(&true)),
        };
        self.with(
            index,
            match look.decide() {
                Opening::Taken => At::End,
                Opening::Foreign => At::Failed,
                Opening::Lost => At::Start,
                Opening::Create => At::Create,
                Opening::Open => At::Open,
            },
        )
    }

    fn create(&self, index: usize, scope: Scope) -> Self {
        let mut next = self.with(index, At::Open);
        if self.partial.is_none() || scope.mutant == Mutant::PartialReplaced {
            next.partial = Some(next.contents.len());
            next.contents.push(vec![false; scope.ranges]);
        }
        next
    }

    fn mark_done(&mut self, index: usize, range: usize) {
        if let Some(folder) = &mut self.folder {
            folder.done[range] = true;
        }
        self.processes[index].watch.done(range);
    }

    /// A look at the folder, and the decision that follows from it. The lease of each claim may
    /// have run out before.
    fn decided(&self, index: usize, scope: Scope) -> Vec<Self> {
        let Some(folder) = &self.folder else {
            // The folder is gone: another process has published the output.
            return vec![self.with(index, At::End)];
        };
        let mut found = Vec::new();
        for look in self.looks(index, folder) {
            for passes in [false, true] {
                let mut next = self.clone();
                let process = &mut next.processes[index];
                if passes && scope.mutant != Mutant::NoLease {
                    process.watch.pass(1);
                }
                let action = process.watch.next(&look, LEASE);
                process.at = process.after(action, index, scope);
                found.push(next);
            }
        }
        found
    }

    /// The creation of a claim. The answer may be lost, and the call is then made again and fails.
    fn claimed(&self, index: usize, take: Take, scope: Scope) -> Vec<Self> {
        let Some(folder) = &self.folder else { return vec![self.with(index, At::End)] };
        let attempts = folder.claims[take.range].len();
        let attempt = usize::try_from(take.attempt).unwrap();
        let is_own = folder.claims[take.range].get(attempt) == Some(&owner_of(index));
        let computed = match scope.mutant {
            Mutant::DoneBeforeSync => At::Done(take.range),
            _ => At::Sync(take.range),
        };
        if attempts > attempt {
            return vec![self.with(index, if is_own { computed } else { At::Look })];
        }
        if attempts >= scope.attempts_max {
            return Vec::new();
        }
        let mut next = self.with(index, computed);
        let claims = &mut next.folder.as_mut().expect("the folder exists").claims[take.range];
        // A process that saw an older folder may skip an attempt. The list has no gaps, because a
        // process tries an attempt only after it saw the one before.
        claims.push(owner_of(index));
        let mut lost = next.clone();
        lost.processes[index].at = At::Look;
        vec![next, lost]
    }

    /// Gives the output its final name, and removes the folder of claims.
    fn published(&self, index: usize, scope: Scope) -> Vec<Self> {
        let own = self.processes[index].partial;
        let is_at = self.partial.is_some() && self.partial == own;
        match self.processes[index].at {
            At::Publish if is_at => vec![self.with(index, At::Rename)],
            At::Publish if self.out.is_some() => vec![self.with(index, At::Sweep)],
            At::Publish => vec![self.with(index, At::Start)],
            At::Rename => {
                let mut next = self.with(index, At::Sweep);
                if self.partial.is_some()
                    && (self.out.is_none() || scope.mutant == Mutant::OutputReplaced)
                {
                    next.out = next.partial.take();
                }
                vec![next]
            }
            _ => {
                let mut next = self.with(index, At::End);
                next.folder = None;
                if next.out.is_some() {
                    next.partial = None;
                }
                vec![next]
            }
        }
    }
}

impl Process {
    /// Forgets what does not matter after the end of the process, so that states are equal.
    fn forget(&mut self) {
        self.watch = ClaimWatch::new(0, LEASE, self.watch.ranges().len());
        self.partial = None;
    }

    fn after(&self, action: ClaimAction, index: usize, scope: Scope) -> At {
        match action {
            ClaimAction::Publish => At::Publish,
            ClaimAction::Wait if scope.mutant == Mutant::PublishUnchecked => At::Publish,
            ClaimAction::Wait => At::Look,
            ClaimAction::Take(takes) => {
                let is_own = self.watch.ranges().get(takes[0].range).is_some_and(|range| {
                    matches!(range, RangeClaim::Claimed { owner, .. } if *owner == Some(owner_of(index)))
                });
                if is_own && scope.mutant == Mutant::OwnClaimUnknown {
                    return At::Look;
                }
                At::Claim(takes[0])
            }
        }
    }
}

/// The reason why a step breaks a law; `None` if it breaks none.
fn broken(before: &ModelState, after: &ModelState) -> Option<&'static str> {
    let is_whole = |number: usize| after.contents[number].iter().all(|is_there| *is_there);
    if after.out.is_some_and(|number| !is_whole(number)) {
        return Some("the output has its final name and lacks a range");
    }
    if before.out.is_some() && before.out != after.out {
        return Some("another output has replaced the output");
    }
    let has_failed = after.processes.iter().any(|process| process.at == At::Failed);
    if has_failed && after.out.is_none() {
        return Some("a process has given up, and the output does not have its name");
    }
    None
}

/// Explores every state. Returns their number, or the law that is broken.
fn explore(scope: Scope) -> Result<usize, &'static str> {
    let first = ModelState::new(scope).sorted();
    let mut numbers = HashMap::from([(first.clone(), 0_usize)]);
    let mut queue = VecDeque::from([first]);
    let mut earlier: Vec<Vec<usize>> = vec![Vec::new()];
    let (mut goals, mut at_limit) = (Vec::new(), Vec::new());
    let mut needs = vec![true];
    while let Some(state) = queue.pop_front() {
        let number = numbers[&state];
        if state.out.is_some() {
            goals.push(number);
        }
        let claims = state.folder.iter().flat_map(|folder| &folder.claims);
        if claims.map(Vec::len).any(|attempts| attempts >= scope.attempts_max) {
            at_limit.push(number);
        }
        needs[number] = state.processes.iter().any(|process| process.at != At::Crashed);
        for (kind, next) in state.next(scope) {
            if let Some(law) = broken(&state, &next) {
                return Err(law);
            }
            let next = next.sorted();
            let known = numbers.len();
            let to = *numbers.entry(next.clone()).or_insert(known);
            if to == known {
                earlier.push(Vec::new());
                needs.push(true);
                queue.push_back(next);
            }
            if kind == StepKind::Call {
                earlier[to].push(number);
            }
        }
    }
    // Every state with a living process leads to an output.
    let mut reaches = vec![false; numbers.len()];
    let mut found: Vec<usize> = goals.into_iter().chain(at_limit).collect();
    while let Some(number) = found.pop() {
        if !std::mem::replace(&mut reaches[number], true) {
            found.extend(&earlier[number]);
        }
    }
    match (0..numbers.len()).any(|number| needs[number] && !reaches[number]) {
        true => Err("a state with a living process leads to no output"),
        false => Ok(numbers.len()),
    }
}

/// Three processes open the job, and publish its output.
const OPENING: Scope = Scope {
    processes: 3,
    ranges: 1,
    crashes: 2,
    attempts_max: 2,
    is_opening: true,
    mutant: Mutant::None,
};
/// Three processes take one range from each other.
const ONE_RANGE: Scope = Scope { is_opening: false, attempts_max: 3, ..OPENING };
const TWO_RANGES: Scope = Scope { processes: 2, ranges: 2, crashes: 1, ..ONE_RANGE };
/// 418455 states, which take half a minute.
const ALL: Scope = Scope { processes: 3, crashes: 2, attempts_max: 2, ..TWO_RANGES };

#[test]
fn every_order_of_calls_ends_with_the_whole_output() {
    let is_thorough = std::env::var("TRIJET_CLAIMS").is_ok_and(|value| value == "all");
    for scope in [OPENING, ONE_RANGE, TWO_RANGES].into_iter().chain(is_thorough.then_some(ALL)) {
        let states = explore(scope).unwrap_or_else(|law| panic!("{scope:?}: {law}"));
        println!("{states} states of {scope:?}");
    }
}

#[test]
fn every_fault_of_the_protocol_is_found() {
    let faults = [
        (TWO_RANGES, Mutant::PublishUnchecked, "lacks a range"),
        (ONE_RANGE, Mutant::DoneBeforeSync, "lacks a range"),
        (OPENING, Mutant::PartialReplaced, "lacks a range"),
        (OPENING, Mutant::OutputReplaced, "lacks a range"),
        (ONE_RANGE, Mutant::NoLease, "leads to no output"),
        (ONE_RANGE, Mutant::OwnClaimUnknown, "leads to no output"),
    ];
    for (scope, mutant, law) in faults {
        let found = explore(Scope { mutant, ..scope }).expect_err("the fault has a consequence");
        assert!(found.contains(law), "{mutant:?}: {found}");
    }
}
