//! Handles: numbers that only the driver that made them understands.
#![forbid(unsafe_code)]

/// A stream of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StreamHandle(pub u64);
/// An event of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EventHandle(pub u64);
/// A loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ModuleHandle(pub u64);
/// A kernel of a loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FunctionHandle(pub u64);
/// A graph that can be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GraphHandle(pub u64);
/// A pool of stream-ordered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PoolHandle(pub u64);
