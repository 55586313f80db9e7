//! The recorder of the calls that a foreign program makes to the driver, for `trijet check`.
//!
//! It is a part of the library that the driver loads into the program, as the recorder of traces.
//! CUPTI calls back on the thread of the program at each function of the table `functions`, and the
//! call is appended to a list. A thread of the recorder writes the list to the call file.
//!
//! The program comes first:
//!
//! - A callback waits for nothing but the lock of the list, which no thread keeps during a call of
//!   the driver, of the loader or of the system.
//! - A call of the driver by the recorder itself, or inside a callback, is not recorded.
//! - If the list is full, calls are lost and counted. No panic leaves a callback.
//! - A forked child has no CUDA, and records nothing.
//! - Page-locked memory that copies use is protected (`host_memory`), and opened at the first
//!   access, which is noted. The handler of such an access takes no lock.

mod arguments;
mod clock;
mod functions;
mod host_memory;
mod kernels;
mod protection;
mod python;
mod source;
mod stack;
mod touches;
mod writer;

use crate::api::Api;
use crate::call_file::{self, Head, NO_STACK, NOT_READY, PER_THREAD};
use crate::disk::Disk;
use crate::opening::command;
use crate::{signal, system};
use arguments::{CallbackData, LaunchArguments};
use functions::{Argument, FUNCTIONS, LaunchForm, Recorded};
use host_memory::{HostMemory, MemoryEffect, effect};
use kernels::Kernel;
use source::CallSource;
pub use source::KERNELS;
use stack::HostStack;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use trijet_sanitizer::capture::AccessHooks;

/// The environment variable that names the folder for the call files of processes.
pub const CALLS: &str = "TRIJET_CALLS";

/// The environment variable with the number of the only process that is recorded, if it is set. Its
/// children also have the variables.
pub const ONLY: &str = "TRIJET_CALLS_PROCESS";

/// Maximum number of bytes of calls that wait for the writer.
const STAGED_MAX: usize = 64 << 20;
/// Maximum number of bytes of a block and its time.
const BLOCK_MAX: usize = 2 * 4 + 16 + (1 << 16);
/// Maximum number of stacks of a process. Calls with further stacks have none.
const STACKS_MAX: u32 = 1 << 16;
/// The number of waiting bytes at which the writer is woken.
const STAGED_BYTES: usize = 1 << 20;

static RECORDER: OnceLock<CallRecorder> = OnceLock::new();

thread_local! {
    /// Whether this thread is inside of the recorder.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The number of this thread; 0 before its first call.
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// The time at which the call of this thread began.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
}

#[derive(Debug)]
struct CallRecorder {
    source: CallSource,
    process: u32,
    /// The effect of each function of [`FUNCTIONS`] on page-locked memory.
    effects: Vec<MemoryEffect>,
    host_memory: Mutex<HostMemory>,
    /// The addresses of the code of the driver.
    driver_code: Vec<Range<usize>>,
    list: Mutex<List>,
    changed: Condvar,
    disk: Mutex<Option<Disk>>,
}

/// The blocks that wait for the writer, and what they have numbers for.
#[derive(Debug, Default)]
struct List {
    staged: Vec<u8>,
    calls: u64,
    lost: u64,
    contexts: HashSet<u32>,
    kernels: HashMap<u64, (u32, Kernel)>,
    kernel_count: u32,
    stacks: HashMap<HostStack, u32>,
    phase: Phase,
    /// The number of requests to write what is staged, and of those that were fulfilled.
    flushes: u64,
    flushed: u64,
}

/// The phase of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// The thread that writes has not opened its file.
    #[default]
    Starting,
    Running,
    /// The process exits.
    Ending,
    Done,
}

impl List {
    /// Whether a block may be appended, and the memory for it is there.
    fn has_room(&mut self) -> bool {
        self.staged.len() < STAGED_MAX && self.staged.try_reserve(BLOCK_MAX).is_ok()
    }
}

/// Runs the body of a callback, and catches a panic, because the caller is not Rust code.
fn guarded(body: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(body)));
}

/// Makes the recorder write all calls so far to the file. Returns whether it did.
pub fn flush() -> bool {
    let mut is_done = false;
    let before = IS_INSIDE.replace(true);
    guarded(|| {
        if let Some(recorder) = RECORDER.get().filter(|one| one.process == std::process::id()) {
            if protection::has_accesses() {
                recorder.append_accesses();
            }
            recorder.source.finish();
            is_done = recorder.flush();
        }
    });
    IS_INSIDE.set(before);
    is_done
}

/// Records the calls of this process until it exits, into a file in the folder that [`CALLS`]
/// names. Returns whether the variable is set. Failures become blocks of the file, because the
/// program must go on.
pub fn record_calls_of_this_process() -> bool {
    let Some(folder) = std::env::var_os(CALLS) else { return false };
    guarded(|| {
        let own = std::process::id().to_string();
        let is_wanted = std::env::var_os(ONLY).is_none_or(|only| only == *own);
        if RECORDER.get().is_none() && is_wanted {
            start(folder.into());
        }
    });
    true
}

fn start(folder: PathBuf) {
    let mut first = Vec::new();
    call_file::header(&mut first, std::process::id());
    call_file::command(&mut first, &command());
    let found = CallSource::open(HOOKS);
    if let Err(trouble) = &found {
        call_file::trouble(&mut first, trouble);
    }
    for (number, function) in (0_u16..).zip(FUNCTIONS) {
        call_file::function(&mut first, number, function.name.as_bytes());
    }
    let Ok(mut disk) = Disk::create(folder, call_file::EXTENSION, &first) else { return };
    let mut words = Vec::new();
    if let Ok(source) = found {
        // Not at the first launch: a launch may come from inside the loader.
        kernels::prepare();
        python::prepare();
        clock::start();
        let recorder = RECORDER.get_or_init(|| CallRecorder::new(source));
        if recorder.source.subscribe(called, &mut words) {
            // Without an exit handler, the calls of the last moments are lost.
            let _registered = system::at_exit(ended);
            recorder.list().staged.extend(words);
            return recorder.run(disk);
        }
    }
    call_file::end(&mut words, 0, 0);
    // If the disk is full, the file has no end, which its reader reports.
    let _written = disk.append_now(&words);
}

impl CallRecorder {
    fn new(source: CallSource) -> Self {
        Self {
            source,
            process: std::process::id(),
            effects: FUNCTIONS.iter().map(effect).collect(),
            host_memory: Mutex::new(HostMemory::new(signal::page_bytes())),
            driver_code: stack::driver_code(),
            list: Mutex::default(),
            changed: Condvar::new(),
            disk: Mutex::new(None),
        }
    }

    fn host_memory(&self) -> MutexGuard<'_, HostMemory> {
        self.host_memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the start or the return of a call of the driver.
    fn take(&self, number: u32, data: CallbackData) {
        if data.is_start() {
            BEGUN.set(clock::now());
        }
        if std::process::id() != self.process {
            return;
        }
        let Some((index, per_thread)) = self.source.function(number, data) else { return };
        let function = &FUNCTIONS[usize::from(index)];
        let wanted = match function.recorded {
            Recorded::AtStart | Recorded::Unload => data.is_start(),
            Recorded::AtReturn | Recorded::Launch(_) | Recorded::Batch(_) | Recorded::TensorMap => {
                !data.is_start()
            }
        };
        if !wanted {
            return;
        }
        if protection::has_accesses() {
            self.append_accesses();
        }
        let code = if data.is_start() { 0 } else { data.code() };
        // The arguments of a launch, a batch or a map that the driver refused may be no memory.
        let has_memory = matches!(
            function.recorded,
            Recorded::Launch(_) | Recorded::Batch(_) | Recorded::TensorMap
        );
        if code != 0 && has_memory {
            return;
        }
        if self.list().phase == Phase::Done {
            return self.host_memory().open_all();
        }
        let head = Head {
            function: index,
            flags: if per_thread { PER_THREAD } else { 0 },
            code,
            thread: thread_number(),
            context: self.source.context_number(data),
            stack: NO_STACK,
        };
        self.note_context(head.context, data.context());
        let head = match function.has_stack && code == 0 {
            true => Head { stack: self.stack(stack::here()), ..head },
            false => head,
        };
        match function.recorded {
            Recorded::Launch(form) => self.launch(head, data, form),
            Recorded::Batch(stream) => {
                for words in data.arguments().batch(stream) {
                    self.append(|out| call_file::call(out, &head, &words));
                    self.host_memory().note(MemoryEffect::Batch, &head, &words);
                }
            }
            Recorded::TensorMap => {
                let words = data.arguments().tensor();
                self.append(|out| call_file::call(out, &head, &words));
            }
            Recorded::Unload => {
                let effect = self.effects[usize::from(head.function)];
                self.host_memory().note(effect, &head, &[]);
                self.list().kernels.clear();
            }
            Recorded::AtReturn | Recorded::AtStart => self.call(head, data, function.arguments),
        }
    }

    fn call(&self, head: Head, data: CallbackData, types: &[Argument]) {
        let mut words = Vec::with_capacity(8);
        data.arguments().words(types, head.code == 0 && !data.is_start(), &mut words);
        let launches = self.source.launches();
        self.append(|out| {
            launches.note(out);
            call_file::call(out, &head, &words);
        });
        let effect = self.effects[usize::from(head.function)];
        // A capture that became invalid ends with an error.
        if effect != MemoryEffect::None && (head.code == 0 || effect == MemoryEffect::EndCapture) {
            self.host_memory().note(effect, &head, &words);
        } else if head.code != 0 && head.code != NOT_READY {
            // After an error of the device, nothing tells whether copies are complete.
            self.host_memory().open_all();
        }
    }

    /// Appends the accesses of the host that were noted. They are taken under the lock, so that
    /// calls which are appended later were made later.
    fn append_accesses(&self) {
        let mut new = Vec::new();
        let mut list = self.list();
        let (accesses, lost) = protection::take_accesses();
        list.lost += lost;
        for one in accesses {
            // The driver reads and writes memory in its calls. Accesses of a host function follow
            // its stream, and its number is not known.
            let is_of_driver =
                |frame: &usize| self.driver_code.iter().any(|code| code.contains(frame));
            if one.stack.frames.iter().any(is_of_driver) {
                continue;
            }
            if list.phase == Phase::Done || !list.has_room() {
                list.lost += 1;
                continue;
            }
            let count = u32::try_from(list.stacks.len()).unwrap_or(STACKS_MAX);
            let number = match list.stacks.get(&one.stack) {
                Some(number) => *number,
                None if count >= STACKS_MAX => NO_STACK,
                None => {
                    list.stacks.insert(one.stack, count);
                    new.push((count, one.stack.frames, one.python_lines));
                    count
                }
            };
            call_file::time(&mut list.staged, one.time, one.time);
            call_file::access(&mut list.staged, one.address as u64, one.is_write, number);
        }
        drop(list);
        for (number, frames, mut lines) in new {
            lines.extend(stack::frame_lines(&frames));
            call_file::stack(&mut self.list().staged, number, &lines);
        }
    }

    /// Appends a launch. Walking the stack takes longer than the rest of the launch, so only the
    /// first launch of a kernel has one.
    fn launch(&self, head: Head, data: CallbackData, form: LaunchForm) {
        let launch = data.arguments().launch(form);
        let mut words = Vec::new();
        let (number, is_first) = self.kernel(&launch, &mut words);
        let stack = if is_first { self.stack(stack::here()) } else { NO_STACK };
        let head = Head { stack, ..head };
        let launches = self.source.launches();
        self.append(|out| {
            launches.note(out);
            call_file::launch(out, &head, number, launch.stream, &words);
        });
        let stream = host_memory::key(launch.stream, &head);
        if stream.is_legacy() {
            self.host_memory().work(stream);
        }
    }

    /// The number of the kernel of a launch, and whether it is the first launch of the kernel.
    /// Appends the words that may be addresses to `words`.
    fn kernel(&self, launch: &LaunchArguments, words: &mut Vec<u64>) -> (u32, bool) {
        if let Some((number, kernel)) = self.list().kernels.get(&launch.kernel) {
            launch.addresses(&kernel.layout, words);
            return (*number, false);
        }
        // Without the lock, because the driver may have to wait for another thread.
        let kernel = kernels::describe(launch.kernel);
        launch.addresses(&kernel.layout, words);
        let mut list = self.list();
        let number = list.kernel_count;
        list.kernel_count += 1;
        call_file::kernel(&mut list.staged, number, &kernel.name);
        list.kernels.insert(launch.kernel, (number, kernel));
        (number, true)
    }

    /// The number of a stack.
    fn stack(&self, stack: HostStack) -> u32 {
        if let Some(number) = self.list().stacks.get(&stack) {
            return *number;
        }
        if self.list().stacks.len() >= STACKS_MAX as usize {
            return NO_STACK;
        }
        // Without the lock, because the loader may have to wait for another thread.
        let lines = stack::lines(&stack);
        let mut list = self.list();
        if let Some(number) = list.stacks.get(&stack) {
            return *number;
        }
        let number = u32::try_from(list.stacks.len()).unwrap_or(NO_STACK);
        call_file::stack(&mut list.staged, number, &lines);
        list.stacks.insert(stack, number);
        number
    }

    fn note_context(&self, number: u32, context: *mut c_void) {
        if context.is_null() || self.list().contexts.contains(&number) {
            return;
        }
        let device = self.source.device(context);
        let mut list = self.list();
        if list.contexts.insert(number) {
            call_file::context(&mut list.staged, number, device);
        }
    }

    /// Appends a call of this thread to the list, if there is room.
    fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let (begun, returned) = (BEGUN.get(), clock::now());
        let mut list = self.list();
        // While the process exits, other threads still make calls, which the writer takes.
        if list.phase == Phase::Done || !list.has_room() {
            list.lost += 1;
            return;
        }
        let before = list.staged.len();
        call_file::time(&mut list.staged, begun, returned);
        write(&mut list.staged);
        list.calls += 1;
        let is_due = before < STAGED_BYTES && list.staged.len() >= STAGED_BYTES;
        drop(list);
        if is_due {
            self.changed.notify_all();
        }
    }
}

/// The number of the calling thread, from 1.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

/// The callback of the subscription: CUPTI calls it at the start and at the return of each function
/// that was asked for.
extern "C" fn called(_: *mut c_void, domain: c_int, number: u32, data: *const c_void) {
    if domain != Api::Driver.domain() || data.is_null() || IS_INSIDE.replace(true) {
        return;
    }
    guarded(|| {
        if let Some(recorder) = RECORDER.get() {
            // SAFETY: CUPTI passes this structure to callbacks of the domain of the driver.
            recorder.take(number, unsafe { CallbackData::new(data) });
        }
    });
    IS_INSIDE.set(false);
}

/// The functions that the capture of accesses calls.
const HOOKS: AccessHooks = AccessHooks {
    call: sanitizer_called,
    touched: |call, touched| guarded(|| with_recorder(|one| one.append_touched(call, touched))),
    trouble: |words| guarded(|| with_recorder(|one| one.append_trouble(words))),
    wait_for_context: kernels::wait_for_context,
};

fn with_recorder(body: impl FnOnce(&CallRecorder)) {
    if let Some(recorder) = RECORDER.get() {
        body(recorder);
    }
}

/// Takes the start or the return of a call of the driver from the Compute Sanitizer API. Returns
/// whether the function is recorded.
fn sanitizer_called(number: u32, data: *const c_void) -> bool {
    if IS_INSIDE.replace(true) {
        return true;
    }
    // SAFETY: the library's structure for a call of the driver has the fields that are read, up to
    // the context, at the offsets of CUPTI's structure.
    let data = unsafe { CallbackData::new(data) };
    let mut is_recorded = true;
    guarded(|| {
        with_recorder(|recorder| {
            recorder.take(number, data);
            is_recorded = recorder.source.function(number, data).is_some();
        });
    });
    IS_INSIDE.set(false);
    is_recorded
}

/// The handler that runs at the exit of the process.
extern "C" fn ended() {
    // A signal handler that calls `exit` may have interrupted the recorder on this thread, which
    // then holds the lock of the list for ever.
    if IS_INSIDE.get() {
        return;
    }
    guarded(|| {
        if let Some(recorder) = RECORDER.get().filter(|one| one.process == std::process::id()) {
            if protection::has_accesses() {
                recorder.append_accesses();
            }
            recorder.source.finish();
            recorder.end();
        }
    });
}
