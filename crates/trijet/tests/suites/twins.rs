//! A case and its twins: one program in three forms, each with the verdict that it must get.
//!
//! The faulty twin leaves an edge out, over memory that its user orders. The mended twin has the
//! edge. The tracked twin leaves the edge out as well, over memory that orders itself: it must be as
//! good as the mended one.

use trijet::check::{Class, Verdict, check as check_record};
use trijet::{Buffer, Device, Element, Result};

/// A form of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twin {
    Faulty,
    Mended,
    Tracked,
}

impl Twin {
    /// Whether the edge in question is there.
    pub(crate) fn has_edge(self) -> bool {
        self == Self::Mended
    }

    /// Hands the ordering of a buffer to the program, but for the tracked twin. Nothing may be
    /// pending on it.
    pub(crate) fn take_over<T: Element, S>(self, mut buffer: Buffer<T, S>) -> Buffer<T, S> {
        if self != Self::Tracked {
            // SAFETY: the elements are plain numbers that no kernel takes for an index, so that one
            // that is half written is a wrong number and nothing else. Wrong numbers are what the
            // faulty twins are about.
            unsafe { buffer.order_manually() };
        }
        buffer
    }
}

/// What a program saw of the memory in question.
pub(crate) type Seen = Vec<u64>;

/// A program with what must come of it.
pub(crate) struct Case {
    pub(crate) program: fn(&Device, Twin) -> Result<Seen>,
    /// What the mended and the tracked twin see, in every order that the laws allow.
    pub(crate) sees: Seen,
    /// All findings of the faulty twin; `None` where there is no edge to leave out.
    pub(crate) faulty: Option<Vec<Class>>,
}

impl Case {
    /// The twins that the case has.
    pub(crate) fn twins(&self) -> impl Iterator<Item = Twin> {
        let faulty = self.faulty.as_ref().map(|_| Twin::Faulty);
        faulty.into_iter().chain([Twin::Mended, Twin::Tracked])
    }
}

/// The classes of all findings, sorted.
fn classes(verdict: &Verdict) -> Vec<Class> {
    let mut classes: Vec<_> = verdict.findings.iter().map(|finding| finding.class).collect();
    classes.sort_unstable();
    classes
}

/// Runs a twin and has its record checked. A checker that reads along must say the same.
fn judge(device: &Device, case: &Case, twin: Twin) -> Result<(Seen, Verdict)> {
    let zero = device.stream()?;
    device.start_trace(&zero)?;
    let seen = (case.program)(device, twin)?;
    device.synchronize()?;
    let verdict = check_record(&device.take_trace()?.ops);
    if let Some(along) = device.verdict() {
        assert_eq!(classes(&along), classes(&verdict), "{twin:?}: {along}\n{verdict}");
    }
    Ok((seen, verdict))
}

/// Runs the twins of `case`, each on a device of its own, and demands their verdicts and what they
/// see. Nothing may leak and no drop may fail.
pub(crate) fn check(open: impl Fn() -> Device, case: fn() -> Case) {
    let case = case();
    for twin in case.twins() {
        let device = open();
        let (seen, verdict) = judge(&device, &case, twin).expect("no call fails");
        if twin == Twin::Faulty {
            let mut expected = case.faulty.clone().expect("the case has a faulty twin");
            expected.sort_unstable();
            assert_eq!(classes(&verdict), expected, "{verdict}");
            let conflicts = verdict.findings.iter().filter(|found| found.conflict.is_some());
            for (number, finding) in conflicts.take(8).enumerate() {
                let differ = finding.witness.as_ref().is_some_and(|w| w.kept != w.swapped);
                assert!(differ, "the two orders of conflict {number} differ: {verdict}");
            }
        } else {
            // A wait for an event that stands for nothing is a warning, whatever else orders.
            let is_other = |class: &Class| *class != Class::WaitUnrecorded;
            assert!(!classes(&verdict).iter().any(is_other), "{twin:?}: {verdict}");
            assert_eq!(seen, case.sees, "{twin:?}: {verdict}");
        }
        device.synchronize().expect("nothing failed");
        assert_eq!(device.pool_stats().expect("the device answers").used.0, 0, "memory leaked");
        device.close().expect("no drop had an error to keep");
    }
}
