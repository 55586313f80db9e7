//! Driver calls whose effect on running work is measured. Each call is prepared before the work
//! starts, made while the work runs, and undone after the work has ended.

use super::lab::{Lab, PTX};
use super::table::{AccessDesc, AllocationProp, Handle, Location, ask};
use std::ptr::null_mut;
use trijet::Result;

const MIB: usize = 1 << 20;
/// `CU_MEM_LOCATION_TYPE_DEVICE` and `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const ON_DEVICE: i32 = 1;
const READ_WRITE: i32 = 3;

/// A driver call that the library does not offer. A parameter is a size in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BareStep {
    /// `cuMemAlloc`.
    Alloc(usize),
    /// `cuMemFree`.
    Free(usize),
    /// `cuMemHostAlloc`.
    HostAlloc(usize),
    /// `cuMemFreeHost`.
    HostFree(usize),
    /// `cuMemHostRegister`.
    Register(usize),
    /// `cuMemHostUnregister`.
    Unregister(usize),
    /// `cuMemMap` and `cuMemSetAccess` of an existing handle.
    Map(usize),
    /// `cuMemUnmap`.
    Unmap(usize),
    /// `cuGraphInstantiate` of a graph with one kernel.
    Instantiate,
    /// The load of a module.
    ModuleLoad,
    /// The look-up of a kernel in a loaded module.
    LookUp,
    /// The first launch of a kernel that was only looked up.
    FirstLaunch,
    /// The first launch of a kernel that `cuFuncLoad` loaded.
    LoadedLaunch,
}

/// The objects that a step has created and not destroyed yet.
#[derive(Debug)]
pub struct Held {
    memory: u64,
    host: Handle,
    pages: Vec<u64>,
    handle: u64,
    mapped: bool,
    graph: Handle,
    exec: Handle,
    module: Handle,
    function: Handle,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            memory: 0,
            host: null_mut(),
            pages: Vec::new(),
            handle: 0,
            mapped: false,
            graph: null_mut(),
            exec: null_mut(),
            module: null_mut(),
            function: null_mut(),
        }
    }
}

impl Lab {
    /// Creates the objects that the call of `step` needs.
    pub fn prepare(&self, step: BareStep, held: &mut Held) -> Result<()> {
        self.enter()?;
        match step {
            BareStep::Free(mib) => self.allocate(mib, held),
            BareStep::HostFree(mib) => self.allocate_host(mib, held),
            BareStep::Register(mib) => {
                held.pages = vec![1; mib * MIB / 8];
                Ok(())
            }
            BareStep::Unregister(mib) => {
                held.pages = vec![1; mib * MIB / 8];
                self.register(held)
            }
            BareStep::Map(mib) => self.reserve(mib, held),
            BareStep::Unmap(mib) => {
                self.reserve(mib, held)?;
                self.map(mib, held)
            }
            BareStep::Instantiate => self.capture_one(held),
            BareStep::LookUp => self.load_module(held),
            BareStep::FirstLaunch => self.load(held),
            BareStep::LoadedLaunch => {
                self.load(held)?;
                ask!(self.table, function_load(held.function), "of the module loaded above")
            }
            BareStep::Alloc(_) | BareStep::HostAlloc(_) | BareStep::ModuleLoad => Ok(()),
        }
    }

    /// Makes the call of `step`.
    pub fn act(&self, step: BareStep, held: &mut Held) -> Result<()> {
        match step {
            BareStep::Alloc(mib) => self.allocate(mib, held),
            BareStep::Free(_) => self.free_device(held),
            BareStep::HostAlloc(mib) => self.allocate_host(mib, held),
            BareStep::HostFree(_) => self.free_host(held),
            BareStep::Register(_) => self.register(held),
            BareStep::Unregister(_) => self.unregister(held),
            BareStep::Map(mib) => self.map(mib, held),
            BareStep::Unmap(mib) => self.unmap(mib, held),
            BareStep::Instantiate => {
                let (out, graph) = (&raw mut held.exec, held.graph);
                ask!(self.table, graph_instantiate(out, graph, 0), "captured in `prepare`")
            }
            BareStep::ModuleLoad => self.load_module(held),
            BareStep::LookUp => self.look_up(held),
            BareStep::FirstLaunch | BareStep::LoadedLaunch => {
                self.launch(held.function, 1, self.stream, &mut [])?;
                self.mark()
            }
        }
    }

    /// Destroys the objects in `held` that the step has created. The caller guarantees that no work
    /// runs.
    pub fn clean(&self, step: BareStep, held: &mut Held) -> Result<()> {
        match step {
            BareStep::Alloc(_) => self.free_device(held),
            BareStep::HostAlloc(_) => self.free_host(held),
            BareStep::Register(_) => self.unregister(held),
            BareStep::Map(mib) | BareStep::Unmap(mib) => self.release(mib, held),
            BareStep::Instantiate => {
                ask!(self.table, exec_destroy(held.exec), "made by the call, never launched")?;
                ask!(self.table, graph_destroy(held.graph), "captured for this call only")
            }
            BareStep::ModuleLoad
            | BareStep::LookUp
            | BareStep::FirstLaunch
            | BareStep::LoadedLaunch => {
                self.synchronize()?;
                ask!(
                    self.table,
                    module_unload(held.module),
                    "its one kernel is complete or was never launched"
                )
            }
            BareStep::Free(_) | BareStep::HostFree(_) | BareStep::Unregister(_) => Ok(()),
        }
    }

    fn allocate(&self, mib: usize, held: &mut Held) -> Result<()> {
        ask!(self.table, alloc(&raw mut held.memory, mib * MIB), "room for the device address")
    }

    fn free_device(&self, held: &mut Held) -> Result<()> {
        ask!(self.table, free(held.memory), "allocated by this step; no work uses it")
    }

    fn allocate_host(&self, mib: usize, held: &mut Held) -> Result<()> {
        let out = &raw mut held.host;
        ask!(self.table, host_alloc(out, mib * MIB, 0), "room for the host address")
    }

    fn free_host(&self, held: &mut Held) -> Result<()> {
        ask!(self.table, host_free(held.host), "page-locked by this step; no work uses it")
    }

    fn register(&self, held: &mut Held) -> Result<()> {
        let (pages, bytes) = (held.pages.as_mut_ptr().cast(), held.pages.len() * 8);
        ask!(
            self.table,
            host_register(pages, bytes, 0),
            "the pages live until they are unregistered"
        )
    }

    fn unregister(&self, held: &mut Held) -> Result<()> {
        ask!(self.table, host_unregister(held.pages.as_mut_ptr().cast()), "registered before")?;
        held.pages = Vec::new();
        Ok(())
    }

    fn place(&self) -> Location {
        Location { kind: ON_DEVICE, id: self.device }
    }

    fn reserve(&self, mib: usize, held: &mut Held) -> Result<()> {
        let properties = AllocationProp {
            kind: 1,
            handle_types: 0,
            location: self.place(),
            security: null_mut(),
            compression: 0,
            rdma: 0,
            usage: 0,
            reserved: [0; 4],
        };
        let (bytes, out) = (mib * MIB, &raw mut held.memory);
        ask!(self.table, address_reserve(out, bytes, 0, 0, 0), "room for the range's address")?;
        let out = &raw mut held.handle;
        let properties = &raw const properties;
        ask!(self.table, memory_create(out, bytes, properties, 0), "whole pages of 2 MiB")
    }

    fn map(&self, mib: usize, held: &mut Held) -> Result<()> {
        let (at, bytes) = (held.memory, mib * MIB);
        ask!(self.table, memory_map(at, bytes, 0, held.handle, 0), "reserved and not mapped")?;
        held.mapped = true;
        let access = AccessDesc { location: self.place(), flags: READ_WRITE };
        ask!(self.table, memory_access(at, bytes, &raw const access, 1), "the range mapped above")
    }

    fn unmap(&self, mib: usize, held: &mut Held) -> Result<()> {
        held.mapped = false;
        ask!(self.table, memory_unmap(held.memory, mib * MIB), "mapped whole; no work uses it")
    }

    fn release(&self, mib: usize, held: &mut Held) -> Result<()> {
        if held.mapped {
            self.unmap(mib, held)?;
        }
        ask!(self.table, memory_release(held.handle), "created by this step, mapped nowhere")?;
        ask!(self.table, address_free(held.memory, mib * MIB), "reserved by this step, unmapped")
    }

    fn load_module(&self, held: &mut Held) -> Result<()> {
        held.module = self.module(PTX)?;
        Ok(())
    }

    fn look_up(&self, held: &mut Held) -> Result<()> {
        held.function = self.function(held.module, "pass")?;
        Ok(())
    }

    fn load(&self, held: &mut Held) -> Result<()> {
        self.load_module(held)?;
        self.look_up(held)
    }

    fn capture_one(&self, held: &mut Held) -> Result<()> {
        let out = &raw mut held.graph;
        ask!(self.table, capture_begin(self.stream, 1), "an own stream; no other thread captures")?;
        let launched = self.launch(self.pass, 1, self.stream, &mut []);
        ask!(self.table, capture_end(self.stream, out), "the capture of one launch")?;
        launched
    }
}
