//! Measures one GPU through bare driver calls: the cost of each call, with streams, events and two
//! very short kernels.

use super::check;
use super::table::{Attribute, Config, Handle, Table, ask, need, open};
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::time::Instant;
use trijet::Result;

/// `CU_STREAM_NON_BLOCKING` and `CU_EVENT_DISABLE_TIMING`.
const NON_BLOCKING: c_uint = 1;
const NO_TIMING: c_uint = 2;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
const THRESHOLD: c_int = 4;
/// The size in bytes of the copy whose call is timed.
const COPY_BYTES: usize = 4096;

/// The PTX code of two kernels. `pass` does nothing. In `tick`, the first thread of each block adds
/// one to the word with the number of the block. So the words show whether each kernel of a chain
/// ran once, after its predecessor.
pub(super) const PTX: &str = include_str!("ticks.ptx");

/// The cost of one call in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// The host time from the start of a call to its return.
    pub host: f64,
    /// The time from the first call until the device had completed the work of all calls, divided
    /// by the number of calls.
    pub through: f64,
}

/// A GPU with streams, events, kernels and memory for the measurements. These objects are never
/// destroyed, because the process ends after the measurements.
#[derive(Debug)]
pub struct Lab {
    pub(super) table: Table,
    pub(super) device: c_int,
    pub(super) context: Handle,
    pub(super) stream: Handle,
    other: Handle,
    pub(super) event: Handle,
    timed: [Handle; 2],
    pub(super) pass: Handle,
    pub(super) tick: Handle,
    host: Handle,
    /// The address of 64 KiB of device memory. In a chain of kernels, each block adds one to the
    /// word with its number in this memory. Copies write to the memory as well.
    pub(super) memory: u64,
}

/// The size in bytes of the memory at `Lab::memory` and at `Lab::host`.
pub(super) const MEMORY_BYTES: usize = 1 << 16;

unsafe extern "C" fn nothing(_: *mut c_void) {}

impl Lab {
    /// # Errors
    /// `Unsupported` if there is no driver, or if the driver lacks a function. Every other error of
    /// the driver.
    pub fn new(ordinal: u32) -> Result<Self> {
        let table = Table::load(open()?);
        ask!(table, init(0), "the only defined flags")?;
        let (mut device, mut context) = (0, null_mut());
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        ask!(table, device_get(&raw mut device, number), "room for one number")?;
        ask!(table, primary_retain(&raw mut context, device), "a device, and room for a handle")?;
        let mut lab = Self {
            table,
            device,
            context,
            stream: null_mut(),
            other: null_mut(),
            event: null_mut(),
            timed: [null_mut(); 2],
            pass: null_mut(),
            tick: null_mut(),
            host: null_mut(),
            memory: 0,
        };
        lab.enter()?;
        lab.stream = lab.new_stream()?;
        lab.other = lab.new_stream()?;
        lab.event = lab.new_event(NO_TIMING)?;
        lab.timed = [lab.new_event(0)?, lab.new_event(0)?];
        let module = lab.module(PTX)?;
        lab.pass = lab.function(module, "pass")?;
        lab.tick = lab.function(module, "tick")?;
        let (host, memory) = (&raw mut lab.host, &raw mut lab.memory);
        ask!(lab.table, host_alloc(host, MEMORY_BYTES, 0), "room for the address")?;
        ask!(lab.table, alloc(memory, MEMORY_BYTES), "room for the new address")?;
        lab.clear()?;
        Ok(lab)
    }

    /// Makes the context of this GPU current in this thread. Other code may have changed the
    /// current context.
    pub fn enter(&self) -> Result<()> {
        ask!(self.table, set_current(self.context), "a context retained for the process")
    }

    pub(super) fn new_stream(&self) -> Result<Handle> {
        let mut stream = null_mut();
        let out = &raw mut stream;
        ask!(self.table, stream_create(out, NON_BLOCKING, 0), "room for a stream, priority 0")?;
        Ok(stream)
    }

    fn new_event(&self, flags: c_uint) -> Result<Handle> {
        let mut event = null_mut();
        ask!(self.table, event_create(&raw mut event, flags), "room for an event, known flags")?;
        Ok(event)
    }

    pub(super) fn module(&self, ptx: &str) -> Result<Handle> {
        let text = CString::new(ptx).expect("our own text has no NUL byte");
        let mut module = null_mut();
        ask!(
            self.table,
            module_load(&raw mut module, text.as_ptr(), 0, null_mut(), null_mut()),
            "a text that ends in NUL and outlives the call, without options"
        )?;
        Ok(module)
    }

    pub(super) fn function(&self, module: Handle, name: &str) -> Result<Handle> {
        let name = CString::new(name).expect("our own name has no NUL byte");
        let mut function = null_mut();
        let out = &raw mut function;
        ask!(self.table, module_function(out, module, name.as_ptr()), "a loaded module")?;
        Ok(function)
    }

    /// Fills the device memory with zeros, and waits until the memory is filled.
    pub(super) fn clear(&self) -> Result<()> {
        ask!(self.table, fill(self.memory, 0, MEMORY_BYTES, self.stream), "an own allocation")?;
        self.synchronize()
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        ask!(self.table, stream_synchronize(self.stream), "an own stream")?;
        ask!(self.table, stream_synchronize(self.other), "the other own stream")
    }

    /// The first `count` words of the device memory.
    pub(super) fn words(&self, count: usize) -> Result<Vec<u32>> {
        let mut words = vec![0u32; count.min(MEMORY_BYTES / 4)];
        let to = words.as_mut_ptr().cast();
        let bytes = words.len() * 4;
        ask!(
            self.table,
            download(to, self.memory, bytes, self.stream),
            "both have this many bytes"
        )?;
        self.synchronize()?;
        Ok(words)
    }

    /// Launches a kernel. Its only parameter is the address of the device memory, which the kernel
    /// `pass` ignores.
    pub(super) fn launch(
        &self,
        function: Handle,
        blocks: u32,
        stream: Handle,
        attributes: &mut [Attribute],
    ) -> Result<()> {
        let mut memory = self.memory;
        let mut params: [Handle; 1] = [(&raw mut memory).cast()];
        let config = Config {
            grid: [blocks, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            stream,
            attrs: attributes.as_mut_ptr(),
            attr_count: c_uint::try_from(attributes.len()).unwrap_or(0),
        };
        ask!(
            self.table,
            launch(&raw const config, function, params.as_mut_ptr(), null_mut()),
            "the kernel has this one parameter, which the call copies; no more blocks than words"
        )
    }

    /// Makes `count` calls, and returns their cost. The device is idle before and after the calls.
    fn burst(&self, count: u32, mut call: impl FnMut(u32) -> Result<()>) -> Result<Cost> {
        let start = Instant::now();
        for index in 0..count {
            call(index)?;
        }
        let host = start.elapsed();
        self.synchronize()?;
        let per = 1e9 / f64::from(count);
        let through = start.elapsed().as_secs_f64() * per;
        Ok(Cost { host: host.as_secs_f64() * per, through })
    }

    /// Times launches of the empty kernel `pass`.
    pub fn launches(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| self.launch(self.pass, 1, self.stream, &mut []))
    }

    /// Times records of an event.
    pub fn records(&self, count: u32) -> Result<Cost> {
        let (event, stream) = (self.event, self.stream);
        self.burst(count, |_| ask!(self.table, event_record(event, stream), "both are our own"))
    }

    /// Times waits of a stream for a recorded event of another stream.
    pub fn waits(&self, count: u32) -> Result<Cost> {
        ask!(self.table, event_record(self.event, self.stream), "an own event, to wait for")?;
        let (other, event) = (self.other, self.event);
        self.burst(count, |_| ask!(self.table, stream_wait(other, event, 0), "no special flags"))
    }

    /// Times queries of a complete event.
    pub fn queries(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| self.ready().map(|_| ()))
    }

    /// Times pairs of a creation and a destruction of an event.
    pub fn events(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| {
            let event = self.new_event(NO_TIMING)?;
            ask!(self.table, event_destroy(event), "made above and used by nothing else")
        })
    }

    /// Times creations of streams. The time of their destruction is not included.
    pub fn streams(&self, count: u32) -> Result<Cost> {
        let mut made = Vec::new();
        let cost = self.burst(count, |_| {
            made.push(self.new_stream()?);
            Ok(())
        })?;
        for stream in made {
            ask!(self.table, stream_destroy(stream), "made above; nothing was enqueued in it")?;
        }
        Ok(cost)
    }

    /// Times uploads of 4 KiB from page-locked memory.
    pub fn uploads(&self, count: u32) -> Result<Cost> {
        let (to, from, stream) = (self.memory, self.host, self.stream);
        self.burst(count, |_| {
            ask!(
                self.table,
                upload(to, from, COPY_BYTES, stream),
                "both are larger and never freed"
            )
        })
    }

    /// Times calls that enqueue a host function that does nothing.
    pub fn host_fns(&self, count: u32) -> Result<Cost> {
        let stream = self.stream;
        self.burst(count, |_| {
            ask!(
                self.table,
                host_fn(stream, nothing, null_mut()),
                "the function ignores its argument"
            )
        })
    }

    /// Times launches. After each launch, the host waits until the kernel has ended.
    pub fn round_trips(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| {
            self.launch(self.pass, 1, self.stream, &mut [])?;
            ask!(self.table, stream_synchronize(self.stream), "an own stream, one kernel in it")
        })
    }

    /// Times kernels that are launched alternately on two streams. Each kernel waits for an event
    /// that is recorded after its predecessor.
    pub fn hops(&self, count: u32) -> Result<Cost> {
        self.burst(count, |index| {
            let (from, to) = match index % 2 {
                0 => (self.stream, self.other),
                _ => (self.other, self.stream),
            };
            self.launch(self.pass, 1, from, &mut [])?;
            ask!(self.table, event_record(self.event, from), "recorded again at each hop")?;
            ask!(self.table, stream_wait(to, self.event, 0), "the wait is for the record above")
        })
    }

    /// Times writes of a word of device memory by the stream (`cuStreamWriteValue64`).
    pub fn writes(&self, count: u32) -> Result<Cost> {
        let (stream, to) = (self.stream, self.memory);
        self.burst(count, |index| {
            let value = u64::from(index);
            ask!(self.table, write_value(stream, to, value, 0), "an aligned word of our own")
        })
    }

    /// Times waits of the stream for a word of device memory (`cuStreamWaitValue64`). The condition
    /// `>= 0` holds for every word.
    pub fn word_waits(&self, count: u32) -> Result<Cost> {
        let (stream, at) = (self.stream, self.memory);
        self.burst(count, |_| {
            ask!(
                self.table,
                wait_value(stream, at, 0, 0),
                "every value is at least 0, so the wait ends"
            )
        })
    }

    /// Whether the event that `Lab::mark` recorded last is complete. The result is `true` before
    /// the first record of the event.
    pub fn ready(&self) -> Result<bool> {
        let query = need(self.table.event_query, "event_query")?;
        // SAFETY: the event belongs to this `Lab` and is never destroyed. A query does not change
        // the event.
        let code = unsafe { query(self.event) };
        if code == NOT_READY {
            return Ok(false);
        }
        check("event_query", code).map(|()| true)
    }

    /// Records the event that [`Lab::ready`] queries.
    pub(super) fn mark(&self) -> Result<()> {
        ask!(
            self.table,
            event_record(self.event, self.stream),
            "both are of this context and never destroyed"
        )
    }

    /// Calls `work`, which enqueues work in `self.stream`. Returns the device time of this work in
    /// nanoseconds.
    pub(super) fn device_ns(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let [begin, end] = self.timed;
        ask!(self.table, event_record(begin, self.stream), "a timed event before the work")?;
        work()?;
        ask!(self.table, event_record(end, self.stream), "a timed event after the work")?;
        self.synchronize()?;
        let mut milliseconds = 0f32;
        let out = &raw mut milliseconds;
        ask!(self.table, event_elapsed(out, begin, end), "two recorded timed events, complete")?;
        Ok(f64::from(milliseconds) * 1e6)
    }

    /// Sets the release threshold of the default memory pool to `bytes` bytes.
    pub fn pool_keep(&self, bytes: u64) -> Result<()> {
        let (mut pool, mut value) = (null_mut(), bytes);
        ask!(self.table, pool_default(&raw mut pool, self.device), "room for the pool")?;
        ask!(self.table, pool_set(pool, THRESHOLD, &raw mut value), "a 64-bit attribute")
    }

    /// Times pairs of `cuMemAlloc` and `cuMemFree`.
    pub fn alloc_pairs(&self, bytes: usize, count: u32) -> Result<Cost> {
        self.burst(count, |_| {
            let mut memory = 0;
            ask!(self.table, alloc(&raw mut memory, bytes), "room for one address")?;
            ask!(self.table, free(memory), "allocated above and used by nothing")
        })
    }

    /// Times pairs of a stream-ordered allocation and its free. If `wait` is true, the host
    /// synchronises with the stream after each pair.
    pub fn pool_pairs(&self, bytes: usize, count: u32, wait: bool) -> Result<Cost> {
        let stream = self.stream;
        self.burst(count, |_| {
            let mut memory = 0;
            let out = &raw mut memory;
            ask!(self.table, alloc_async(out, bytes, stream), "room for an address of the pool")?;
            ask!(self.table, free_async(memory, stream), "allocated above in the same stream")?;
            if wait {
                ask!(
                    self.table,
                    stream_synchronize(stream),
                    "the threshold applies at a synchronisation of this own stream"
                )?;
            }
            Ok(())
        })
    }
}
