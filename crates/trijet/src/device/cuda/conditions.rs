//! Conditional nodes of graphs.
//!
//! Only a kernel can set the condition of a conditional node. So a kernel before the node copies
//! the word in memory to the condition. If the body of the node is repeated, a kernel at the end of
//! the body copies the word again.

use super::api::{Handle, KernelNode, NodeParams, need};
use super::context::{CudaDriver, cu, raw};
use super::error::check;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::device::driver::{Conditional, FunctionHandle, Image, Repeats};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

const PTX: &str = include_str!("condition.ptx");
/// Members of `CUgraphConditionalNodeType`.
const IF: c_int = 0;
const WHILE: c_int = 1;

impl CudaDriver {
    /// The kernel that copies a word in memory to a condition.
    fn set_condition(&self, device: DeviceId) -> Result<FunctionHandle> {
        let mut all =
            self.set_conditions.lock().expect("no thread panicked while it held this lock");
        if let Some((_, function)) = all.iter().find(|(of, _)| *of == device) {
            return Ok(*function);
        }
        let module = self.module_load(device, "condition", Image::Ptx(PTX))?;
        let function = self.function(module, "set_condition", 0, None)?;
        all.push((device, function));
        Ok(function)
    }

    /// Adds a conditional node. Before the node, adds the kernel that sets the condition of the
    /// node.
    pub(super) fn add_conditional(
        &self,
        device: DeviceId,
        into: Handle,
        parts: &Conditional,
        before: &[Handle],
    ) -> Result<Handle> {
        let context = self.context("graph add", device)?.raw;
        let function = self.set_condition(device)?;
        let mut handle = 0;
        cu!(
            self,
            "cuGraphConditionalHandleCreate",
            graph_condition(&raw mut handle, into, context, 0, 0),
            "the call writes the local variable `handle`; the graph is live while the caller holds its lock, and \
             no default value is asked for"
        )?;
        let condition = (handle, parts.condition.address());
        let setter = self.add_setter(into, function, condition, before)?;
        let kind = match parts.repeats {
            Repeats::Once => IF,
            Repeats::WhileSet => WHILE,
        };
        let (mut added, mut params) = (null_mut(), NodeParams::conditional(handle, kind, context));
        cu!(
            self,
            "cuGraphAddNode",
            graph_add_node(&raw mut added, into, &raw const setter, null(), 1, &raw mut params),
            "the graph and its node are live while the caller holds the lock; the call reads the parameters, \
             and writes into them a pointer to the handle of the body"
        )?;
        let bodies = params.conditional.bodies;
        // SAFETY: the call has succeeded, so it wrote a pointer to an array of `size` handles, and
        // `size` is 1. The array lives as long as the graph, which the caller has locked.
        let body = unsafe { bodies.read() };
        self.fill_body(device, body, parts, function, condition)?;
        Ok(added)
    }

    fn fill_body(
        &self,
        device: DeviceId,
        body: Handle,
        parts: &Conditional,
        function: FunctionHandle,
        condition: (u64, u64),
    ) -> Result<()> {
        let mut nodes: Vec<Handle> = Vec::new();
        let mut is_last = vec![true; parts.body.len()];
        for (node, after) in &parts.body {
            let before: Vec<Handle> = after.iter().map(|earlier| nodes[*earlier]).collect();
            after.iter().for_each(|earlier| is_last[*earlier] = false);
            nodes.push(self.add_node(device, body, node.node(), &before)?);
        }
        if parts.repeats == Repeats::WhileSet {
            let last = nodes.iter().zip(&is_last).filter(|(_, is_last)| **is_last);
            let last: Vec<Handle> = last.map(|(node, _)| *node).collect();
            self.add_setter(body, function, condition, &last)?;
        }
        Ok(())
    }

    /// Adds a kernel that copies the word at an address to a condition.
    fn add_setter(
        &self,
        into: Handle,
        function: FunctionHandle,
        (mut handle, mut address): (u64, u64),
        before: &[Handle],
    ) -> Result<Handle> {
        let mut params: [*mut c_void; 2] = [(&raw mut handle).cast(), (&raw mut address).cast()];
        let node = KernelNode {
            function: raw(function.0),
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            params: params.as_mut_ptr(),
            extra: null_mut(),
            kernel: null_mut(),
            context: null_mut(),
        };
        let mut added = null_mut();
        cu!(
            self,
            "cuGraphAddKernelNode",
            graph_add_kernel(&raw mut added, into, before.as_ptr(), before.len(), &raw const node),
            "the graph and the nodes before are live while the caller holds the lock; the kernel takes these two \
             words, which the call copies, and reads a word that a launch brings alive"
        )?;
        Ok(added)
    }
}
