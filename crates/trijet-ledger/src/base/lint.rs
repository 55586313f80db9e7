//! The habits of programs that cost time. Each has one rule: one name, one title, one fix, and one
//! set of limits.
//!
//! A rule finds its habit in the ledger of a run (`check::lint`), or in the trace of a program that
//! does not use Trijet (`profile`). Some rules find their habit in both.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use std::fmt;

/// A habit of a program that costs time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// An asynchronous copy from or to host memory that is not page-locked.
    Pageable,
    /// The legacy default stream, and the streams that it delays or that delay it.
    LegacyBarrier,
    /// A copy that the host waits for, again and again.
    SyncCopy,
    /// Memory is allocated and freed outside of stream order, again and again.
    SyncAlloc,
    /// A pool repeatedly releases memory and allocates it again.
    PoolThrash,
    /// The host waits, and enqueues more work only after that.
    OverSync,
    /// A wait for work that the stream follows already.
    RedundantWait,
    /// Engines that could work at the same time work one after the other.
    NoOverlap,
    /// Many small copies. On an H200, uploads of 64 KiB reach 17 GB/s and downloads of 64 KiB reach
    /// 19 GB/s. Large copies reach 55 GB/s.
    SmallCopy,
    /// Small copies that wait for large copies of another stream.
    SmallCopyStarved,
    /// More streams than operations that run at the same time.
    TooManyStreams,
    /// Ready kernels that wait while as many run as there are hardware queues.
    QueueShared,
    /// A graph that is launched in several streams, where its launches wait for each other.
    GraphSerialized,
    /// A kernel that is loaded after the first kernel has run.
    FirstUseLoad,
    /// The program's own code delays the enqueues.
    HostLate,
    /// Gaps in which a GPU has neither a kernel nor a copy.
    GpuIdle,
    /// Copies that run while no kernel computes.
    ExposedCopy,
    /// Communication between GPUs while no other kernel runs.
    ExposedComm,
    /// Collectives that wait for a rank that starts them later.
    LateRank,
}

/// The kinds of input in which a rule finds its habit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundIn {
    /// Ledgers, and traces of programs that do not use Trijet.
    Both,
    /// Only ledgers.
    Ledger,
    /// Only traces of programs that do not use Trijet.
    Trace,
}

/// The limits of a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RuleLimits {
    /// Minimum number of operations or calls. In a ledger, all of them come from one line of the
    /// program. A trace of a foreign program does not have the lines of the calls, so there the
    /// limit applies to small copies only.
    pub count_min: usize,
    /// Maximum number of bytes of an operation that counts.
    pub bytes_max: u64,
    /// The habit counts if it costs more than this fraction of the time of the run.
    pub share_min: f64,
}

/// The fix for idle time between launches, which has no rule of its own.
pub(crate) const FEWER_LAUNCHES: &str =
    "launch less often: a CUDA graph, batches of copies, or more work for each kernel";

/// No limits.
const NONE: RuleLimits = RuleLimits { count_min: 1, bytes_max: u64::MAX, share_min: 0.0 };
/// Minimum number of entries from one line of the program that count as a loop.
const LOOP_MIN: usize = 3;

/// A row of the table of rules.
struct RuleRow {
    rule: Rule,
    name: &'static str,
    title: &'static str,
    fix: &'static str,
    limits: RuleLimits,
    found_in: FoundIn,
    difference: &'static str,
}

/// The rules, in the order of [`Rule`].
const TABLE: [RuleRow; 19] = [
    RuleRow {
        rule: Rule::Pageable,
        name: "PERF/PAGEABLE",
        title: "asynchronous copies from or to pageable host memory",
        fix: "copy from and to page-locked memory: for pageable memory, the call waits while the \
              driver copies through a buffer",
        limits: NONE,
        found_in: FoundIn::Both,
        difference: "",
    },
    RuleRow {
        rule: Rule::LegacyBarrier,
        name: "PERF/LEGACY-BARRIER",
        title: "work that the legacy default stream delays, or that delays it",
        fix: "use non-blocking streams, with events where order is needed",
        limits: NONE,
        found_in: FoundIn::Both,
        difference: "a foreign trace has no order by events; the cost is the time in which legacy \
                     work waited while other work ran, or the reverse",
    },
    RuleRow {
        rule: Rule::SyncCopy,
        name: "PERF/SYNC-COPY",
        title: "copies that the host waits for",
        fix: "copy asynchronously, with two or more page-locked buffers in turn",
        limits: RuleLimits { count_min: LOOP_MIN, ..NONE },
        found_in: FoundIn::Both,
        difference: "a foreign trace has no lines of the program, so it cannot tell a loop; every \
                     such copy counts",
    },
    RuleRow {
        rule: Rule::SyncAlloc,
        name: "PERF/SYNC-ALLOC",
        title: "allocations and frees outside of stream order",
        fix: "allocate once before the loop, or in stream order from a pool with a release \
              threshold",
        limits: RuleLimits { count_min: LOOP_MIN, ..NONE },
        found_in: FoundIn::Both,
        difference: "a foreign trace has no lines of the program, so it cannot tell a loop; every \
                     such call counts, and so does page-locking",
    },
    RuleRow {
        rule: Rule::PoolThrash,
        name: "PERF/POOL-THRASH",
        title: "a pool releases memory and allocates it again",
        fix: "raise the release threshold of the pool",
        limits: RuleLimits { count_min: LOOP_MIN, ..NONE },
        found_in: FoundIn::Ledger,
        difference: "a foreign trace does not have the memory that a pool releases",
    },
    RuleRow {
        rule: Rule::OverSync,
        name: "PERF/OVER-SYNC",
        title: "waits of the host before the next work is enqueued",
        fix: "enqueue the next work before the wait: use two buffers in turn, and wait for the \
              event of a buffer before its next use",
        limits: RuleLimits { count_min: LOOP_MIN, ..NONE },
        found_in: FoundIn::Both,
        difference: "a foreign trace has no lines of the program, so it cannot tell a loop; every \
                     wait counts, and so do waits for events",
    },
    RuleRow {
        rule: Rule::RedundantWait,
        name: "PERF/REDUNDANT-WAIT",
        title: "a wait for work that the stream follows already",
        fix: "remove the wait",
        limits: NONE,
        found_in: FoundIn::Ledger,
        difference: "a foreign trace has no order by events",
    },
    RuleRow {
        rule: Rule::NoOverlap,
        name: "PERF/NO-OVERLAP",
        title: "engines work in turn, but could work at the same time",
        fix: "use a stream per engine, or a pipeline, so that engines work at the same time",
        limits: NONE,
        found_in: FoundIn::Ledger,
        difference: "the least time of a pipeline follows from the order of the operations, which \
                     a foreign trace does not have",
    },
    RuleRow {
        rule: Rule::SmallCopy,
        name: "PERF/SMALL-COPY",
        title: "many copies of at most 64 KiB",
        fix: "pack them into one copy",
        limits: RuleLimits { count_min: 100, bytes_max: 64 << 10, ..NONE },
        found_in: FoundIn::Both,
        difference: "a ledger counts the copies of one line; a foreign trace has no lines of the \
                     program, so all copies count",
    },
    RuleRow {
        rule: Rule::SmallCopyStarved,
        name: "PERF/SMALL-COPY-STARVED",
        title: "small copies wait for large copies of another stream",
        fix: "use one stream per direction, or let a kernel copy small, urgent data",
        limits: NONE,
        found_in: FoundIn::Ledger,
        difference: "a foreign trace does not have the time at which an operation could start",
    },
    RuleRow {
        rule: Rule::TooManyStreams,
        name: "PERF/TOO-MANY-STREAMS",
        title: "more streams than operations that run at the same time",
        fix: "use as many streams as operations run at once",
        limits: NONE,
        found_in: FoundIn::Ledger,
        difference: "the cost is the time to create the streams, but a foreign trace does not tell \
                     which call created a stream",
    },
    RuleRow {
        rule: Rule::QueueShared,
        name: "PERF/QUEUE-SHARED",
        title: "ready kernels that wait while one kernel per hardware queue runs",
        fix: "use no more streams than hardware queues, or ask for up to 32 queues: set \
              CUDA_DEVICE_MAX_CONNECTIONS before the program starts",
        limits: RuleLimits { share_min: 0.05, ..NONE },
        found_in: FoundIn::Both,
        difference: "a foreign trace does not have the number of queues that the program asked \
                     for; 8 is assumed",
    },
    RuleRow {
        rule: Rule::GraphSerialized,
        name: "PERF/GRAPH-SERIALIZED",
        title: "a graph is launched in several streams, where its launches wait for each other",
        fix: "record a graph for each stream",
        limits: RuleLimits { share_min: 0.05, ..NONE },
        found_in: FoundIn::Ledger,
        difference: "a foreign trace does not have the graph of an operation",
    },
    RuleRow {
        rule: Rule::FirstUseLoad,
        name: "PERF/FIRST-USE-LOAD",
        title: "kernels loaded after the first one has run",
        fix: "load every kernel before the work starts, for example by launching each kernel once",
        limits: NONE,
        found_in: FoundIn::Both,
        difference: "a ledger has the calls that load; a foreign trace has the times that CUPTI \
                     reports for loading",
    },
    RuleRow {
        rule: Rule::HostLate,
        name: "PERF/HOST-LATE",
        title: "code of the program delays the enqueues",
        fix: "enqueue earlier: move work of the host, such as reading and logging, to another \
              thread",
        limits: RuleLimits { share_min: 0.05, ..NONE },
        found_in: FoundIn::Ledger,
        difference: "a foreign trace does not have the thread that is late for an operation; see \
                     PERF/GPU-IDLE",
    },
    RuleRow {
        rule: Rule::GpuIdle,
        name: "PERF/GPU-IDLE",
        title: "gaps with no kernel and no copy",
        fix: "remove the cause that the remark names",
        limits: NONE,
        found_in: FoundIn::Trace,
        difference: "a ledger has the cause of each gap, and PERF/HOST-LATE, PERF/OVER-SYNC and \
                     others name it",
    },
    RuleRow {
        rule: Rule::ExposedCopy,
        name: "PERF/EXPOSED-COPY",
        title: "copies while no kernel computed",
        fix: "copy the next chunk on another stream while the kernels of this chunk run",
        limits: NONE,
        found_in: FoundIn::Trace,
        difference: "a ledger has the order of the operations, and PERF/NO-OVERLAP compares with \
                     the least time of a pipeline",
    },
    RuleRow {
        rule: Rule::ExposedComm,
        name: "PERF/EXPOSED-COMM",
        title: "communication between GPUs while no other kernel ran",
        fix: "start the collective of a part when the part is ready, on a stream of its own, while \
              the next part is computed",
        limits: NONE,
        found_in: FoundIn::Trace,
        difference: "the report of a ledger has the exposed time of its collectives, with the \
                     buckets that cause it",
    },
    RuleRow {
        rule: Rule::LateRank,
        name: "PERF/LATE-RANK",
        title: "collectives that waited for a rank that began later",
        fix: "find what the late rank does before its collectives and the other ranks do not: more \
              work, copies, or a host that enqueues late; divide the work evenly",
        limits: NONE,
        found_in: FoundIn::Trace,
        difference: "a ledger has one process; the report of a group of processes compares the \
                     ranks",
    },
];

impl Rule {
    /// All rules.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::Pageable; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            all[at] = TABLE[at].rule;
            at += 1;
        }
        all
    };

    fn row(self) -> &'static RuleRow {
        static ROWS: [RuleRow; TABLE.len()] = TABLE;
        &ROWS[self as usize]
    }

    /// The name of the rule, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The habit in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// The change that avoids the habit.
    #[must_use]
    pub fn fix(self) -> &'static str {
        self.row().fix
    }

    /// The limits of the rule.
    pub(crate) fn limits(self) -> RuleLimits {
        self.row().limits
    }

    /// Whether `saved` is a larger part of a run of length `run` than the rule needs.
    pub(crate) fn is_enough(self, saved: u64, run: u64) -> bool {
        saved as f64 > run as f64 * self.limits().share_min
    }

    /// Whether there are as many operations or calls as the rule needs.
    pub(crate) fn are_enough(self, count: usize) -> bool {
        count >= self.limits().count_min
    }

    /// The kinds of input in which the rule finds its habit.
    #[must_use]
    pub fn found_in(self) -> FoundIn {
        self.row().found_in
    }

    /// The reason why the rule finds the habit in only one kind of input, or differently in the two
    /// kinds; empty if there is no difference.
    #[must_use]
    pub fn difference(self) -> &'static str {
        self.row().difference
    }
}

/// A remark: a habit that a rule found in a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lint {
    /// The rule that found the habit.
    pub rule: Rule,
    /// Maximum time that the fix can save, by the formula of the rule.
    pub saved: Nanos,
    /// The indices of the operations that the remark is about.
    pub ops: Vec<usize>,
    /// The text of the remark.
    pub text: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, saved, text, .. } = self;
        write!(f, "{}: {text} (up to {saved}); fix: {}", rule.name(), rule.fix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Bytes;
    use std::collections::BTreeSet;

    #[test]
    fn the_row_of_a_rule_is_its_own_and_no_two_rules_have_the_same_words() {
        for rule in Rule::ALL {
            assert_eq!(rule.row().rule, rule);
        }
        let size = Bytes(Rule::SmallCopy.limits().bytes_max).to_string();
        assert!(Rule::SmallCopy.title().ends_with(&size), "{size}");
        for words in [Rule::name, Rule::title, Rule::fix] {
            let all: BTreeSet<&str> = Rule::ALL.into_iter().map(words).collect();
            assert_eq!(all.len(), Rule::ALL.len(), "{all:?}");
        }
    }

    #[test]
    fn a_rule_that_finds_its_habit_in_one_place_only_has_the_reason() {
        for rule in Rule::ALL {
            let is_both = rule.found_in() == FoundIn::Both;
            assert!(is_both || !rule.difference().is_empty(), "{}", rule.name());
        }
    }
}
