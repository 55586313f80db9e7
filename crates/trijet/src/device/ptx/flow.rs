//! The functions of a module and their calls. An entry waits (`griddepcontrol.wait`) if the entry
//! itself or a function that it calls has a wait.
//!
//! The paths through a function decide what an entry may do before its wait (`path.rs`).
#![forbid(unsafe_code)]

use super::facts::{Demands, Entry};
use super::path::{Step, StepKind, Unwaited, unwaited};
use super::shared::{Variable, laid_out};
use std::collections::{HashMap, HashSet};

/// A part of a function's text that the rules for PTX look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FlowEvent<'a> {
    /// `griddepcontrol.wait`.
    Wait,
    /// `griddepcontrol.launch_dependents`.
    Trigger,
    /// A call. The word is the name of the function, or a register.
    Call(&'a str),
    /// Another word: perhaps the name of a variable or a function.
    Name(&'a str),
}

/// An entry or a function.
#[derive(Debug, Default)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) is_entry: bool,
    pub(super) demands: Demands,
    pub(super) events: Vec<FlowEvent<'a>>,
    /// The steps that form the paths through the function.
    pub(super) steps: Vec<Step<'a>>,
    /// The words of all [`FlowEvent::Name`] events of the function.
    pub(super) words: HashSet<&'a str>,
    pub(super) shared: Vec<Variable<'a>>,
}

impl<'a> Function<'a> {
    /// Adds a word to `words` and to the events, unless the function has the word already.
    pub(super) fn names(&mut self, word: &'a str) {
        if self.words.insert(word) {
            self.events.push(FlowEvent::Name(word));
        }
    }
}

/// The functions and variables of a module.
#[derive(Debug, Default)]
pub(super) struct Flow<'a> {
    pub(super) functions: Vec<Function<'a>>,
    /// The `.alias` directives: for each, the other name and the name of the function.
    pub(super) aliases: Vec<(&'a str, &'a str)>,
    /// The variables in shared memory that are declared outside of functions.
    pub(super) shared: Vec<Variable<'a>>,
}

impl Flow<'_> {
    /// The facts about each entry. The facts include the functions that the entry can reach.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, function) in self.functions.iter().enumerate() {
            if !function.is_entry {
                by_name.entry(function.name).or_default().push(number);
            }
        }
        for (alias, name) in &self.aliases {
            if let Some(numbers) = by_name.get(name).cloned() {
                let all = by_name.entry(alias).or_default();
                all.extend(numbers);
                all.sort_unstable();
                all.dedup();
            }
        }
        let unwaited = self.unwaited(&by_name);
        let entries = self
            .functions
            .iter()
            .enumerate()
            .filter(|(_, function)| function.is_entry && !function.name.is_empty());
        entries.map(|(number, _)| self.entry(number, &by_name, &unwaited[number])).collect()
    }

    /// For each function, its actions before it waits. If no function of the module waits, the
    /// actions are left empty, because no rule needs them.
    fn unwaited(&self, by_name: &HashMap<&str, Vec<usize>>) -> Vec<Unwaited> {
        let mut known = vec![Unwaited::default(); self.functions.len()];
        let waits = |step: &Step<'_>| step.kind == StepKind::Wait;
        if !self.functions.iter().any(|function| function.steps.iter().any(waits)) {
            return known;
        }
        let every: Vec<usize> = by_name.values().flatten().copied().collect();
        // A function that is only declared has no steps. Each round uses the results of the
        // previous round. The loop ends, because the result of a function changes at most twice.
        loop {
            let mut is_changed = false;
            for (number, function) in self.functions.iter().enumerate().rev() {
                let called = |word: &str| {
                    let numbers = match by_name.get(word) {
                        Some(numbers) => numbers,
                        None if word.starts_with('%') => &every,
                        None => return Vec::new(),
                    };
                    numbers.iter().map(|number| &known[*number]).collect()
                };
                let found = unwaited(&function.steps, called);
                is_changed |= found != known[number];
                known[number] = found;
            }
            if !is_changed {
                return known;
            }
        }
    }

    fn entry(
        &self,
        number: usize,
        by_name: &HashMap<&str, Vec<usize>>,
        unwaited: &Unwaited,
    ) -> Entry {
        let function = &self.functions[number];
        let (events, reached) = self.reached(number, by_name);
        let waits = events.contains(&&FlowEvent::Wait);
        let is_named = |variable: &&Variable<'_>| {
            reached.iter().any(|at| self.functions[*at].words.contains(variable.name))
        };
        let outside = laid_out(0, self.shared.iter().filter(is_named));
        let own = laid_out(outside, function.shared.iter());
        // The offsets of the variables of other functions are not known. So only the sizes of these
        // variables are added. The sum is the least size that the entry can need.
        let others = reached.iter().filter(|at| **at != number);
        let shared_bytes = others
            .flat_map(|at| &self.functions[*at].shared)
            .fold(own, |bytes, variable| bytes.saturating_add(variable.bytes));
        Entry {
            name: function.name.to_owned(),
            demands: function.demands,
            waits,
            triggers: events.contains(&&FlowEvent::Trigger),
            early_use: unwaited.early_use.clone().filter(|_| waits),
            skips_wait: waits && unwaited.ends,
            shared_bytes,
        }
    }

    /// The events of a function and of the functions that it may call, in the order of the text.
    /// Also returns the numbers of all these functions.
    fn reached(
        &self,
        first: usize,
        by_name: &HashMap<&str, Vec<usize>>,
    ) -> (Vec<&FlowEvent<'_>>, Vec<usize>) {
        let every: Vec<usize> = by_name.values().flatten().copied().collect();
        let mut is_reached = vec![false; self.functions.len()];
        is_reached[first] = true;
        let (mut events, mut order) = (Vec::new(), vec![first]);
        // The functions whose texts are not read to the end, each with the index of its next event.
        // A function is in the list at most once, so the length of the list is bounded.
        let mut open = vec![(first, 0)];
        while let Some((number, at)) = open.last_mut() {
            let Some(event) = self.functions[*number].events.get(*at) else {
                open.pop();
                continue;
            };
            *at += 1;
            let called: &[usize] = match event {
                FlowEvent::Name(word) => by_name.get(word).map_or(&[], Vec::as_slice),
                // A call by a register may reach any function.
                FlowEvent::Call(word) => by_name.get(word).unwrap_or(&every),
                FlowEvent::Wait | FlowEvent::Trigger => {
                    events.push(event);
                    continue;
                }
            };
            for called in called.iter().rev() {
                if !std::mem::replace(&mut is_reached[*called], true) {
                    order.push(*called);
                    open.push((*called, 0));
                }
            }
        }
        (events, order)
    }
}
