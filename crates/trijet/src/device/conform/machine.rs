//! The interpreter of sequences: the objects by name, and one method for each verb.
#![forbid(unsafe_code)]

use super::latch::Latch;
use super::text::{Line, Requirement, Sequence, Unclear, Words, option};
use super::tools::Tools;
use crate::base::error::{Error, Result};
use crate::base::id::DeviceId;
use crate::device::driver::{
    Action, Clock, Driver, EventHandle, FunctionHandle, GraphHandle, ModuleHandle, PoolHandle,
    Script, StreamHandle,
};
use crate::device::memory::{Memory, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// The reason why a statement failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The driver refused the call.
    Refused(Error),
    /// No object has this name, for example because the driver refused the call that creates it.
    Unbound(String),
    /// The statement is invalid.
    Unclear,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Unclear> for Failure {
    fn from(_: Unclear) -> Self {
        Self::Unclear
    }
}

/// The value of a call as text; empty if the call has no value.
pub(super) type Answer = VerbResult<String>;

/// The result of a function that a verb calls.
pub(super) type VerbResult<T> = std::result::Result<T, Failure>;

/// How memory is freed: the call of the driver that frees the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FreedBy {
    /// In stream order.
    Ordered,
    /// At the call, as device memory.
    Device,
    /// As page-locked memory.
    Pinned,
    /// When the last token of the memory drops.
    Dropped,
    /// The memory is freed already. Only verbs that free memory accept it.
    Gone,
}

/// An object with a name.
#[derive(Debug, Clone)]
pub(super) enum Object {
    Stream(StreamHandle, DeviceId),
    Event(EventHandle),
    Pool(PoolHandle),
    Memory(Memory, FreedBy),
    Module(ModuleHandle, DeviceId),
    Function(FunctionHandle, String),
    Graph(GraphHandle),
}

/// The words that host functions have added to the log, in the order in which the functions were
/// called.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Returns the words that were added since the last call of this method, and forgets them.
    pub(super) fn take(&self) -> String {
        let words = std::mem::take(&mut *self.0.lock().expect("nothing panics under this lock"));
        if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
    }

    pub(super) fn say(&self, word: String) {
        self.0.lock().expect("nothing panics under this lock").push(word);
    }
}

/// Runs sequences one after the other.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) driver: &'a dyn Driver,
    devices: u32,
    compiles: bool,
    peers: bool,
    pub(super) clock: Clock,
    /// The objects by name.
    pub(super) objects: BTreeMap<String, Object>,
    /// The names of streams and pools that the driver owns.
    pub(super) permanent: BTreeSet<String>,
    pub(super) tools: BTreeMap<DeviceId, Tools>,
    pub(super) used: BTreeSet<DeviceId>,
    pub(super) latches: Vec<Latch>,
    pub(super) log: Log,
}

impl<'a> Machine<'a> {
    pub(super) fn new(driver: &'a dyn Driver) -> Result<Self> {
        let info = driver.device_info(DeviceId(0))?;
        let devices = driver.device_count()?;
        let reaches = |a, b| matches!(driver.peer_possible(DeviceId(a), DeviceId(b)), Ok(true));
        Ok(Self {
            driver,
            devices,
            compiles: info.compute != (0, 0),
            peers: devices > 1 && reaches(0, 1) && reaches(1, 0),
            clock: info.clock,
            objects: BTreeMap::new(),
            permanent: BTreeSet::new(),
            tools: BTreeMap::new(),
            used: BTreeSet::new(),
            latches: Vec::new(),
            log: Log::default(),
        })
    }

    fn lacks(&self, sequence: &Sequence<'_>) -> Option<String> {
        sequence.needs.iter().find_map(|need| match need {
            Requirement::Devices(count) if *count > self.devices => {
                Some(format!("{count} devices"))
            }
            Requirement::Peers if !self.peers => Some("peers".to_owned()),
            Requirement::Ptx if !self.compiles => Some("ptx".to_owned()),
            _ => None,
        })
    }

    pub(super) fn run(
        &mut self,
        sequence: &Sequence<'_>,
        out: &mut (dyn Write + Send),
    ) -> io::Result<()> {
        writeln!(out, "\n== {}", sequence.name)?;
        if let Some(need) = self.lacks(sequence) {
            return writeln!(out, "skipped: needs {need}");
        }
        self.use_device(DeviceId(0));
        for lines in sequence.lines.chunk_by(|a, b| a.on_thread && b.on_thread) {
            if lines[0].on_thread {
                let driver = self.driver;
                let mut outcome = Ok(());
                let work: Script<'_> = Box::new(|| outcome = self.steps(lines, out));
                driver.script(vec![work]);
                outcome?;
            } else {
                self.steps(lines, out)?;
            }
        }
        self.clean_up(out)
    }

    fn steps(&mut self, lines: &[Line<'_>], out: &mut (dyn Write + Send)) -> io::Result<()> {
        for line in lines {
            write!(out, "{} -> ", line.text)?;
            out.flush()?;
            let answer = self.step(line.statement);
            writeln!(out, "{}", shown(answer))?;
        }
        Ok(())
    }

    fn step(&mut self, statement: &str) -> Answer {
        let mut words = Words::of(statement);
        let words = &mut words;
        match words.word()? {
            "device" => self.device(words),
            "memory-info" => self.memory_info(words),
            "sync-device" => self.sync_device(words),
            "stream" => self.stream(words),
            "legacy" => self.legacy(words),
            "per-thread" => self.per_thread(words),
            "event" => self.event(words),
            "destroy" => self.destroy(words),
            "sync" => self.sync(words),
            "query" => self.query(words),
            "poll" => self.poll(words),
            "until" => self.until(words),
            "record" => self.record(words),
            "wait" => self.wait(words),
            "elapsed" => self.elapsed(words),
            "hold" => self.hold(words),
            "release" => self.release(),
            "say" => self.say(words),
            "log" => Ok(self.log.take()),
            "begin" => self.capture_begin(words),
            "end" => self.capture_end(words),
            "state" => self.capture_state(words),
            "replay" => self.replay(words),
            "pool" => self.pool(words),
            "default" => self.pool_default(words),
            "current" => self.pool_current(words),
            "set-current" => self.pool_set_current(words),
            "get" => self.pool_get(words),
            "set" => self.pool_set(words),
            "compare" => self.pool_compare(words),
            "marks" => self.pool_marks(words),
            "trim" => self.pool_trim(words),
            "set-access" => self.pool_set_access(words),
            "access" => self.pool_access(words),
            "same" => self.same(words),
            "alloc" => self.alloc(words),
            "free" => self.free(words),
            "device-alloc" => self.device_alloc(words),
            "device-free" => self.device_free(words),
            "pinned" => self.pinned(words),
            "pinned-free" => self.pinned_free(words),
            "pageable" => self.pageable(words),
            "put" => self.put(words),
            "bytes" => self.bytes(words),
            "copy" => self.copy(words),
            "copy-now" => self.copy_now(words),
            "fill" => self.fill(words),
            "fill-now" => self.fill_now(words),
            "batch" => self.batch(words),
            "peer-possible" => self.peer_possible(words),
            "peer-enable" => self.peer_enable(words),
            "peer-disable" => self.peer_disable(words),
            "module" => self.module(words),
            "function" => self.function(words),
            "launch" => self.launch(words),
            _ => Err(Failure::Unclear),
        }
    }

    /// The device of the option `on`; the first device without the option.
    pub(super) fn device_of(&mut self, options: &[&str]) -> VerbResult<DeviceId> {
        let device = match option(options, "on") {
            Some(word) => DeviceId(word.parse().map_err(|_| Failure::Unclear)?),
            None => DeviceId(0),
        };
        self.use_device(device);
        Ok(device)
    }

    /// Notes a device for the clean-up after the sequence. Makes the tools of the device now,
    /// because loading a module may wait for a stream that is held later.
    pub(super) fn use_device(&mut self, device: DeviceId) {
        if device.0 < self.devices && self.used.insert(device) {
            // An error is ignored here, because the call that needs the tools gets the error again.
            drop(self.tools(device).map(|_| ()));
        }
    }

    pub(super) fn bind(&mut self, name: &str, object: Object) -> Answer {
        self.permanent.remove(name);
        self.objects.insert(name.to_owned(), object);
        Ok(String::new())
    }

    pub(super) fn named(&self, name: &str) -> VerbResult<Object> {
        self.objects.get(name).cloned().ok_or_else(|| Failure::Unbound(name.to_owned()))
    }

    /// The tools of a device.
    pub(super) fn tools(&mut self, device: DeviceId) -> VerbResult<&Tools> {
        if !self.tools.contains_key(&device) {
            let tools = Tools::new(self.driver, device)?;
            self.tools.insert(device, tools);
        }
        Ok(&self.tools[&device])
    }

    /// Opens every latch, waits for all work, and destroys all objects. Only failures are printed.
    fn clean_up(&mut self, out: &mut (dyn Write + Send)) -> io::Result<()> {
        self.latches.clear();
        self.end_captures();
        let mut failures = self.wait_for_devices();
        let objects = std::mem::take(&mut self.objects);
        let permanent = std::mem::take(&mut self.permanent);
        let rank = |object: &Object| match object {
            Object::Memory(..) => 0,
            Object::Event(_) => 1,
            Object::Stream(..) => 2,
            Object::Pool(_) => 3,
            Object::Graph(_) => 4,
            Object::Module(..) | Object::Function(..) => 5,
        };
        let mut owned: Vec<_> =
            objects.into_iter().filter(|(name, _)| !permanent.contains(name)).collect();
        owned.sort_by_key(|(_, object)| rank(object));
        for (name, object) in owned {
            if let Err(failure) = self.give_back(object) {
                failures.push((name, failure));
            }
        }
        failures.extend(self.wait_for_devices());
        self.used.clear();
        self.log = Log::default();
        for (name, failure) in failures {
            writeln!(out, "clean-up of {name} -> {}", shown(Err(failure)))?;
        }
        Ok(())
    }

    fn wait_for_devices(&self) -> Vec<(String, Failure)> {
        let wait = |device: &DeviceId| {
            let error = self.driver.synchronize(*device).err()?;
            Some((device.to_string(), Failure::Refused(error)))
        };
        self.used.iter().filter_map(wait).collect()
    }

    fn give_back(&mut self, object: Object) -> VerbResult<()> {
        let driver = self.driver;
        match object {
            Object::Memory(memory, FreedBy::Ordered) => {
                let Space::Device(device) = memory.space() else { return Ok(()) };
                driver.submit(self.tools(device)?.stream, &Action::Free(&memory))?;
            }
            Object::Memory(memory, FreedBy::Device) => driver.device_free(&memory)?,
            Object::Memory(memory, FreedBy::Pinned) => driver.pinned_free(&memory)?,
            Object::Event(event) => driver.event_destroy(event)?,
            Object::Stream(stream, _) => driver.stream_destroy(stream)?,
            Object::Pool(pool) => driver.pool_destroy(pool)?,
            Object::Graph(graph) => driver.graph_destroy(graph)?,
            // Modules cannot be unloaded.
            Object::Memory(..) | Object::Module(..) | Object::Function(..) => {}
        }
        Ok(())
    }
}

/// An answer as the transcript shows it.
fn shown(answer: Answer) -> String {
    match answer {
        Ok(value) if value.is_empty() => "ok".to_owned(),
        Ok(value) => format!("ok {value}"),
        Err(Failure::Refused(error)) => match error.code() {
            Some(code) => format!("err {code}"),
            None => format!("err {:?}", error.kind()),
        },
        Err(Failure::Unbound(name)) => format!("no {name}"),
        Err(Failure::Unclear) => "what?".to_owned(),
    }
}
