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
    /// Order that a program must make itself.
    Races,
    /// Copies between host and device.
    Copies,
    /// Stream-ordered allocation, pools, growing memory.
    Memory,
    /// Kernels side by side, graphs, dependent launches, clusters.
    Kernels,
    /// Stages that hand items on.
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

/// The times or results of the forms as the claim has them.
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
    /// The name, as the command takes it: words with hyphens.
    pub name: &'static str,
    /// The subject.
    pub topic: Topic,
    /// The places of the claim in the teaching texts of docs/errata.md, each as text and line. The
    /// texts are `examples`, `notes`, `book`, `research` and `guide`.
    pub texts: &'static [&'static str],
    /// The claim, in one sentence.
    pub claim: &'static str,
    /// The names of the forms.
    pub forms: &'static [&'static str],
    /// The times or results of the forms as the claim has them.
    pub expect: Expect,
    /// The remark or finding that the first form gets.
    pub flag: Flag,
    /// The name of the time of [`Program::own_ms`]; `None` if the time of the whole run is judged.
    pub timed: Option<&'static str>,
    /// The rows of the drawings.
    pub rows: Rows,
    /// A clause about the model of a host device, if the lesson can show nothing on it.
    pub unmodelled: Option<&'static str>,
    /// Makes the program.
    pub make: fn(&Ground) -> Result<Box<dyn Program>>,
}

impl Lesson {
    /// Whether the lesson is about two devices. On one GPU its program is `Unsupported`.
    #[must_use]
    pub fn needs_two_devices(&self) -> bool {
        self.topic == Topic::Devices
    }
}

/// The forms of the program of a lesson, which use the same memory.
pub trait Program {
    /// Sets the input of the forms, and overwrites their result.
    ///
    /// # Errors
    /// Every error of the device.
    fn prepare(&mut self) -> Result<()>;

    /// Runs a form. The call need not wait for the last operations of the form.
    ///
    /// # Errors
    /// Every error of the device.
    fn run(&mut self, form: Form) -> Result<()>;

    /// The time of the last run that the claim is about, in milliseconds, if the program measures
    /// it itself, such as the latency of one kernel. `None` if the claim is about the whole run.
    ///
    /// # Errors
    /// Every error of the device.
    fn own_ms(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Describes the first error in the result of the last run, if there is one.
    ///
    /// # Errors
    /// Every error of the device.
    fn wrong(&mut self, form: Form) -> Result<Option<String>>;
}
