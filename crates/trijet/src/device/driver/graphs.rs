//! The part of the contract about graphs: operations with an order among them that are launched as
//! one operation (law A31).
#![forbid(unsafe_code)]

use super::handle::GraphHandle;
use super::node::NodeAction;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use std::fmt::Debug;

/// Graphs that can be launched with [`Action::Graph`](super::Action::Graph).
pub(crate) trait Graphs: Debug {
    /// A graph without nodes.
    ///
    /// # Errors
    /// `Unsupported` for a driver without graphs.
    fn graph_create(&self, device: DeviceId) -> Result<GraphHandle>;

    /// Adds a node that runs on `device` and follows the nodes `after`. Nodes are numbered from 0.
    /// A dependent launch follows exactly one node, which must be a launch. The edge between the
    /// two launches has the same meaning as between launches in a stream (laws A34 to A36).
    ///
    /// # Errors
    /// The errors of enqueuing the operation. After an error the graph cannot be used.
    fn graph_add(
        &self,
        graph: GraphHandle,
        device: DeviceId,
        node: NodeAction<'_>,
        after: &[usize],
    ) -> Result<()>;

    /// Makes the graph ready to be launched. No node can be added afterwards.
    ///
    /// # Errors
    /// An error of the driver.
    fn graph_ready(&self, graph: GraphHandle) -> Result<()>;

    /// Replaces the operation of a node by another operation of the same kind, for later launches.
    /// A host function is never replaced.
    ///
    /// # Errors
    /// `InvalidValue` for another kind or another kernel; otherwise the errors of enqueuing the
    /// operation.
    fn graph_update(&self, graph: GraphHandle, number: usize, node: NodeAction<'_>) -> Result<()>;

    /// Destroys a graph. Launches that are pending still run.
    ///
    /// # Errors
    /// An error of the driver.
    fn graph_destroy(&self, graph: GraphHandle) -> Result<()>;
}
