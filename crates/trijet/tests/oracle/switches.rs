//! Switches for the contents of random programs and for the demands on them. Each can be turned
//! off, so that a known fault hides no other.
//!
//! `TRIJET_ORACLE=all` turns on all; `TRIJET_ORACLE=churn,refusals` turns on these in addition to
//! [`USUAL`]; `TRIJET_ORACLE=-churn` turns one off. A switch about drawing changes the program of a
//! seed.

use std::cell::Cell;
use std::sync::OnceLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    /// Draw threads that end in the middle of a script, which a new thread continues.
    Threads,
    /// Draw buffers that one script of a phase gives to another one.
    HandOvers,
    /// Draw futures, which may be made by one thread and polled by another.
    Futures,
    /// Draw signals, set by threads and host functions.
    Signals,
    /// Draw streams that are opened, used once and dropped, so that lanes are reused.
    Churn,
    /// Draw calls that the driver refuses.
    Refusals,
    /// Run each program in several orders: greedy, probabilistic, and with threads by turns.
    Orders,
    /// Check with the default options: the checker does not know that one thread starts all others.
    Apart,
    /// Judge without starts and joins of threads (laws A44 and A46).
    Ownership,
    /// Law A45: unordered calls on one event give no order.
    Doubt,
    /// Laws A4 and A13: a wait in a blocking stream and an allocation are no operations.
    Strict,
    /// A stream follows the work that its creator knows, not the earlier stream of its lane.
    Fresh,
    /// Law A38: a synchronous copy between two devices is ordered on both.
    Peers,
    /// Draw programs that order buffers by hand, some without enough events.
    Manual,
}

use Switch::{
    Apart, Churn, Doubt, Fresh, Futures, HandOvers, Manual, Orders, Ownership, Peers, Refusals,
    Signals, Strict, Threads,
};

const NAMES: [(Switch, &str); 14] = [
    (Threads, "threads"),
    (HandOvers, "hand-overs"),
    (Futures, "futures"),
    (Signals, "signals"),
    (Churn, "churn"),
    (Refusals, "refusals"),
    (Orders, "orders"),
    (Apart, "apart"),
    (Ownership, "ownership"),
    (Doubt, "doubt"),
    (Strict, "strict"),
    (Fresh, "fresh"),
    (Peers, "peers"),
    (Manual, "manual"),
];

/// The switches that are on by default: all.
const USUAL: &[Switch] = &[
    Threads, HandOvers, Futures, Signals, Churn, Refusals, Orders, Apart, Ownership, Doubt, Strict,
    Fresh, Peers, Manual,
];

/// The switches that `asked` turns on.
fn chosen(asked: &str) -> Vec<Switch> {
    let mut on = USUAL.to_vec();
    for word in asked.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if word == "all" {
            on = NAMES.iter().map(|(switch, _)| *switch).collect();
            continue;
        }
        let (name, add) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
        let found = NAMES.iter().find(|(_, known)| *known == name);
        let switch = found.unwrap_or_else(|| panic!("TRIJET_ORACLE knows no `{name}`")).0;
        on.retain(|other| *other != switch);
        if add {
            on.push(switch);
        }
    }
    on
}

thread_local! {
    static ALL: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test` with all switches on, in this thread.
#[cfg(test)]
pub(crate) fn with_all<T>(test: impl FnOnce() -> T) -> T {
    ALL.set(true);
    let value = test();
    ALL.set(false);
    value
}

pub(crate) fn on(switch: Switch) -> bool {
    if ALL.get() {
        return true;
    }
    static CHOSEN: OnceLock<Vec<Switch>> = OnceLock::new();
    CHOSEN
        .get_or_init(|| chosen(&std::env::var("TRIJET_ORACLE").unwrap_or_default()))
        .contains(&switch)
}

#[test]
fn switches_are_turned_on_and_off_by_name() {
    assert_eq!(chosen(""), USUAL);
    assert_eq!(chosen("all").len(), NAMES.len());
    assert!(chosen("churn, refusals").contains(&Churn));
    assert!(!chosen("all,-strict").contains(&Strict));
}
