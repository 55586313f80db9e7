//! A lesson: its claim, the forms of its program, and the expectation about their times.
#![forbid(unsafe_code)]

use crate::common::ground::Ground;
use crate::said::Flag;
use trijet::Result;

/// The index of a form in [`Lesson::forms`].
pub type Form = usize;

/// The form that does what the claim warns against: the first one.
pub const BAD: Form = 0;
/// The form that does what the claim recommends, in a lesson of two forms.
pub const GOOD: Form = 1;

/// The subject of a lesson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Streams, and the engines that they keep busy.
    Streams,
    /// The legacy and the per-thread default stream.
    DefaultStreams,
    /// Events and waits of the host.
    Events,
    /// Races: orders between operations that a program must make itself.
    Races,
    /// Copies between host and device.
    Copies,
    /// Stream-ordered allocation, pools, growing memory.
    Memory,
    /// Kernels side by side, graphs, dependent launches, clusters.
    Kernels,
    /// Pipelines: stages that hand items to other stages.
    Pipelines,
    /// Work that is distributed while it runs.
    Scheduling,
    /// Work of several GPUs.
    Devices,
}

impl Topic {
    /// The heading of the topic.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::DefaultStreams => "default streams",
            Self::Events => "events and waits",
            Self::Races => "races",
            Self::Copies => "copies",
            Self::Memory => "memory",
            Self::Kernels => "kernels and graphs",
            Self::Pipelines => "pipelines",
            Self::Scheduling => "scheduling",
            Self::Devices => "several GPUs",
        }
    }
}

/// The statement of a claim about the times or the results of the forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The last form takes less time than the first.
    Faster,
    /// All forms take equal time.
    Equal,
    /// A form between the first and the last takes the least time.
    Between,
    /// The first form computes a wrong result, at least in some runs. The last form is right.
    Race,
}

/// The rows of the drawing of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// A row for each engine.
    Engines,
    /// A row for each stream.
    Streams,
}

/// A lesson.
#[derive(Debug, Clone, Copy)]
pub struct Lesson {
    /// The name of the lesson on the command line: words with hyphens.
    pub name: &'static str,
    /// The topic of the lesson.
    pub topic: Topic,
    /// The places of the claim in the teaching texts of docs/errata.md, each as text and line. The
    /// texts are `examples`, `notes`, `book`, `research` and `guide`.
    pub texts: &'static [&'static str],
    /// The claim, in one sentence.
    pub claim: &'static str,
    /// The names of the forms.
    pub forms: &'static [&'static str],
    /// The statement of the claim about the times or the results of the forms.
    pub expect: Expect,
    /// The remark or finding that the first form must get.
    pub flag: Flag,
    /// The name of the time that [`Program::own_ms`] returns; `None` if the time of the whole run
    /// is judged.
    pub timed: Option<&'static str>,
    /// The rows of the drawings.
    pub rows: Rows,
    /// The reason, as a clause, why the model of a host device cannot show the claim; `None` if the
    /// model can show the claim.
    pub unmodelled: Option<&'static str>,
    /// Makes the program.
    pub make: fn(&Ground) -> Result<Box<dyn Program>>,
}

impl Lesson {
    /// Whether the lesson needs two devices. On a host with one GPU, [`Lesson::make`] returns
    /// `Unsupported`.
    #[must_use]
    pub fn needs_two_devices(&self) -> bool {
        self.topic == Topic::Devices
    }
}

/// The program of a lesson, with all its forms. The forms use the same memory.
pub trait Program {
    /// Sets the input of the forms, and overwrites their result.
    ///
    /// # Errors
    /// Every error of the device.
    fn prepare(&mut self) -> Result<()>;

    /// Runs a form. The call need not wait until the last operations of the form are complete.
    ///
    /// # Errors
    /// Every error of the device.
    fn run(&mut self, form: Form) -> Result<()>;

    /// The time in the last run that the claim is about, in milliseconds. A program returns this
    /// time if the claim is about a part of the run, such as the latency of one kernel. `None` if
    /// the claim is about the time of the whole run.
    ///
    /// # Errors
    /// Every error of the device.
    fn own_ms(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// The figures of the last run that are not times, as a clause. The last run was a run of
    /// `form`. `None` if the claim is about times alone.
    ///
    /// # Errors
    /// Every error of the device.
    fn seen(&mut self, _form: Form) -> Result<Option<String>> {
        Ok(None)
    }

    /// Describes the first error in the result of the last run, if there is one.
    ///
    /// # Errors
    /// Every error of the device.
    fn wrong(&mut self, form: Form) -> Result<Option<String>>;
}
