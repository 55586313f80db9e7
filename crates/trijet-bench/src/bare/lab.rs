//! One GPU through bare calls: streams, events, two kernels that do next to nothing, and what each
//! call costs the host.

use super::check;
use super::table::{Attribute, Config, Handle, Table, ask, need, open};
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::time::Instant;
use trijet::{Bytes, Result};

/// `CU_STREAM_NON_BLOCKING` and `CU_EVENT_DISABLE_TIMING`.
const NON_BLOCKING: c_uint = 1;
const NO_TIMING: c_uint = 2;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;
/// `CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE`.
const L2_BYTES: c_int = 38;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
const THRESHOLD: c_int = 4;
/// The copy whose call is timed.
const COPY_BYTES: usize = 4096;

/// `pass` does nothing; `tick` has the first thread of each block count one up in its own word, so
/// that a chain of them shows whether each ran once and after the one before.
pub(super) const PTX: &str = include_str!("ticks.ptx");

/// What one call costs, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Until the call returned.
    pub(crate) host: f64,
    /// Until the device was done with all of them, by number of calls.
    pub(crate) through: f64,
}

/// A GPU and what is kept on it. Nothing of it is given back: the process is a measurement.
#[derive(Debug)]
pub(crate) struct Lab {
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
    /// 64 KiB: counters of the chains, and the target of copies.
    pub(super) memory: u64,
}

/// The bytes behind `Lab::memory` and `Lab::host`.
pub(super) const MEMORY_BYTES: usize = 1 << 16;

unsafe extern "C" fn nothing(_: *mut c_void) {}

impl Lab {
    /// # Errors
    /// `Unsupported` without a driver or what is needed of it; what it reports.
    pub(crate) fn new(ordinal: u32) -> Result<Self> {
        let table = Table::load(open()?);
        ask!(table, init(0), "the only defined flags")?;
        let (mut device, mut context) = (0, null_mut());
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        ask!(table, device_get(&raw mut device, number), "one number to write")?;
        ask!(table, primary_retain(&raw mut context, device), "a device and a pointer to write")?;
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

    /// Makes the context current in this thread: other code may have changed that.
    pub(crate) fn enter(&self) -> Result<()> {
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
            "a text that ends in NUL and outlives the call, and no options"
        )?;
        Ok(module)
    }

    pub(super) fn function(&self, module: Handle, name: &str) -> Result<Handle> {
        let name = CString::new(name).expect("our own name has no NUL byte");
        let mut function = null_mut();
        let out = &raw mut function;
        ask!(self.table, module_function(out, module, name.as_ptr()), "a module that stays")?;
        Ok(function)
    }

    /// The size of the second-level cache.
    pub(crate) fn l2(&self) -> Result<Bytes> {
        let mut value = 0;
        ask!(self.table, attribute(&raw mut value, L2_BYTES, self.device), "a number to write")?;
        Ok(Bytes(u64::try_from(value).unwrap_or(0)))
    }

    /// Zeroes the device memory and waits.
    pub(super) fn clear(&self) -> Result<()> {
        ask!(self.table, fill(self.memory, 0, MEMORY_BYTES, self.stream), "an own allocation")?;
        self.synchronize()
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        ask!(self.table, stream_synchronize(self.stream), "an own stream")?;
        ask!(self.table, stream_synchronize(self.other), "the other own stream")
    }

    /// The first words of the device memory.
    pub(super) fn words(&self, count: usize) -> Result<Vec<u32>> {
        let mut words = vec![0u32; count.min(MEMORY_BYTES / 4)];
        let to = words.as_mut_ptr().cast();
        let bytes = words.len() * 4;
        ask!(self.table, download(to, self.memory, bytes, self.stream), "both have the bytes")?;
        self.synchronize()?;
        Ok(words)
    }

    /// Launches `pass` or `tick`: the one pointer is ignored by the first.
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
            "a kernel with this one parameter, which the call copies; no more blocks than words"
        )
    }

    /// Times `count` calls; the device is idle before and after.
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

    /// Launches of an empty kernel.
    pub(crate) fn launches(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| self.launch(self.pass, 1, self.stream, &mut []))
    }

    /// Records of an event.
    pub(crate) fn records(&self, count: u32) -> Result<Cost> {
        let (event, stream) = (self.event, self.stream);
        self.burst(count, |_| ask!(self.table, event_record(event, stream), "both are our own"))
    }

    /// Waits of a stream for an event of another.
    pub(crate) fn waits(&self, count: u32) -> Result<Cost> {
        ask!(self.table, event_record(self.event, self.stream), "an own event, to wait for")?;
        let (other, event) = (self.other, self.event);
        self.burst(count, |_| ask!(self.table, stream_wait(other, event, 0), "no special flags"))
    }

    /// Queries of an event that is complete.
    pub(crate) fn queries(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| self.ready().map(|_| ()))
    }

    /// Events made and destroyed.
    pub(crate) fn events(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| {
            let event = self.new_event(NO_TIMING)?;
            ask!(self.table, event_destroy(event), "made above, and nobody else has it")
        })
    }

    /// Streams made. They are destroyed outside of the time.
    pub(crate) fn streams(&self, count: u32) -> Result<Cost> {
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

    /// Uploads of 4 KiB from page-locked memory.
    pub(crate) fn uploads(&self, count: u32) -> Result<Cost> {
        let (to, from, stream) = (self.memory, self.host, self.stream);
        self.burst(count, |_| {
            ask!(self.table, upload(to, from, COPY_BYTES, stream), "both are larger and stay")
        })
    }

    /// Host functions that do nothing.
    pub(crate) fn host_fns(&self, count: u32) -> Result<Cost> {
        let stream = self.stream;
        self.burst(count, |_| {
            ask!(self.table, host_fn(stream, nothing, null_mut()), "it looks at nothing")
        })
    }

    /// Launches that the host waits for one by one.
    pub(crate) fn round_trips(&self, count: u32) -> Result<Cost> {
        self.burst(count, |_| {
            self.launch(self.pass, 1, self.stream, &mut [])?;
            ask!(self.table, stream_synchronize(self.stream), "an own stream, one kernel in it")
        })
    }

    /// Kernels in two streams in turn, each after the one before by an event.
    pub(crate) fn hops(&self, count: u32) -> Result<Cost> {
        self.burst(count, |index| {
            let (from, to) = match index % 2 {
                0 => (self.stream, self.other),
                _ => (self.other, self.stream),
            };
            self.launch(self.pass, 1, from, &mut [])?;
            ask!(self.table, event_record(self.event, from), "recorded again at each hop")?;
            ask!(self.table, stream_wait(to, self.event, 0), "it keeps the record of this call")
        })
    }

    /// Writes of a word by the stream.
    pub(crate) fn writes(&self, count: u32) -> Result<Cost> {
        let (stream, to) = (self.stream, self.memory);
        self.burst(count, |index| {
            let value = u64::from(index);
            ask!(self.table, write_value(stream, to, value, 0), "an aligned word of our own")
        })
    }

    /// Waits of the stream for a word that has the value already (`>= 0` always holds).
    pub(crate) fn word_waits(&self, count: u32) -> Result<Cost> {
        let (stream, at) = (self.stream, self.memory);
        self.burst(count, |_| {
            ask!(self.table, wait_value(stream, at, 0, 0), "0 is reached by any value: no hang")
        })
    }

    /// Whether the event of [`Lab::mark`] is reached; so it is before the first one.
    pub(crate) fn ready(&self) -> Result<bool> {
        let query = need(self.table.event_query, "event_query")?;
        // SAFETY: an own event, which is never destroyed; asking has no effect.
        let code = unsafe { query(self.event) };
        if code == NOT_READY {
            return Ok(false);
        }
        check("event_query", code).map(|()| true)
    }

    /// Records the event that [`Lab::ready`] asks for.
    pub(super) fn mark(&self) -> Result<()> {
        ask!(self.table, event_record(self.event, self.stream), "the own pair of event and stream")
    }

    /// The time that `work` in the own stream takes on the device, in nanoseconds.
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

    /// Sets how much the default pool keeps at a synchronisation.
    pub(crate) fn pool_keep(&self, bytes: u64) -> Result<()> {
        let (mut pool, mut value) = (null_mut(), bytes);
        ask!(self.table, pool_default(&raw mut pool, self.device), "room for the pool")?;
        ask!(self.table, pool_set(pool, THRESHOLD, &raw mut value), "a 64-bit attribute")
    }

    /// Allocations freed at once, without any stream.
    pub(crate) fn alloc_pairs(&self, bytes: usize, count: u32) -> Result<Cost> {
        self.burst(count, |_| {
            let mut memory = 0;
            ask!(self.table, alloc(&raw mut memory, bytes), "room for one address")?;
            ask!(self.table, free(memory), "allocated above and used by nothing")
        })
    }

    /// Allocations freed at once in stream order; `wait` synchronises after each pair.
    pub(crate) fn pool_pairs(&self, bytes: usize, count: u32, wait: bool) -> Result<Cost> {
        let stream = self.stream;
        self.burst(count, |_| {
            let mut memory = 0;
            let out = &raw mut memory;
            ask!(self.table, alloc_async(out, bytes, stream), "room for an address of the pool")?;
            ask!(self.table, free_async(memory, stream), "allocated above in the same stream")?;
            if wait {
                ask!(self.table, stream_synchronize(stream), "so that the threshold acts")?;
            }
            Ok(())
        })
    }
}
