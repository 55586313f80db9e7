//! Graphs, built node by node. No stream is captured, so no call of another thread can make a
//! capture invalid (law A33).

use super::api::{
    CopyNode, CopySide, CuPtr, DriverApi, EdgeData, FillNode, Handle, HostFnNode, KernelNode, need,
};
use super::arguments::with_pointers;
use super::context::{CudaDriver, cu, device_of, pack, raw};
use super::error::{INVALID_HANDLE, NOT_SUPPORTED, check, refused};
use super::graph::CudaGraph;
use super::modules::Attributes;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::panic::caught;
use crate::device::driver::{GraphHandle, HostFn, Launch, NodeAction, StreamHandle};
use crate::device::launch_config::LaunchConfig;
use crate::device::memory::{Space, Span};
use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

/// Members of `CUmemorytype`.
const MEMORY_OF_HOST: c_uint = 1;
const MEMORY_OF_DEVICE: c_uint = 2;
/// An edge from `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC` with the type
/// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
const PROGRAMMATIC: EdgeData = EdgeData { from_port: 1, to_port: 0, kind: 1, reserved: [0; 5] };

/// Calls the host function of a node.
///
/// # Safety
/// `data` points to a `HostFn` that the graph of the node owns.
unsafe extern "C" fn repeat(data: *mut c_void) {
    // SAFETY: the contract of this function. The user object of the graph keeps the box until no
    // launch is pending. This does not hold for a node in a graph without the user object.
    let run = unsafe { &*data.cast::<HostFn>() };
    // A panic must not unwind into the frames of the driver.
    drop(caught(&**run));
}

impl CudaDriver {
    fn graph(&self, graph: GraphHandle) -> Result<Arc<Mutex<CudaGraph>>> {
        self.graphs
            .find(graph)
            .ok_or_else(|| refused("graph", INVALID_HANDLE, "the graph was destroyed"))
    }

    pub(super) fn graph_create(&self, device: DeviceId) -> Result<GraphHandle> {
        let _entered = self.enter("graph create", device)?;
        let mut graph = null_mut();
        cu!(
            self,
            "cuGraphCreate",
            graph_create(&raw mut graph, 0),
            "the call writes the local variable `graph`; 0 is the only defined flag"
        )?;
        let graph = CudaGraph {
            device,
            graph: pack(device, graph),
            nodes: Vec::new(),
            exec: None,
            is_uploaded: false,
        };
        Ok(self.graphs.add(graph))
    }

    pub(super) fn graph_add(
        &self,
        graph: GraphHandle,
        device: DeviceId,
        node: NodeAction<'_>,
        after: &[usize],
    ) -> Result<()> {
        let graph = self.graph(graph)?;
        let mut graph = graph.lock().expect("no thread panicked while it held this lock");
        let _entered = self.enter("graph add", device)?;
        let before: Vec<Handle> = after.iter().map(|node| raw(graph.nodes[*node])).collect();
        let into = raw(graph.graph);
        let added = self.add_node(device, into, node, &before)?;
        let packed = pack(device, added);
        graph.nodes.push(packed);
        Ok(())
    }

    /// Adds a node to a graph, or to the body of a conditional node. The caller holds the lock of
    /// the graph.
    pub(super) fn add_node(
        &self,
        device: DeviceId,
        into: Handle,
        node: NodeAction<'_>,
        before: &[Handle],
    ) -> Result<Handle> {
        let context = self.context("graph add", device)?.raw;
        let mut added = null_mut();
        // A driver before CUDA 12.3 has only ordinary edges.
        let is_dependent = is_dependent(node) && self.api.graph_add_edges.is_some();
        let count = if is_dependent { 0 } else { before.len() };
        match node {
            NodeAction::Launch(launch) => {
                with_kernel(&self.api, &launch, |params| {
                    cu!(
                        self,
                        "cuGraphAddKernelNode",
                        graph_add_kernel(&raw mut added, into, before.as_ptr(), count, params),
                        "the graph and the nodes before are live while the lock is held; the driver copies the \
                         parameters, whose arguments are those of the kernel by `Loaded`, during the call"
                    )
                })?;
                self.graph_attributes(added, &launch)?;
            }
            NodeAction::Copy { dst, src } => {
                let copy = copy_of(dst, src);
                cu!(
                    self,
                    "cuGraphAddMemcpyNode",
                    graph_add_copy(
                        &raw mut added,
                        into,
                        before.as_ptr(),
                        count,
                        &raw const copy,
                        context
                    ),
                    "the graph and the nodes before are live while the lock is held; the description is read \
                     during the call, and a launch brings spans that are as long and alive"
                )?;
            }
            NodeAction::Fill { dst, value } => {
                let fill = fill_of(dst, value);
                cu!(
                    self,
                    "cuGraphAddMemsetNode",
                    graph_add_fill(
                        &raw mut added,
                        into,
                        before.as_ptr(),
                        count,
                        &raw const fill,
                        context
                    ),
                    "the graph and the nodes before are live while the lock is held; the call copies the \
                     description of the bytes, which a launch brings alive"
                )?;
            }
            NodeAction::HostFn(run) => added = self.graph_add_host_fn(into, before, run)?,
            NodeAction::Conditional(parts) => {
                added = self.add_conditional(device, into, parts, before)?;
            }
            NodeAction::Captured(child) => added = self.graph_add_child(into, before, child)?,
        }
        if is_dependent {
            self.graph_programmatic(into, before, added)?;
        }
        Ok(added)
    }

    /// Adds a copy of a captured graph.
    fn graph_add_child(
        &self,
        into: Handle,
        before: &[Handle],
        child: GraphHandle,
    ) -> Result<Handle> {
        let child = self.graph(child)?;
        let child = child.lock().expect("no thread panicked while it held this lock");
        let mut added = null_mut();
        cu!(
            self,
            "cuGraphAddChildGraphNode",
            graph_add_child(&raw mut added, into, before.as_ptr(), before.len(), raw(child.graph)),
            "both graphs and the nodes before are live while their locks are held, and they are two graphs, because a \
             captured one gets no nodes; the driver copies the child"
        )?;
        Ok(added)
    }

    /// Adds a host function. Then the graph owns the function.
    fn graph_add_host_fn(&self, graph: Handle, before: &[Handle], run: &HostFn) -> Result<Handle> {
        let data = self.own_by_graph(graph, Arc::clone(run))?;
        let mut added = null_mut();
        let node = HostFnNode { function: repeat, data };
        cu!(
            self,
            "cuGraphAddHostNode",
            graph_add_host_fn(
                &raw mut added,
                graph,
                before.as_ptr(),
                before.len(),
                &raw const node
            ),
            "the graph and the nodes before are live while the lock is held; the graph owns the box at `data` \
             by its user object"
        )?;
        Ok(added)
    }

    /// Adds the edges of a dependent launch.
    fn graph_programmatic(&self, graph: Handle, before: &[Handle], node: Handle) -> Result<()> {
        let (nodes, edges) = (vec![node; before.len()], vec![PROGRAMMATIC; before.len()]);
        cu!(
            self,
            "cuGraphAddDependencies",
            graph_add_edges(graph, before.as_ptr(), nodes.as_ptr(), edges.as_ptr(), before.len()),
            "the three lists are equally long, and their nodes are live nodes of the graph, whose lock the \
             caller holds"
        )
    }

    /// Sets the attributes of a launch in the node of the launch.
    fn graph_attributes(&self, node: Handle, launch: &Launch<'_>) -> Result<()> {
        if !launch.config.has_attributes() {
            return Ok(());
        }
        // In a graph, an edge makes a launch dependent. So the attribute for a dependent launch is
        // left out.
        let config = LaunchConfig { dependent: false, ..launch.config };
        for attribute in Attributes::of(&config).used() {
            cu!(
                self,
                "cuGraphKernelNodeSetAttribute",
                graph_set_attribute(node, attribute.id, attribute.value.as_ptr().cast()),
                "the node was added to a live graph just now; the value has the size of the union that the \
                 driver reads"
            )?;
        }
        Ok(())
    }

    pub(super) fn graph_ready(&self, graph: GraphHandle) -> Result<()> {
        let graph = self.graph(graph)?;
        let mut graph = graph.lock().expect("no thread panicked while it held this lock");
        let _entered = self.enter("graph instantiate", graph.device)?;
        let _relaxed = self.relaxed();
        let mut exec = null_mut();
        cu!(
            self,
            "cuGraphInstantiateWithFlags",
            graph_instantiate(&raw mut exec, raw(graph.graph), 0),
            "the graph is live while its lock is held; the call writes the local variable `exec`"
        )?;
        graph.exec = Some(pack(graph.device, exec));
        Ok(())
    }

    pub(super) fn graph_update(
        &self,
        graph: GraphHandle,
        number: usize,
        node: NodeAction<'_>,
    ) -> Result<()> {
        let graph = self.graph(graph)?;
        let graph = graph.lock().expect("no thread panicked while it held this lock");
        let device = device_of(graph.nodes[number]);
        let _entered = self.enter("graph update", device)?;
        let _relaxed = self.relaxed();
        let context = self.context("graph update", device)?.raw;
        let exec = raw(exec_of(&graph)?);
        let known = raw(graph.nodes[number]);
        match node {
            NodeAction::Launch(launch) => with_kernel(&self.api, &launch, |params| {
                cu!(
                    self,
                    "cuGraphExecKernelNodeSetParams",
                    graph_set_kernel(exec, known, params),
                    "graph and node are live while the lock is held; launches that are pending keep their \
                     parameters, and the new ones are copied during the call"
                )
            }),
            NodeAction::Copy { dst, src } => {
                let copy = copy_of(dst, src);
                cu!(
                    self,
                    "cuGraphExecMemcpyNodeSetParams",
                    graph_set_copy(exec, known, &raw const copy, context),
                    "graph and node are live while the lock is held; pending launches keep the spans that they \
                     were given, which their users keep alive"
                )
            }
            // A graph never replaces a host function.
            NodeAction::HostFn(_) => Ok(()),
            NodeAction::Conditional(_) => {
                let cause = "a conditional node cannot be changed; make another graph";
                Err(refused("graph update", NOT_SUPPORTED, cause))
            }
            NodeAction::Captured(_) => {
                let cause = "work that was captured cannot be changed; make another graph";
                Err(refused("graph update", NOT_SUPPORTED, cause))
            }
            NodeAction::Fill { dst, value } => {
                let fill = fill_of(dst, value);
                cu!(
                    self,
                    "cuGraphExecMemsetNodeSetParams",
                    graph_set_fill(exec, known, &raw const fill, context),
                    "graph and node are live while the lock is held; a pending launch fills the bytes that it \
                     was given"
                )
            }
        }
    }

    pub(super) fn graph_launch(&self, stream: StreamHandle, graph: GraphHandle) -> Result<()> {
        let graph = self.graph(graph)?;
        let mut graph = graph.lock().expect("no thread panicked while it held this lock");
        let _entered = self.enter_of("graph launch", stream.0)?;
        let exec = exec_of(&graph)?;
        // The first launch allocates memory, which a capture of another thread could refuse.
        let _relaxed = (!std::mem::replace(&mut graph.is_uploaded, true)).then(|| self.relaxed());
        cu!(
            self,
            "cuGraphLaunch",
            graph_launch(raw(exec), raw(stream.0)),
            "the graph is live while its lock is held, and stays so for the launch after a destruction; its \
             memory was given by the launch and is freed in stream order after it"
        )
    }

    pub(super) fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        let Some(graph) = self.graphs.remove(graph) else {
            return Err(refused("graph destroy", INVALID_HANDLE, "the graph was destroyed"));
        };
        let graph = graph.lock().expect("no thread panicked while it held this lock");
        let _entered = self.enter("graph destroy", graph.device)?;
        let _relaxed = self.relaxed();
        if let Some(exec) = graph.exec {
            cu!(
                self,
                "cuGraphExecDestroy",
                graph_exec_destroy(raw(exec)),
                "its number is gone from the table, so it is destroyed once; the driver keeps the parts \
                 that pending launches need"
            )?;
        }
        cu!(
            self,
            "cuGraphDestroy",
            graph_destroy(raw(graph.graph)),
            "its number is gone from the table, so it is destroyed once, after its executable form"
        )
    }
}

fn exec_of(graph: &CudaGraph) -> Result<u64> {
    graph.exec.ok_or_else(|| refused("graph", INVALID_HANDLE, "the graph is not ready"))
}

fn is_dependent(node: NodeAction<'_>) -> bool {
    matches!(node, NodeAction::Launch(Launch { config, .. }) if config.dependent)
}

/// Calls `with` with the parameters of a kernel, which point to its arguments.
fn with_kernel<R>(
    api: &DriverApi,
    launch: &Launch<'_>,
    with: impl FnOnce(*const KernelNode) -> Result<R>,
) -> Result<R> {
    with_pointers(api, launch.args, |params| {
        let node = KernelNode {
            function: raw(launch.function.0),
            grid: launch.config.grid,
            block: launch.config.block,
            shared_bytes: launch.config.shared_bytes,
            params,
            extra: null_mut(),
            kernel: null_mut(),
            context: null_mut(),
        };
        with(&raw const node)
    })
}

/// A copy of consecutive bytes, described as a box of one line.
fn copy_of(dst: &Span, src: &Span) -> CopyNode {
    let width_bytes = usize::try_from(dst.bytes()).unwrap_or(usize::MAX);
    let side = |span: &Span| {
        let (kind, host, device) = match span.memory().space() {
            Space::Device(_) => (MEMORY_OF_DEVICE, null_mut(), span.address()),
            Space::Pinned | Space::Pageable => (MEMORY_OF_HOST, span.address() as *mut c_void, 0),
        };
        let (x_bytes, y, z, level) = (0, 0, 0, 0);
        let (array, reserved, pitch, height) = (null_mut(), null_mut(), width_bytes, 1);
        CopySide { x_bytes, y, z, level, kind, host, device, array, reserved, pitch, height }
    };
    CopyNode { src: side(src), dst: side(dst), width_bytes, height: 1, depth: 1 }
}

fn fill_of(dst: &Span, value: u8) -> FillNode {
    let width = usize::try_from(dst.bytes()).unwrap_or(usize::MAX);
    let dst: CuPtr = dst.address();
    FillNode { dst, pitch: 0, value: c_uint::from(value), element_bytes: 1, width, height: 1 }
}
