//! The paths through functions: the actions of a thread before the wait of a dependent launch.
//!
//! A path follows the calls and the branches of the text, whatever their conditions are. So the
//! paths contain every use of memory that a thread can make before a wait. A finding may be about a
//! path that no thread takes, or about memory that no other kernel writes. The order that barriers
//! create is not seen, for example if one warp waits and a barrier makes the other warps follow.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// A step of a function: a label, or an instruction that the rules for PTX look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step<'a> {
    pub(super) kind: StepKind<'a>,
    /// Whether the step is executed only under a condition (`@%p1`).
    pub(super) is_guarded: bool,
}

/// The kind of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepKind<'a> {
    /// The target of branches.
    Label(&'a str),
    /// A branch to a label; `None` for a branch by a table, which may lead to any label.
    Branch(Option<&'a str>),
    /// The function returns, or the thread ends.
    End,
    /// The kernel fails.
    Trap,
    /// `griddepcontrol.wait`.
    Wait,
    /// An instruction that uses memory that other kernels may also use, by its name.
    Use(String),
    /// A call. The word is the name of the function, or a register.
    Call(&'a str),
}

/// The actions of a function before it waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Unwaited {
    /// The use of memory before a wait that is first in the text.
    pub(super) early_use: Option<String>,
    /// Whether a path through the function ends without a wait.
    pub(super) ends: bool,
}

/// Whether an instruction uses memory that another kernel may also use: global memory, or memory at
/// a generic address.
pub(super) fn is_use(word: &str, parts: &[&str]) -> bool {
    let own = [".param", ".const", ".shared", ".local"];
    let is_own = || parts.iter().any(|part| own.iter().any(|space| part.starts_with(space)));
    match word {
        // The name of an asynchronous copy contains the memory spaces of both ends. The name of an
        // instruction that orders copies contains no memory space.
        "cp" => parts.contains(&".global") && !parts.contains(&".prefetch"),
        "ld" | "st" | "atom" | "red" => parts.contains(&".global") || !is_own(),
        "wmma" => (parts.contains(&".load") || parts.contains(&".store")) && !is_own(),
        "tensormap" => !is_own(),
        "discard" | "ldu" | "multimem" | "tex" | "tld4" | "suld" | "sust" | "sured" => true,
        _ => false,
    }
}

/// The actions of a function with these steps before it waits. `called` returns the actions of each
/// function that a call may reach. It returns no actions for a function of another module.
pub(super) fn unwaited<'f>(
    steps: &[Step<'_>],
    called: impl Fn(&str) -> Vec<&'f Unwaited>,
) -> Unwaited {
    // Labels of different blocks may have the same name.
    let mut labels: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        if let StepKind::Label(label) = step.kind {
            labels.entry(label).or_default().push(at);
        }
    }
    let mut found = Unwaited::default();
    let mut is_seen = vec![false; steps.len()];
    let (mut open, mut first_use) = (vec![0], usize::MAX);
    while let Some(at) = open.pop() {
        let Some(step) = steps.get(at) else {
            found.ends = true;
            continue;
        };
        if std::mem::replace(&mut is_seen[at], true) {
            continue;
        }
        let mut goes_on = step.is_guarded;
        let mut uses = |text: &str| {
            if at < first_use {
                (first_use, found.early_use) = (at, Some(text.to_owned()));
            }
        };
        match &step.kind {
            StepKind::Label(_) => goes_on = true,
            StepKind::Wait | StepKind::Trap => {}
            StepKind::End => found.ends = true,
            StepKind::Use(text) => {
                uses(text);
                goes_on = true;
            }
            StepKind::Branch(to) => match to {
                Some(label) => open.extend(labels.get(label).into_iter().flatten()),
                None => open.extend(labels.values().flatten()),
            },
            StepKind::Call(callee) => {
                let reached = called(callee);
                reached.iter().filter_map(|one| one.early_use.as_deref()).for_each(uses);
                goes_on |= reached.is_empty() || reached.iter().any(|one| one.ends);
            }
        }
        if goes_on {
            open.push(at + 1);
        }
    }
    found
}
