//! The recorder of a foreign program. It uses CUPTI's activity records.
//!
//! When the CUDA driver initialises itself, it loads the library that `CUDA_INJECTION64_PATH`
//! names, and calls the entry point of the library. The entry point calls [`record_this_process`].
//! From then on CUPTI asks for empty buffers and returns full buffers. A thread of the recorder
//! reads the records in these buffers, and writes them to the trace file of the process at least
//! once per second. The file is in the folder that the environment names.
//!
//! The traced program has priority over the recording:
//!
//! - The recorder's thread has its own descriptor table and blocks all signals ([`crate::disk`],
//!   `system`). Callbacks on threads of the program only move buffers from one list to another.
//! - If CUPTI refuses a call, the file gets a warning. If an allocation of memory fails, records
//!   are lost and counted. No panic leaves a callback.
//! - When a limit is reached, when the disk is nearly full, or when `trijet trace` has ended, the
//!   recorder disables CUPTI's records and ends its thread.
//!
//! The end of a recording depends on the process:
//!
//! - The process returns from `main` or calls `exit`: an exit handler makes CUPTI return every
//!   buffer, and the end of the file is written. The handler is registered while the driver
//!   initialises itself. So the handler runs before the exit handlers of libraries that were loaded
//!   earlier.
//! - The process is killed, aborts, calls `_exit`, or replaces its program (`exec`): the records of
//!   the last second are lost. The file has no end, and the reader of the file reports this. The
//!   new program of the process is recorded in a separate file.
//! - The process forks: the child has no CUDA and no thread of the recorder, and writes nothing.
//!
//! A program may also record parts of itself. [`pause`] ends a recording early, and [`resume`]
//! begins another one with a file of its own. Between the two CUPTI collects nothing.
//!
//! CUPTI accepts one subscriber. The recorder subscribes, so that CUPTI refuses a profiler inside
//! of the program with an error. Without this, the profiler could take buffers of the recorder. The
//! subscription also gives the edges of graphs (`graph_edges.rs`).

mod callbacks;
mod parts;

pub use crate::opening::RANKS;
pub use parts::{pause, resume};

use crate::api::{ANOTHER_SUBSCRIBER, Api, Code, CuptiApi, NvtxExport};
use crate::buffers::{BUFFERS_MAX, Buffer, Buffers};
use crate::choice;
use crate::disk::{Disk, EXTENSION, Stop};
use crate::file;
use crate::graph_edges::{self, KnownEdges, NewEdges};
use crate::layout::{self, kinds};
use crate::named_ranges;
use crate::opening::{first_blocks, usable};
use crate::questions::is_question;
use crate::sink::Sink;
use crate::system;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable that names the folder for the trace files of processes.
pub const RECORDINGS: &str = "TRIJET_RECORDINGS";

/// The time between two requests to CUPTI to return the buffers whose records are complete.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum time for which the exit of the program waits for the last write.
const EXIT_WAIT: Duration = Duration::from_secs(10);
/// The stack size of the recorder's thread.
const STACK_BYTES: usize = 256 << 10;
/// When the staged blocks have this number of bytes, they are written to the file, even if more
/// full buffers are to be read.
const STAGED_BYTES: usize = 4 << 20;
/// An upper limit of the numbers of the functions of an API of CUDA.
const FUNCTIONS_MAX: u32 = 4096;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

#[derive(Debug)]
struct Recorder {
    api: CuptiApi,
    process: u32,
    buffers: Buffers,
    /// The trace file. `None` before the thread starts and after the recording has ended.
    disk: Mutex<Option<Disk>>,
    /// The full buffers and the progress. The callbacks and the thread of the recorder share them.
    handed: Mutex<Handed>,
    changed: Condvar,
    /// The blocks of the contexts and streams of earlier recordings, which CUPTI reports once.
    lasting: Mutex<Vec<u8>>,
    /// The edges of graphs that no thread of the recorder has taken.
    new_edges: NewEdges,
    /// The edges of graphs of earlier recordings.
    known_edges: Mutex<KnownEdges>,
    /// The kinds of records that are collected: the bit of each kind is set.
    enabled: AtomicU64,
    /// The time spent in the code of the recorder, in nanoseconds.
    own_time: AtomicU64,
    /// The subscription, for calls of CUPTI.
    subscriber: AtomicPtr<c_void>,
    /// Whether CUPTI has accepted the recorder.
    is_subscribed: AtomicBool,
}

#[derive(Debug)]
struct Handed {
    /// Full buffers, each with the number of its first bytes that are records.
    full: Vec<(Buffer, usize)>,
    progress: Progress,
}

/// The progress of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The thread has not opened the trace file yet.
    Starting,
    Running,
    /// The process exits. The thread writes the remaining records and the end of the trace file.
    Ending,
    /// The thread has ended, or was never started.
    Done,
}

/// Runs the body of a callback, and catches a panic of `body`, because the caller is not Rust code.
fn guarded(body: impl FnOnce()) {
    // After a panic, records are missing, and the trace file has no end. The reader of the file
    // reports this.
    drop(catch_unwind(AssertUnwindSafe(body)));
}

/// Records this process until it exits, into a file in the folder that [`RECORDINGS`] names. The
/// driver calls this function through the entry point of the library. The function does nothing if
/// the variable is not set, and at a second call.
///
/// The function returns no error, because the program must continue in any case. Failures become
/// warnings in the file.
pub fn record_this_process() {
    guarded(|| {
        if let Some(folder) = std::env::var_os(RECORDINGS)
            && RECORDER.get().is_none()
        {
            start(folder.into());
        }
    });
}

/// Makes the recorder trace the NVTX ranges of a library, now or when it starts. Returns whether it
/// does.
///
/// # Safety
/// `tables` is the function that NVTX passes to `InitializeInjectionNvtx2`. The library that it
/// belongs to stays loaded.
pub unsafe fn take_ranges(tables: NvtxExport) -> bool {
    let mut taken = false;
    guarded(|| {
        // The child of a fork has no recorder. The lock of the tables may be held there for ever.
        let is_child = RECORDER.get().is_some_and(|recorder| !recorder.is_at_home());
        if std::env::var_os(RECORDINGS).is_some() && !is_child {
            // SAFETY: the caller keeps the contract of `take`, because both have the same one.
            taken = unsafe { named_ranges::take(tables) };
        }
    });
    taken
}

fn start(folder: PathBuf) {
    let found = usable();
    let first = first_blocks(found.as_ref().ok().map(|(api, _)| *api));
    // Without the trace file, a warning cannot be written.
    let Ok(mut disk) = Disk::create(folder, EXTENSION, &first) else { return };
    let mut words = Vec::new();
    match found {
        Ok((api, own)) => {
            let recorder = RECORDER.get_or_init(|| Recorder::new(api, std::process::id()));
            let begun = recorder.begin(&mut words, own);
            if begun && disk.append_now(&words).is_ok() {
                // Without an exit handler, the records of the last second are lost and the file
                // has no end.
                let _registered = recorder.end_at_exit();
                recorder.is_subscribed.store(true, Ordering::Release);
                return recorder.run(disk);
            }
        }
        Err(trouble) => file::trouble(&mut words, &trouble),
    }
    file::end(&mut words, &file::Totals::default());
    // If the disk is full, the trace file has no end. The reader of the file reports this.
    let _written = disk.append_now(&words);
}

/// Whether CUPTI has accepted a call. If not, appends a warning to `words`.
fn accepted(words: &mut Vec<u8>, what: &str, code: Option<Code>) -> bool {
    match code {
        Some(0) => true,
        Some(ANOTHER_SUBSCRIBER) => {
            file::trouble(words, "another tool in this process has subscribed to CUPTI");
            false
        }
        Some(code) => {
            file::trouble(words, &format!("CUPTI refused {what}: error {code}"));
            false
        }
        None => false,
    }
}

impl Recorder {
    fn new(api: CuptiApi, process: u32) -> Self {
        Self {
            api,
            process,
            buffers: Buffers::default(),
            disk: Mutex::new(None),
            handed: Mutex::new(Handed {
                full: Vec::with_capacity(BUFFERS_MAX),
                progress: Progress::Starting,
            }),
            changed: Condvar::new(),
            lasting: Mutex::default(),
            new_edges: NewEdges::default(),
            known_edges: Mutex::default(),
            enabled: AtomicU64::new(0),
            own_time: AtomicU64::new(0),
            subscriber: AtomicPtr::new(std::ptr::null_mut()),
            is_subscribed: AtomicBool::new(false),
        }
    }

    fn handed(&self) -> MutexGuard<'_, Handed> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes records number threads as the operating system does, which has their names. By default
    /// the C library numbers them, and no other table has its numbers.
    fn number_threads(&self) {
        /// `CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM`.
        const SYSTEM: c_int = 1;
        if let Some(call) = self.api.thread_numbers {
            // SAFETY: the call takes a number, and changes records of later calls only. A refusal
            // leaves the numbers as they are, and a number without a thread has no name.
            let _numbered_otherwise = unsafe { call(SYSTEM) };
        }
    }

    /// Makes CUPTI collect the kinds of records that every trace has, and the chosen ones. The
    /// callbacks for buffers are registered before.
    fn enable(&self, words: &mut Vec<u8>) {
        let value = choice::value();
        let chosen = choice::chosen(value.as_deref()).map(|one| (one.kind, one.name));
        let mut enabled = 0;
        for (kind, what) in kinds::ALWAYS.into_iter().chain(chosen) {
            // SAFETY: the call takes the number of a kind, and CUPTI refuses an unknown number.
            // CUPTI then asks for buffers through the callbacks that `begin` has registered. This
            // does not hold without the registration.
            if accepted(words, what, self.api.enable.map(|call| unsafe { call(kind) })) {
                enabled |= 1 << kind;
            }
        }
        self.enabled.store(enabled, Ordering::Relaxed);
        if enabled & 1 << kinds::MARKER != 0 {
            named_ranges::begin(&self.api);
        }
        if let Some(note) = choice::left_out(value.as_deref()) {
            file::note(words, &note);
        }
        if enabled & 1 << kinds::GRAPH_TRACE != 0 {
            file::note(words, "launches of graphs were recorded as a whole, without their nodes");
        } else {
            // SAFETY: CUPTI has made this subscription, and it is never ended.
            unsafe { graph_edges::request(&self.api, self.subscriber.load(Ordering::Relaxed)) };
        }
    }

    /// Makes CUPTI leave out the calls of functions that neither enqueue, wait nor allocate. A
    /// training step of PyTorch makes ten such calls for each kernel.
    fn leave_out_questions(&self) {
        for (api, choose) in
            [(Api::Runtime, self.api.runtime_function), (Api::Driver, self.api.driver_function)]
        {
            let Some(choose) = choose else { continue };
            for number in 1..FUNCTIONS_MAX {
                let name = self.api.function(api, number);
                if name.and_then(|name| name.to_str().ok()).is_some_and(is_question) {
                    // SAFETY: the call takes the number of a function, which CUPTI itself has
                    // named. If CUPTI refuses the number, the calls of that function are recorded.
                    unsafe { choose(number, 0) };
                }
            }
        }
    }

    /// Starts the thread of the recorder, which writes to `disk`.
    fn run(&'static self, disk: Disk) {
        *self.disk() = Some(disk);
        let started = system::with_blocked_signals(|| {
            std::thread::Builder::new()
                .name("trijet-trace".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(|| guarded(|| self.write()))
        });
        match started {
            Ok(_) => {
                // Waits until the thread has opened the trace file, because the program may later
                // set a limit on open files.
                let starting = |handed: &mut Handed| handed.progress == Progress::Starting;
                let _begun = self.changed.wait_timeout_while(self.handed(), EXIT_WAIT, starting);
            }
            Err(error) => {
                let mut sink = self.sink();
                let words = format!("the thread of the recorder was not started: {error}");
                file::trouble(&mut sink.staged, &words);
                self.finish(None, sink);
            }
        }
    }

    /// A sink with the facts of earlier recordings.
    fn sink(&self) -> Sink {
        let mut sink = Sink::continued(self.lasting().clone());
        sink.edges = std::mem::take(&mut *self.known_edges());
        sink
    }

    /// The function that the thread of the recorder runs.
    fn write(&self) {
        let private = system::with_private_files();
        let mut sink = self.sink();
        sink.awaits_samples = self.enabled.load(Ordering::Relaxed) & 1 << kinds::ENVIRONMENT != 0;
        if let Some(disk) = &mut *self.disk()
            && private
        {
            disk.keep_open();
        }
        self.begin_running();
        let mut flushed = Instant::now();
        let stopped = loop {
            let ending = self.wait();
            let since = Instant::now();
            let due = flushed.elapsed() >= PERIOD;
            if due
                && !ending
                && let Some(flush) = self.api.flush
            {
                // SAFETY: 0 requests the buffers whose records are complete. During this call,
                // CUPTI calls `completed`, which takes the lock of `handed`. If this thread held
                // the lock here, it would be a deadlock.
                unsafe { flush(0) };
            }
            let written = self.write_full(&mut sink);
            self.spent(since);
            if let Err(stop) = written {
                break Some(stop);
            }
            if ending {
                break None;
            }
            if sink.is_full() {
                let words = format!(
                    "the limit of {} activities was reached; later activities were not traced",
                    file::ACTIVITIES_MAX
                );
                file::trouble(&mut sink.staged, &words);
                break None;
            }
            if due {
                flushed = Instant::now();
                if self.disk().as_ref().is_none_or(|disk| !disk.is_wanted()) {
                    break Some(Stop::Ended);
                }
            }
        };
        self.finish(stopped, sink);
    }

    fn lasting(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_edges(&self) -> MutexGuard<'_, KnownEdges> {
        self.known_edges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_running(&self) {
        let mut handed = self.handed();
        if handed.progress == Progress::Starting {
            handed.progress = Progress::Running;
        }
        drop(handed);
        self.changed.notify_all();
    }

    /// Waits until there are full buffers, [`PERIOD`] has passed, or the process exits. Returns
    /// whether the process exits.
    fn wait(&self) -> bool {
        let handed = self.handed();
        let idle =
            |handed: &mut Handed| handed.progress == Progress::Running && handed.full.is_empty();
        let waited = self.changed.wait_timeout_while(handed, PERIOD, idle);
        let (handed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        handed.progress != Progress::Running
    }

    /// Reads the records of all full buffers, and writes them to the trace file.
    fn write_full(&self, sink: &mut Sink) -> Result<(), Stop> {
        let mut disk = self.disk();
        let Some(disk) = disk.as_mut() else { return Err(Stop::Lost) };
        let version = self.api.version_number();
        loop {
            // `while let` would hold the lock of `handed` during its body, and a callback would
            // have to wait for the lock.
            let Some((buffer, valid)) = self.handed().full.pop() else { break };
            // A graph is made before it runs, so the edges of all graphs in the buffer are there.
            sink.edges.take(&self.new_edges);
            self.api.walk(buffer.bytes(valid), |bytes| {
                if sink.is_full() {
                    sink.totals.unknown += 1;
                } else {
                    sink.take(layout::read(bytes, version), &self.api);
                }
            });
            self.buffers.keep(buffer);
            if sink.staged.len() >= STAGED_BYTES {
                disk.append(&sink.staged)?;
                sink.written();
            }
        }
        sink.totals.dropped += self.api.dropped_number();
        if !sink.staged.is_empty() {
            disk.append(&sink.staged)?;
            sink.written();
        }
        Ok(())
    }

    /// Ends the recording. `stopped` is the reason if the trace file cannot or need not be
    /// continued. It is `None` if the process exits, if the limit of activities was reached, or if
    /// the thread of the recorder was not started.
    fn finish(&self, stopped: Option<Stop>, mut sink: Sink) {
        if stopped == Some(Stop::Full) {
            let words = "the disk is nearly full; later activities were not traced";
            sink.discard();
            file::trouble(&mut sink.staged, words);
        }
        if self.handed().progress != Progress::Ending {
            self.disable();
        }
        if sink.awaits_samples {
            file::note(&mut sink.staged, "the environment has no samples: CUPTI gave none");
        }
        *self.lasting() = std::mem::take(&mut sink.lasting);
        *self.known_edges() = std::mem::take(&mut sink.edges);
        sink.totals.declined = self.buffers.take_declined();
        sink.totals.own_time = self.own_time.load(Ordering::Relaxed);
        sink.totals.at = self.api.now();
        file::end(&mut sink.staged, &sink.totals);
        if let Some(mut disk) = self.disk().take() {
            match stopped {
                None | Some(Stop::Full) => {
                    // If the end of the file cannot be written, the reader of the file reports that
                    // the end is missing.
                    let _written = disk.append_now(&sink.staged);
                }
                Some(Stop::Ended) => disk.remove(),
                Some(Stop::Lost) => {}
            }
        }
        let mut handed = self.handed();
        handed.progress = Progress::Done;
        let left = std::mem::take(&mut handed.full);
        handed.full.reserve(BUFFERS_MAX);
        drop(handed);
        // A later recording needs them again.
        left.into_iter().for_each(|(buffer, _)| self.buffers.keep(buffer));
        self.changed.notify_all();
    }

    /// Makes the thread of the recorder write the remaining records and the end of the trace file,
    /// and waits for it. Returns whether it is done.
    fn end(&self) -> bool {
        if self.handed().progress == Progress::Done {
            return true;
        }
        if let Some(flush) = self.api.flush {
            // SAFETY: 1 also requests the buffers with incomplete records. During this call, CUPTI
            // calls `completed`, which takes the lock of `handed`. If this thread held the lock
            // here, it would be a deadlock. CUPTI is still usable. Its own exit handlers were
            // registered before the one of the recorder, so they run after it. If CUPTI refuses the
            // call, the last records are missing.
            unsafe { flush(1) };
        }
        let mut handed = self.handed();
        if handed.progress != Progress::Done {
            handed.progress = Progress::Ending;
        }
        self.changed.notify_all();
        let writing = |handed: &mut Handed| handed.progress != Progress::Done;
        // After `EXIT_WAIT` the process goes on in any case, and the end of the file may be
        // missing.
        let waited = self.changed.wait_timeout_while(handed, EXIT_WAIT, writing);
        waited.unwrap_or_else(PoisonError::into_inner).0.progress == Progress::Done
    }

    /// Ends CUPTI's collection of records. The program then continues as if it were not traced.
    fn disable(&self) {
        let enabled = self.enabled.swap(0, Ordering::Relaxed);
        for kind in (0..u64::BITS).filter(|kind| enabled & 1 << kind != 0) {
            if let Some(call) = self.api.disable {
                // SAFETY: the call takes the number of a kind. CUPTI returns the buffers that it
                // still has later, and the recorder exists until the process ends.
                unsafe { call(kind) };
            }
        }
    }

    /// Whether this process is the recorded process. A forked child is another process.
    fn is_at_home(&self) -> bool {
        std::process::id() == self.process
    }

    fn spent(&self, since: Instant) {
        let spent = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.own_time.fetch_add(spent, Ordering::Relaxed);
    }
}
