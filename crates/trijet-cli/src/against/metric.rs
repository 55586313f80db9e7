//! The metrics that conditions are about.
#![forbid(unsafe_code)]

use super::condition::{Metric, MetricUnit};

/// The quantities of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TraceMetric {
    /// The median time of a step.
    Step,
    /// The time in which a kernel ran.
    Kernels,
    /// The time in which nothing ran.
    Idle,
    /// The times of the engines that copy, added up.
    Copies,
    /// The number of remarks.
    Findings,
    /// The time of the kernels with a name.
    Kernel(String),
}

impl Metric for TraceMetric {
    const NAMES: &'static str = "step, kernels, idle, copies, findings, kernel NAME";
    const EXAMPLE: &'static str = "step > +3 %";

    fn parse(words: &str) -> Option<Self> {
        Some(match words {
            "step" => Self::Step,
            "kernels" => Self::Kernels,
            "idle" => Self::Idle,
            "copies" => Self::Copies,
            "findings" => Self::Findings,
            other => {
                let name = other.strip_prefix("kernel ")?.trim();
                let quoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
                Self::Kernel(quoted.unwrap_or(name).to_owned())
            }
        })
    }

    fn unit(&self) -> MetricUnit {
        if *self == Self::Findings { MetricUnit::Count } else { MetricUnit::Time }
    }
}

/// The quantities of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerMetric {
    /// The number of operations.
    Operations,
    /// The number of waits of streams and of the host.
    Waits,
    /// The bytes that operations move or set.
    Bytes,
    /// The number of findings.
    Findings,
}

impl Metric for LedgerMetric {
    const NAMES: &'static str = "operations, waits, bytes, findings";
    const EXAMPLE: &'static str = "waits > +0";

    fn parse(words: &str) -> Option<Self> {
        Some(match words {
            "operations" => Self::Operations,
            "waits" => Self::Waits,
            "bytes" => Self::Bytes,
            "findings" => Self::Findings,
            _ => return None,
        })
    }

    fn unit(&self) -> MetricUnit {
        if *self == Self::Bytes { MetricUnit::Bytes } else { MetricUnit::Count }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Condition;
    use super::*;

    #[test]
    fn a_kernel_is_named_with_or_without_quotes() {
        for text in ["kernel gemm<float> > +5 %", "kernel \"gemm<float>\" > +5 %"] {
            let condition = Condition::<TraceMetric>::parse(text).unwrap();
            assert_eq!(condition.metric(), &TraceMetric::Kernel("gemm<float>".to_owned()));
        }
        let nameless = Condition::<TraceMetric>::parse("kernel > +5 %").unwrap_err();
        assert!(nameless.contains("`kernel` is no metric"), "{nameless}");
    }

    #[test]
    fn bytes_have_units_and_counts_have_none() {
        assert!(Condition::<LedgerMetric>::parse("bytes > 3 MiB").is_ok());
        assert!(Condition::<LedgerMetric>::parse("operations > +0").is_ok());
        let error = Condition::<LedgerMetric>::parse("waits > 3 MiB").unwrap_err();
        assert!(error.contains("`MiB` is no unit here"), "{error}");
    }
}

/// The quantities of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanMetric {
    /// The number of chunks.
    Chunks,
    /// The chunks in flight at most.
    Slots,
    /// The bytes that are read.
    Read,
    /// The bytes that are written.
    Written,
    /// Page-locked memory of the host.
    Pinned,
    /// Memory of the device.
    Device,
    /// The least time of the copies.
    Copies,
}

impl PlanMetric {
    pub(crate) const ALL: [Self; 7] = [
        Self::Chunks,
        Self::Slots,
        Self::Read,
        Self::Written,
        Self::Pinned,
        Self::Device,
        Self::Copies,
    ];

    /// The word of a condition, and the field of the document.
    pub(crate) fn words(self) -> [&'static str; 2] {
        match self {
            Self::Chunks => ["chunks", "chunks"],
            Self::Slots => ["slots", "slots"],
            Self::Read => ["read", "bytes_in"],
            Self::Written => ["written", "bytes_out"],
            Self::Pinned => ["pinned", "pinned_bytes"],
            Self::Device => ["device", "device_bytes"],
            Self::Copies => ["copies", "copies_ns"],
        }
    }
}

impl Metric for PlanMetric {
    const NAMES: &'static str = "chunks, slots, read, written, pinned, device, copies";
    const EXAMPLE: &'static str = "device > +10 %";

    fn parse(words: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.words()[0] == words)
    }

    fn unit(&self) -> MetricUnit {
        match self {
            Self::Chunks | Self::Slots => MetricUnit::Count,
            Self::Read | Self::Written | Self::Pinned | Self::Device => MetricUnit::Bytes,
            Self::Copies => MetricUnit::Time,
        }
    }
}
