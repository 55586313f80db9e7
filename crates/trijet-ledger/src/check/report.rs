//! Text of findings and verdicts. The lines of a report and their order are stable. The `[key]`
//! line is for programs that filter reports.
#![forbid(unsafe_code)]

use super::hazard::{Conflict, Finding, FindingClass, Party, Severity};
use super::names::Names;
use super::options::Assume;
use super::verdict::Verdict;
use crate::base::id::BlockId;
use crate::base::ledger::{OpKind, SignalStep, StreamWork};
use crate::base::units::count;
use std::fmt::{self, Write};
use std::ops::Range;

/// A number of bytes, with the largest binary unit that divides it.
fn exact(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

fn range_text(range: &Range<u64>) -> String {
    format!("[{}..{})", exact(range.start), exact(range.end))
}

/// The verb for the access of the first or the second party.
fn does(conflict: Conflict, is_first: bool) -> &'static str {
    match (conflict, is_first) {
        (Conflict::Raw, true) | (Conflict::War, false) | (Conflict::Waw, _) => "write",
        (Conflict::Raw, false) | (Conflict::War, true) => "read",
    }
}

/// A finding with the names that its text uses.
struct Text<'a>(&'a Finding, &'a Names);

impl Text<'_> {
    /// The name of an allocation. A name in `names` takes precedence over the name that the program
    /// gave.
    fn block(&self, block: BlockId) -> String {
        let Self(finding, names) = self;
        match &finding.block_name {
            Some(name) if !names.blocks.contains_key(&block) => name.to_string(),
            _ => names.block(block),
        }
    }

    fn bytes(&self) -> String {
        let Self(finding, _) = self;
        let name = finding.block.map_or_else(String::new, |block| self.block(block));
        let mut text = format!("`{name}`");
        if let Some(range) = finding.ranges.first() {
            text += &range_text(range);
        }
        if finding.ranges.len() > 1 {
            text += &format!(" and {} more", finding.ranges.len() - 1);
        }
        text
    }

    /// The mistake, in one line.
    fn headline(&self) -> String {
        let Self(finding, names) = self;
        let (second, bytes) = (names.describe(&finding.second), self.bytes());
        let first = finding.first.as_ref().map(|first| names.describe(first));
        let first = first.unwrap_or_else(|| "an earlier op".to_owned());
        match (finding.class, finding.conflict) {
            (FindingClass::UseBeforeAlloc, _) => {
                format!("{second} uses {bytes}, which {first} may not have allocated yet")
            }
            (FindingClass::ReuseRacesUse, _) => {
                format!(
                    "{second} uses {bytes}, which {first} of an earlier allocation may still use"
                )
            }
            (FindingClass::FreeRacesUse | FindingClass::FreeInFlight, _) => {
                format!("{second} frees {bytes} while {first} may still use it")
            }
            (FindingClass::UseAfterFree, _) => {
                format!("{second} uses {bytes}, which {first} freed")
            }
            (FindingClass::DoubleFree, _) => format!("{second} frees {bytes}, which {first} freed"),
            (FindingClass::Leak, _) => format!("{bytes} of {second} is never freed"),
            (FindingClass::ReadUninit, _) => {
                format!("{second} reads {bytes}, which nothing has written since {first}")
            }
            (FindingClass::WaitUnrecorded, _) => {
                format!("{second} waits for an event that had not been recorded")
            }
            (FindingClass::EventUnordered, _) => {
                format!("{second} and {first} use one event, and nothing orders the two calls")
            }
            (FindingClass::BatchDependent, _) => {
                format!("copies of {second} depend on each other in {bytes}")
            }
            (FindingClass::ApiCall, _) => format!("{second} was called inside a host function"),
            (FindingClass::Sticky, _) => format!("{first} failed, and the context was lost"),
            (FindingClass::Deadlock | FindingClass::DeadlockRisk, _) => {
                self.deadlock(&first, &second)
            }
            (FindingClass::WaitGivesUp, _) => {
                format!("{}; only the time limit ends the wait", self.deadlock(&first, &second))
            }
            (_, Some(Conflict::War)) => {
                format!("{second} overwrites {bytes} while {first} may still read it")
            }
            (_, Some(Conflict::Waw)) => {
                format!("{second} overwrites {bytes} while {first} may still write it")
            }
            (_, _) => format!("{second} reads {bytes}, which {first} may not have written yet"),
        }
    }

    fn deadlock(&self, first: &str, second: &str) -> String {
        let Self(finding, _) = self;
        let set = finding.second.op;
        let (signal, wait) = match &finding.first {
            Some(Party { kind: OpKind::Signal(SignalStep::Use { signal, .. }), op, .. }) => {
                (*signal, *op)
            }
            _ => (0, set),
        };
        let waits = format!("{first} waits for signal {signal} (#{wait}), which");
        let waiter = finding.first.as_ref().filter(|first| first.is_of_thread());
        let is_same = waiter.is_some_and(|first| first.thread == finding.second.thread);
        if finding.rules == ["A28"] {
            format!("{waits} {second} sets (#{set}); host functions may be serialised")
        } else if finding.second.kind == OpKind::Work(StreamWork::HostFn) {
            format!("{waits} {second} was to set; that host function never runs")
        } else if finding.second.sets_signal() {
            format!("{waits} {second} sets (#{set}) only after this wait")
        } else if set == wait || is_same && finding.second.is_of_thread() {
            format!("{waits} nothing has set, and nothing is left that can set it")
        } else {
            format!("{waits} nothing has set, while {second} waits too (#{set})")
        }
    }

    fn parties(&self) -> String {
        let Self(finding, names) = self;
        let mut text = String::new();
        // If nothing can set a signal, the wait for the signal is both the first and the second
        // party. The wait is printed once.
        let first = finding.first.iter().filter(|first| first.op != finding.second.op);
        for (party, is_first) in first.map(|first| (first, true)).chain([(&finding.second, false)])
        {
            let verb = match (finding.class, finding.conflict, is_first) {
                (FindingClass::FreeRacesUse | FindingClass::FreeInFlight, _, false) => "free",
                (FindingClass::UseBeforeAlloc, _, true) => "alloc",
                (
                    FindingClass::Deadlock | FindingClass::DeadlockRisk | FindingClass::WaitGivesUp,
                    ..,
                ) => {
                    if party.kind == OpKind::Work(StreamWork::HostFn) {
                        ""
                    } else if party.sets_signal() {
                        "set"
                    } else {
                        "wait"
                    }
                }
                (_, Some(conflict), _) => does(conflict, is_first),
                _ => "",
            };
            let verb = if verb.is_empty() { verb.to_owned() } else { format!("{verb:<5} ") };
            let gap = if text.is_empty() { "  " } else { "   " };
            let called = if party.waits_or_signals() { "" } else { "enqueued " };
            text += &format!("{gap}#{} {verb}{called}{}", party.op, names.place(party));
        }
        text
    }

    fn key(&self) -> String {
        let Self(finding, _) = self;
        let mut text = format!("kind={}", finding.class.code());
        if let Some(first) = &finding.first {
            text += &format!(" first={}", first.op);
        }
        text += &format!(" second={}", finding.second.op);
        if let Some(block) = finding.block {
            text += &format!(" buf={}", self.block(block));
        }
        if let Some(range) = finding.ranges.first() {
            text += &format!(" range={}:{}", range.start, range.end);
        }
        text + &format!(" rule={}", finding.rules.join(","))
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(finding, _) = self;
        let level = match finding.class.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(f, "{level}[{}]: {}", finding.class.code(), self.headline())?;
        writeln!(f, "{}", self.parties())?;
        if !finding.known.is_empty() {
            writeln!(f, "  order known: {}", finding.known)?;
        }
        if !finding.fix.is_empty() {
            writeln!(f, "  fix: {}", finding.fix)?;
        }
        if let (Some(witness), Some(first), Some(block)) =
            (&finding.witness, &finding.first, finding.block)
        {
            let (a, b, name) = (first.op, finding.second.op, self.block(block));
            let at = exact(witness.byte);
            let (swapped, kept) = (witness.swapped, witness.kept);
            write!(f, "  witness: order {b}<{a} gives {name}[{at}]={swapped:08x}, order {a}<{b} ")?;
            writeln!(
                f,
                "gives {name}[{at}]={kept:08x} (symbolic replay: each write is a hash of the op and \
                 of what it read)"
            )?;
        }
        writeln!(f, "  [key] {}", self.key())
    }
}

impl Finding {
    /// The report of the finding, several lines.
    #[must_use]
    pub fn text(&self, names: &Names) -> String {
        Text(self, names).to_string()
    }
}

impl Verdict {
    /// The reports of all findings, and the summary.
    #[must_use]
    pub fn text(&self, names: &Names) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            writeln!(text, "{}", finding.text(names)).expect("writing to a string");
        }
        if self.more > 0 {
            let more = count(self.more, "more finding");
            writeln!(text, "and {more}").expect("writing to a string");
        }
        text + &self.summary()
    }

    /// One line: the number of findings, or the statement that every conflict is ordered.
    #[must_use]
    pub fn summary(&self) -> String {
        let found = |severity, what| {
            let of = |finding: &&Finding| finding.class.severity() == severity;
            count(self.findings.iter().filter(of).count() as u64, what)
        };
        let undeclared = match self.undeclared {
            1 => "1 access".to_owned(),
            many => format!("{many} accesses"),
        };
        let limits = format!("{undeclared} undeclared; inside kernels not checked");
        if !self.is_clean() {
            let (errors, warnings) =
                (found(Severity::Error, "error"), found(Severity::Warning, "warning"));
            return format!("{errors}, {warnings}, {} more; {limits}", self.more);
        }
        let edge = match self.assume {
            Assume::Documented => "a documented CUDA edge",
            Assume::DriverObserved => {
                "a documented CUDA edge or one that a driver was seen to keep"
            }
        };
        format!(
            "for the calls this run made and the accesses it declared, every conflict is ordered by \
             {edge}; {limits}"
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&Names::default()))
    }
}
