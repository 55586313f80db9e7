//! Cases: each is one program in up to three forms, its twins, with the verdict that each form must
//! get.
//!
//! The faulty twin lacks an edge, over memory that the program orders. The mended twin has the
//! edge. The tracked twin lacks the edge as well, over memory that the library orders: it must get
//! the verdict and the values of the mended one.

use trijet::check::{FindingClass, Verdict, check as check_record};
use trijet::{Buffer, Device, Element, Result};

/// A form of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twin {
    Faulty,
    Mended,
    Tracked,
}

impl Twin {
    /// Whether the program has the edge.
    pub(crate) fn has_edge(self) -> bool {
        self == Self::Mended
    }

    /// Makes a buffer manual, except in the tracked twin. Nothing may be pending on it.
    pub(crate) fn manual_unless_tracked<T: Element, S>(
        self,
        mut buffer: Buffer<T, S>,
    ) -> Buffer<T, S> {
        if self != Self::Tracked {
            // SAFETY: the elements are plain numbers that no kernel takes for an index, so a torn
            // element is a wrong number and nothing else. Faulty twins are about wrong numbers.
            unsafe { buffer.order_manually() };
        }
        buffer
    }
}

/// The values that a program saw.
pub(crate) type Seen = Vec<u64>;

/// A program with its expected values and findings.
pub(crate) struct Case {
    pub(crate) program: fn(&Device, Twin) -> Result<Seen>,
    /// The values that the mended and the tracked twin see, in every order that the laws allow.
    pub(crate) sees: Seen,
    /// All findings of the faulty twin; `None` if the program has no faulty twin.
    pub(crate) faulty: Option<Vec<FindingClass>>,
}

impl Case {
    /// The twins that the case has.
    pub(crate) fn twins(&self) -> impl Iterator<Item = Twin> {
        let faulty = self.faulty.as_ref().map(|_| Twin::Faulty);
        faulty.into_iter().chain([Twin::Mended, Twin::Tracked])
    }
}

/// The classes of all findings, sorted.
fn classes(verdict: &Verdict) -> Vec<FindingClass> {
    let mut classes: Vec<_> = verdict.findings.iter().map(|finding| finding.class).collect();
    classes.sort_unstable();
    classes
}

/// Runs a twin and checks its ledger. The checker of the device, if it has one, must find the same.
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

/// Runs the twins of `case`, each on its own device, and demands their verdicts and values. No
/// memory may leak and no drop may fail.
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
            // A wait for an event without a record is only a warning.
            let is_other = |class: &FindingClass| *class != FindingClass::WaitUnrecorded;
            assert!(!classes(&verdict).iter().any(is_other), "{twin:?}: {verdict}");
            assert_eq!(seen, case.sees, "{twin:?}: {verdict}");
        }
        device.synchronize().expect("nothing failed");
        assert_eq!(device.memory_stats().expect("the device answers").used.0, 0, "memory leaked");
        device.close().expect("no drop had an error to keep");
    }
}
