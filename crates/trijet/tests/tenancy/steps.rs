//! The steps of the model, and the sequences of steps without those that equal another one.

use std::fmt;

/// Streams of the model: two created ones, and the per-thread default stream of each host thread.
pub(crate) const STREAMS: usize = 4;
/// The limit for streams that are open at the same time.
const OPEN_MAX: usize = 3;
/// Operations of a sequence.
pub(crate) const OPS_MAX: usize = 4;

/// A host thread of the model, 0 or 1.
pub(crate) type Thread = usize;
/// A stream of the model: 0 and 1 are created, 2 and 3 are the default ones of threads 0 and 1.
pub(crate) type Place = usize;

/// An operation on the page-locked buffer `h` and the device buffer `x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    FillH,
    FillX,
    Upload,
    Download,
}

/// A step of one thread. A stream is opened by the first step that uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Op {
        by: Thread,
        on: Place,
        what: What,
    },
    Record {
        by: Thread,
        on: Place,
    },
    Wait {
        by: Thread,
        on: Place,
    },
    Close {
        by: Thread,
        on: Place,
    },
    /// The host reads `h`, and so learns of its last write.
    Read {
        by: Thread,
    },
    /// The host writes `h`.
    Write {
        by: Thread,
    },
    /// A third thread waits for the device. The two threads learn nothing of it.
    Settle,
}

impl Step {
    /// The thread that takes the step; 2 is the third one.
    pub(crate) fn by(self) -> Thread {
        match self {
            Self::Op { by, .. }
            | Self::Record { by, .. }
            | Self::Wait { by, .. }
            | Self::Close { by, .. }
            | Self::Read { by }
            | Self::Write { by } => by,
            Self::Settle => 2,
        }
    }

    fn on(self) -> Option<Place> {
        match self {
            Self::Op { on, .. }
            | Self::Record { on, .. }
            | Self::Wait { on, .. }
            | Self::Close { on, .. } => Some(on),
            Self::Read { .. } | Self::Write { .. } | Self::Settle => None,
        }
    }

    fn is_event(self) -> bool {
        matches!(self, Self::Record { .. } | Self::Wait { .. })
    }

    fn uses_h(self) -> bool {
        match self {
            Self::Op { what, .. } => what != What::FillX,
            Self::Read { .. } | Self::Write { .. } => true,
            _ => false,
        }
    }

    fn uses_x(self) -> bool {
        matches!(self, Self::Op { what: What::FillX | What::Upload | What::Download, .. })
    }

    /// Whether the order of the two steps makes no difference: they have no thread, stream, buffer
    /// or event in common, and drop or complete nothing.
    fn commutes(self, other: Self) -> bool {
        let orders = |step: Self| matches!(step, Self::Settle | Self::Close { .. });
        !(orders(self)
            || orders(other)
            || self.by() == other.by()
            || (self.on().is_some() && self.on() == other.on())
            || (self.is_event() && other.is_event())
            || (self.uses_h() && other.uses_h())
            || (self.uses_x() && other.uses_x()))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |on: &Place| ["a", "b", "p0", "p1"][*on];
        match self {
            Self::Op { by, on, what } => write!(f, "t{by}: {what:?} on {}", name(on)),
            Self::Record { by, on } => write!(f, "t{by}: record e on {}", name(on)),
            Self::Wait { by, on } => write!(f, "t{by}: {} waits for e", name(on)),
            Self::Close { by, on } => write!(f, "t{by}: drop {}", name(on)),
            Self::Read { by } => write!(f, "t{by}: host reads h"),
            Self::Write { by } => write!(f, "t{by}: host writes h"),
            Self::Settle => write!(f, "a third thread waits for the device"),
        }
    }
}

/// The end of a sequence: thread `by` examines the state after the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) by: Thread,
    /// It first copies `x` back on a new stream and reads the copy, before it takes the guard of
    /// `h`. So it learns the claims of the marks on that path.
    pub(crate) copies_first: bool,
}

pub(crate) const LASTS: [Last; 4] = [
    Last { by: 0, copies_first: false },
    Last { by: 0, copies_first: true },
    Last { by: 1, copies_first: false },
    Last { by: 1, copies_first: true },
];

/// The steps of a family of sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alphabet {
    pub(crate) whats: &'static [What],
    pub(crate) events: bool,
    pub(crate) host: bool,
    pub(crate) closes: bool,
    pub(crate) settles: bool,
}

/// All steps.
pub(crate) const FULL: Alphabet = Alphabet {
    whats: &[What::FillH, What::FillX, What::Upload, What::Download],
    events: true,
    host: true,
    closes: true,
    settles: true,
};

/// The state after a sequence, as far as it decides the steps that may follow.
#[derive(Debug, Clone, Default)]
struct Reached {
    open: [bool; STREAMS],
    /// The stream has got work since it was opened.
    busy: [bool; STREAMS],
    /// The second created stream is opened after the first one: the two are alike.
    first_created: bool,
    /// Thread 1 acts after thread 0: the two are alike.
    first_acted: bool,
    /// The event has a record that no stream has waited for.
    recorded: bool,
    /// The event has been recorded.
    has_record: bool,
    h_used: bool,
    /// Something was enqueued since the last settling.
    pending: bool,
    ops: usize,
}

impl Reached {
    fn of(steps: &[Step]) -> Self {
        let mut reached = Self::default();
        steps.iter().for_each(|step| reached.take(*step));
        reached
    }

    fn take(&mut self, step: Step) {
        self.first_acted |= step.by() == 0;
        self.h_used |= step.uses_h();
        if let Some(on) = step.on() {
            self.first_created |= on == 0;
            self.open[on] = !matches!(step, Step::Close { .. });
            self.busy[on] = self.open[on];
        }
        match step {
            Step::Op { .. } => {
                self.ops += 1;
                self.pending = true;
            }
            Step::Record { .. } => (self.recorded, self.has_record) = (true, true),
            Step::Wait { .. } => self.recorded = false,
            Step::Settle => self.pending = false,
            Step::Close { .. } | Step::Read { .. } | Step::Write { .. } => {}
        }
    }

    /// Whether the step may show an effect here that no other sequence shows.
    fn allows(&self, step: Step) -> bool {
        if step.by() == 1 && !self.first_acted {
            return false;
        }
        let opens = step.on().is_some_and(|on| !self.open[on]);
        if opens && self.open.iter().filter(|open| **open).count() == OPEN_MAX {
            return false;
        }
        if step.on() == Some(1) && !self.first_created {
            return false;
        }
        match step {
            Step::Op { .. } => self.ops < OPS_MAX,
            Step::Record { on, .. } => self.busy[on] && !self.recorded,
            Step::Wait { .. } => self.has_record,
            Step::Close { on, .. } => self.open[on],
            Step::Read { .. } | Step::Write { .. } => self.h_used,
            Step::Settle => self.pending,
        }
    }
}

impl Alphabet {
    fn each(&self, mut each: impl FnMut(Step)) {
        // Only its own thread may use a per-thread default stream; any thread may drop the handle.
        let users = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 3)];
        for (by, on) in users {
            self.whats.iter().for_each(|what| each(Step::Op { by, on, what: *what }));
            if self.events {
                each(Step::Record { by, on });
                each(Step::Wait { by, on });
            }
        }
        for by in 0..2 {
            if self.closes {
                (0..STREAMS).for_each(|on| each(Step::Close { by, on }));
            }
            if self.host {
                each(Step::Read { by });
                each(Step::Write { by });
            }
        }
        if self.settles {
            each(Step::Settle);
        }
    }
}

/// Calls `visit` with `begin` followed by every sequence of exactly `more` steps, until it returns
/// false. Sequences may differ only in the names of the streams, the names of the threads, or the
/// order of neighbours that commute; one of these is visited. Two kinds of sequences are left out:
/// those whose last step changes nothing that a look afterwards could show, and those with a record
/// that replaces one that no stream has waited for.
pub(crate) fn each_sequence(
    begin: &[Step],
    more: usize,
    alphabet: &Alphabet,
    visit: &mut impl FnMut(&[Step]) -> bool,
) -> bool {
    let mut steps = begin.to_vec();
    let fixed = steps.len();
    extend(&mut steps, fixed, more, alphabet, visit)
}

fn extend(
    steps: &mut Vec<Step>,
    fixed: usize,
    more: usize,
    alphabet: &Alphabet,
    visit: &mut impl FnMut(&[Step]) -> bool,
) -> bool {
    if more == 0 {
        return visit(steps);
    }
    let reached = Reached::of(steps);
    let closed = steps.iter().any(|step| matches!(step, Step::Close { .. }));
    let mut goes_on = true;
    alphabet.each(|step| {
        let idle = more == 1 && matches!(step, Step::Settle | Step::Record { .. });
        let last = steps.get(fixed..).and_then(<[Step]>::last).copied();
        // Once a lane was given back, the order of the steps that open streams decides which stream
        // gets it.
        let twin = !closed && last.is_some_and(|last| last > step && last.commutes(step));
        if !goes_on || idle || twin || !reached.allows(step) {
            return;
        }
        steps.push(step);
        goes_on = extend(steps, fixed, more - 1, alphabet, visit);
        steps.pop();
    });
    goes_on
}
