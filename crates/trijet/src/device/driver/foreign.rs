//! Work of another library: a collective, or kernels with a name.
#![forbid(unsafe_code)]

/// An operation that every rank of a communicator calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collective {
    /// Every rank gets the combination of the data of all ranks.
    AllReduce,
    /// Every rank gets the data of one rank.
    Broadcast,
    /// One rank gets the combination of the data of all ranks.
    Reduce,
    /// Every rank gets the data of all ranks.
    AllGather,
    /// Every rank gets a part of the combination of the data of all ranks.
    ReduceScatter,
    /// Every rank sends a part of its data to each rank.
    AllToAll,
    /// Ranks send messages to each other.
    Exchange,
}

impl Collective {
    /// The name in findings and timelines.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Exchange => "exchange",
        }
    }
}

/// The kind of work of another library: made from a name, or from a [`Collective`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignWork {
    /// Kernels, with a name for findings and timelines.
    Kernels(&'static str),
    /// Communication between devices.
    Collective(Collective),
}

impl ForeignWork {
    /// The name in findings and timelines.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kernels(name) => name,
            Self::Collective(collective) => collective.name(),
        }
    }
}

impl From<&'static str> for ForeignWork {
    fn from(name: &'static str) -> Self {
        Self::Kernels(name)
    }
}

impl From<Collective> for ForeignWork {
    fn from(collective: Collective) -> Self {
        Self::Collective(collective)
    }
}
