//! The remarks and findings about a form of a lesson.
#![forbid(unsafe_code)]

use trijet::Trace;
use trijet::check::lint::Rule;
use trijet::check::{FindingClass, Names, check, lint};
use trijet::trace::TimeSource;
use trijet::trace::dag::{Dag, Kernels};

/// The remark or finding that the bad form must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// A remark about performance. The program computes the right result.
    Remark(Rule),
    /// A finding of the checker. The form may compute any result.
    Finding(FindingClass),
    /// No remark or finding is expected, for this reason.
    None(&'static str),
}

impl Flag {
    /// The name of the rule or of the class of findings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Remark(rule) => rule.name(),
            Self::Finding(class) => class.code(),
            Self::None(_) => "nothing",
        }
    }
}

/// The remarks or findings about one form.
#[derive(Debug, Default)]
pub struct Said {
    /// The text of the expected remark or finding, if the form got it.
    pub flag: Option<String>,
    /// The maximum possible saving that a remark estimates, summed over all its sites.
    pub estimate_ms: Option<f64>,
    /// The name of each remark or finding, with the number of times that it occurs.
    pub names: Vec<(&'static str, usize)>,
}

/// The dependencies between the operations of a trace. In the trace of a model, kernels run one at
/// a time.
pub(crate) fn dag(trace: &Trace) -> Dag {
    let kernels = match trace.times {
        TimeSource::Model => Kernels::OneAtATime,
        _ => Kernels::Several,
    };
    Dag::with_times(&trace.ops, kernels, trace.times)
}

impl Said {
    fn count(&mut self, name: &'static str) {
        match self.names.iter_mut().find(|known| known.0 == name) {
            Some(known) => known.1 += 1,
            None => self.names.push((name, 1)),
        }
    }

    /// Checks a trace and collects its remarks or findings.
    #[must_use]
    pub fn of(trace: &Trace, flag: Flag) -> Self {
        let mut said = Self::default();
        let ops = &trace.ops;
        if let Flag::Finding(class) = flag {
            for finding in check(ops).findings {
                said.count(finding.class.code());
                if finding.class == class && said.flag.is_none() {
                    let text = finding.text(&Names::default());
                    let headline = text.lines().next().unwrap_or(class.code());
                    said.flag = Some(format!("{headline}; fix: {}", finding.fix));
                }
            }
            return said;
        }
        let dag = dag(trace);
        for remark in lint::lints(ops, &dag, trace.hardware_queues) {
            said.count(remark.rule.name());
            if Flag::Remark(remark.rule) == flag {
                *said.estimate_ms.get_or_insert(0.0) += remark.saved.seconds() * 1e3;
                said.flag.get_or_insert_with(|| remark.to_string());
            }
        }
        said
    }

    /// The names of the remarks or findings with their counts, as one text.
    #[must_use]
    pub fn list(&self) -> String {
        let names = self.names.iter().map(|(name, count)| match count {
            1 => (*name).to_owned(),
            count => format!("{name} ({count} times)"),
        });
        names.collect::<Vec<_>>().join(", ")
    }
}
