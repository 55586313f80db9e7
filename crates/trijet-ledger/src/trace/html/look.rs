//! The looks of times. Each look is a class of `page.css`. The script `draw.js` uses the same
//! classes.
#![forbid(unsafe_code)]

use crate::base::ledger::Engine;
use crate::trace::critical::Category;
use crate::trace::gaps::Cause;

/// The look of a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Work of this engine, on the critical path.
    Engine(Engine),
    Busy,
    Exposed,
    Fill,
    Drain,
    Waiting,
    Host,
    Launch,
    Other,
}

impl Look {
    /// The look of idle time with this cause.
    pub(super) fn of_idle(cause: Cause) -> Self {
        match cause {
            Cause::Fill => Self::Fill,
            Cause::Drain => Self::Drain,
            Cause::HostLate(_) => Self::Host,
            Cause::Dependency(_) => Self::Waiting,
            Cause::Launch => Self::Launch,
            Cause::Resource | Cause::Unknown => Self::Other,
        }
    }

    /// The look of a part of the critical path.
    pub(super) fn of_path(category: Category) -> Self {
        match category {
            Category::Engine(engine) => Self::Engine(engine),
            // The enqueuing thread waited for the engine of the host.
            Category::Host(_) => Self::Waiting,
            Category::Enqueue
            | Category::Sync
            | Category::Alloc
            | Category::Copy
            | Category::Load
            | Category::User => Self::Host,
            Category::Launch => Self::Launch,
            Category::Unknown => Self::Other,
            Category::Start => Self::Fill,
            Category::Tail => Self::Drain,
        }
    }

    /// The name of the class in `page.css`, without the prefix `c-`.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Engine(Engine::Upload) => "upload",
            Self::Engine(Engine::Compute) => "compute",
            Self::Engine(Engine::Download) => "download",
            Self::Engine(Engine::Peer) => "peer",
            Self::Engine(Engine::Communication) => "communication",
            Self::Engine(Engine::Host | Engine::None) => "function",
            Self::Busy => "busy",
            Self::Exposed => "exposed",
            Self::Fill => "fill",
            Self::Drain => "drain",
            Self::Waiting => "waiting",
            Self::Host => "host",
            Self::Launch => "launch",
            Self::Other => "other",
        }
    }
}
