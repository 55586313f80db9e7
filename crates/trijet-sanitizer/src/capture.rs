//! The callbacks of the library, and the patches.

use crate::api::{ANOTHER_SUBSCRIBER, Domain, SanitizerApi};
use crate::batches::Tables;
use crate::data::{Argument, LaunchHandles, numbers};
use crate::table::{self, Touched};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The patches for all architectures, as `cargo xtask ptx` makes them from `accesses.cu`.
static PATCHES: &[u8] = include_bytes!("accesses.fatbin");

/// The kinds of instructions with their patches. Versions before 13.3 do not see the last two,
/// copies by tensor maps.
const INSTRUCTIONS: [(c_int, &CStr); 7] = [
    (3, c"trijet_access"),
    (14, c"trijet_copy"),
    (30, c"trijet_bulk_load"),
    (35, c"trijet_bulk_store"),
    (37, c"trijet_bulk_reduction"),
    (MAP_LOAD, c"trijet_map_load"),
    (44, c"trijet_map_store"),
];
const MAP_LOAD: c_int = 43;

/// Maximum time for which the call of a launch waits for a table. After a wait in vain, later
/// launches do not wait until a table is free again.
const TABLE_WAIT: Duration = Duration::from_secs(10);
/// Maximum time for which the end of a context or a stream waits until all launches are read, and
/// the start of a stream capture until no table is being read.
const END_WAIT: Duration = Duration::from_secs(10);

static CAPTURE: OnceLock<AccessCapture> = OnceLock::new();

thread_local! {
    /// Whether this thread is inside of the capture.
    pub(crate) static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The launches of the present call of this thread.
    static PRESENT: Cell<CallLaunches> = const { Cell::new(CallLaunches::NONE) };
    /// The context and the table of each launch that this thread has begun and not ended.
    /// Without a destructor, because a destructor of the program may launch a kernel.
    static BEGUN: RefCell<ManuallyDrop<Vec<(usize, usize)>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// The stream of the present launch of a graph by this thread.
    static GRAPH_STREAM: Cell<usize> = const { Cell::new(0) };
    /// Whether the launch of a graph by this thread only uploads it.
    static IS_UPLOAD: Cell<bool> = const { Cell::new(false) };
}

/// The launches of kernels that a call made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLaunches {
    /// The number of the call, from 1; 0 if it launched nothing.
    pub call: u64,
    /// The number of launches whose accesses will be told.
    pub told: u32,
    /// The number of launches whose accesses are not known.
    pub missed: u32,
}

impl CallLaunches {
    const NONE: Self = Self { call: 0, told: 0, missed: 0 };
}

/// The functions of the recorder, which the capture calls.
#[derive(Debug, Clone, Copy)]
pub struct AccessHooks {
    /// Takes the number and the arguments of a call of the driver, at its start and at its return.
    /// Returns whether the function is of interest.
    pub call: fn(u32, *const c_void) -> bool,
    /// Takes the accesses of one launch of a call. `None` if they could not be read.
    pub touched: fn(u64, Option<&Touched>),
    /// Takes the reason why something is not recorded.
    pub trouble: fn(&str),
    /// Waits for all work of a context, in the thread that reads tables. Returns whether the work
    /// is complete.
    pub wait_for_context: fn(usize) -> bool,
}

/// The part of a function of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Launch,
    BeginCapture,
    EndCapture,
    /// The call ends a stream or a context, whose tables are read before. The driver may hold locks
    /// during later callbacks of the call.
    End,
    Other,
}

impl Role {
    fn of(name: Option<&CStr>) -> Self {
        let name = name.map_or("", |name| name.to_str().unwrap_or(""));
        match name {
            _ if name.starts_with("cuLaunch") && !name.starts_with("cuLaunchHost") => Self::Launch,
            _ if name.starts_with("cuGraphLaunch") => Self::Launch,
            _ if name.starts_with("cuStreamBeginCapture") => Self::BeginCapture,
            _ if name.starts_with("cuStreamEndCapture") => Self::EndCapture,
            _ if name.starts_with("cuStreamDestroy") || name.starts_with("cuCtxDestroy") => {
                Self::End
            }
            _ if name.starts_with("cuGreenCtxDestroy") => Self::End,
            _ if name.starts_with("cuDevicePrimaryCtxRelease") => Self::End,
            _ if name.starts_with("cuDevicePrimaryCtxReset") => Self::End,
            _ => Self::Other,
        }
    }
}

/// The tables of a context.
#[derive(Debug)]
pub(crate) enum ContextTables {
    /// A thread makes them.
    Making,
    Ready(Tables),
    /// There is no memory for them, or the context has ended.
    Missing,
}

#[derive(Debug, Default)]
pub(crate) struct CaptureState {
    pub(crate) contexts: HashMap<usize, ContextTables>,
    roles: HashMap<u32, Role>,
    /// The modules whose kernels are not patched. Launches may name other modules than those that
    /// were loaded.
    unpatched: HashSet<usize>,
    /// The contexts with patches, and those that refused them.
    with_patches: HashMap<usize, bool>,
    calls: u64,
    /// The streams that are captured. Meanwhile nothing is read, because waits and copies may
    /// invalidate a capture.
    pub(crate) captured: HashSet<u64>,
    pub(crate) is_reading: bool,
    /// Whether the last wait was in vain, and no table was freed since. Meanwhile nothing waits.
    pub(crate) is_stuck: bool,
    has_told_trouble: bool,
}

/// The capture of accesses in this process.
#[derive(Debug)]
pub struct AccessCapture {
    pub(crate) api: SanitizerApi,
    pub(crate) hooks: AccessHooks,
    subscriber: usize,
    /// The process that subscribed. In a forked child, another thread may hold the lock for ever.
    process: u32,
    state: Mutex<CaptureState>,
    pub(crate) changed: Condvar,
    /// One thread patches at a time.
    patching: Mutex<()>,
    /// One thread chooses callbacks at a time, as the library demands.
    choosing: Mutex<()>,
}

/// Begins the capture in this process. The caller starts a thread with
/// `read_tables`.
///
/// # Errors
/// The library refused the subscription.
pub fn begin(api: SanitizerApi, hooks: AccessHooks) -> Result<&'static AccessCapture, String> {
    let mut subscriber: *mut c_void = std::ptr::null_mut();
    // SAFETY: the call writes the local variable. `called` is mapped until the process ends. False
    // if this library is unloaded before. The driver never unloads it.
    let code = unsafe { (api.subscribe)(&raw mut subscriber, called, std::ptr::null_mut()) };
    if code == ANOTHER_SUBSCRIBER {
        return Err("another tool in this process uses the Compute Sanitizer API".to_owned());
    }
    if code != 0 {
        return Err(format!("the Compute Sanitizer API refused a subscription: error {code}"));
    }
    let capture = CAPTURE.get_or_init(|| AccessCapture {
        api,
        hooks,
        subscriber: subscriber.expose_provenance(),
        process: std::process::id(),
        state: Mutex::default(),
        changed: Condvar::new(),
        patching: Mutex::new(()),
        choosing: Mutex::new(()),
    });
    for domain in [Domain::Driver, Domain::Resource, Domain::Launch, Domain::Graphs] {
        // SAFETY: the subscriber is the one that the library has just made.
        let code = unsafe { (api.domain)(1, subscriber, domain as c_int) };
        if code != 0 {
            return Err(format!("the Compute Sanitizer API refused {domain:?}: error {code}"));
        }
    }
    Ok(capture)
}

/// Whether this thread is inside of the capture, and may hold its lock. A signal handler may have
/// interrupted it.
#[must_use]
pub fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// The launches of the present call of this thread.
#[must_use]
pub fn present_launches() -> CallLaunches {
    PRESENT.get()
}

/// The pointer of a handle.
pub(crate) fn handle(of: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(of)
}

impl AccessCapture {
    pub(crate) fn state(&self) -> MutexGuard<'_, CaptureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_done`, for a limited time. Returns the state.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, CaptureState>,
        limit: Duration,
        mut is_done: impl FnMut(&mut CaptureState) -> bool,
    ) -> MutexGuard<'a, CaptureState> {
        let waited = self.changed.wait_timeout_while(state, limit, |state| !is_done(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn take(&self, domain: c_int, number: u32, data: Argument, address: *const c_void) {
        const RESOURCE: c_int = Domain::Resource as c_int;
        const LAUNCH: c_int = Domain::Launch as c_int;
        const GRAPHS: c_int = Domain::Graphs as c_int;
        if domain == Domain::Driver as c_int {
            return self.driver_call(number, data, address);
        }
        match (domain, number) {
            (RESOURCE, numbers::CONTEXT_MADE) => self.make_tables(data.context()),
            (RESOURCE, numbers::CONTEXT_ENDS) => {
                self.state().contexts.insert(data.context(), ContextTables::Missing);
            }
            (RESOURCE, numbers::STREAM_ENDS) => self.end_stream(data.context(), data.stream()),
            (RESOURCE, numbers::MODULE_LOADED) => self.patch(data.context(), data.module()),
            (LAUNCH, numbers::LAUNCH_BEGINS) => self.begin_launch(data.launch(), None),
            (LAUNCH, numbers::LAUNCH_ENDS) | (GRAPHS, numbers::GRAPH_ENDS) => self.end_launches(),
            (GRAPHS, numbers::GRAPH_BEGINS) => {
                IS_UPLOAD.set(data.is_upload());
                GRAPH_STREAM.set(data.stream());
            }
            (GRAPHS, numbers::NODE_BEGINS) => {
                if let Some(node) = data.node().filter(|_| !IS_UPLOAD.get()) {
                    self.begin_launch(node, Some(GRAPH_STREAM.get()));
                }
            }
            _ => {}
        }
    }

    fn driver_call(&self, number: u32, data: Argument, address: *const c_void) {
        let role = {
            let mut state = self.state();
            *state.roles.entry(number).or_insert_with(|| Role::of(data.function()))
        };
        if data.is_start() {
            PRESENT.set(CallLaunches::NONE);
            match role {
                Role::Launch => self.wait_for_table(),
                Role::BeginCapture => {
                    let mut state = self.state();
                    state.captured.insert(data.first_word());
                    self.wait_unless_stuck(state, |state| !state.is_reading);
                }
                Role::End => self.read_all(None),
                Role::EndCapture | Role::Other => {}
            }
        }
        if role == Role::Launch && !data.is_start() {
            // A launch that failed may have no callback for its end.
            self.end_launches();
        }
        let is_wanted = (self.hooks.call)(number, address);
        if let Some(code) = data.code() {
            self.end_captures(role, code, data);
        }
        if !is_wanted
            && role == Role::Other
            // The next call of the function tries again.
            && let Ok(_one) = self.choosing.try_lock()
        {
            let (subscriber, domain) = (handle(self.subscriber), Domain::Driver as c_int);
            // SAFETY: the subscriber and the number are the library's own. If the library refuses,
            // the callbacks go on, and cost time.
            unsafe { (self.api.callback)(0, subscriber, domain, number) };
        }
    }

    /// Notes the captures that a call has ended, with the code that it returned.
    fn end_captures(&self, role: Role, code: u32, data: Argument) {
        /// Codes of a call that ends no capture: the stream is in no capture, the stream did not
        /// begin it, or another thread did.
        const GOES_ON: [u32; 3] = [401, 903, 908];
        let has_ended = match role {
            Role::BeginCapture => code != 0,
            // A capture that became invalid ends with an error.
            Role::EndCapture => !GOES_ON.contains(&code),
            // The first argument may also be a context, and a context ends the captures in it.
            Role::End => code == 0,
            Role::Launch | Role::Other => false,
        };
        if !has_ended {
            return;
        }
        let is_of_stream = role != Role::End
            || data.function().is_some_and(|name| name.to_bytes().starts_with(b"cuStream"));
        let mut state = self.state();
        if is_of_stream {
            state.captured.remove(&data.first_word());
        } else {
            state.captured.clear();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until `is_done`, unless an earlier wait was in vain.
    fn wait_unless_stuck(
        &self,
        state: MutexGuard<'_, CaptureState>,
        mut is_done: impl FnMut(&mut CaptureState) -> bool,
    ) {
        if !state.is_stuck {
            let mut state = self.wait(state, END_WAIT, &mut is_done);
            state.is_stuck = !is_done(&mut state);
        }
    }

    /// Waits until a launch has a table, if one can be expected. The context of the launch is not
    /// known yet, so all contexts must have one.
    fn wait_for_table(&self) {
        let has_table = |state: &mut CaptureState| {
            state.contexts.values().all(|one| match one {
                ContextTables::Ready(tables) => tables.is_settled(),
                ContextTables::Making | ContextTables::Missing => true,
            })
        };
        let mut state = self.state();
        if state.is_stuck || !state.captured.is_empty() || has_table(&mut state) {
            return;
        }
        state = self.wait(state, TABLE_WAIT, has_table);
        state.is_stuck = !has_table(&mut state);
    }

    /// Makes the tables of a context.
    fn make_tables(&self, context: usize) {
        let mut state = self.state();
        if state.contexts.contains_key(&context) {
            match state.contexts.get(&context) {
                // The handle of a context that has ended is given out again.
                Some(ContextTables::Missing) => {}
                _ => return,
            }
        }
        state.contexts.insert(context, ContextTables::Making);
        state.with_patches.remove(&context);
        drop(state);
        let made = self.new_tables(context);
        if made.is_err() {
            self.tell_trouble("there is no device memory for the accesses of kernels");
        }
        let made = made.map_or(ContextTables::Missing, ContextTables::Ready);
        self.state().contexts.insert(context, made);
        self.changed.notify_all();
    }

    fn tell_trouble(&self, words: &str) {
        if !std::mem::replace(&mut self.state().has_told_trouble, true) {
            (self.hooks.trouble)(words);
        }
    }

    /// Patches the kernels of a module.
    fn patch(&self, context: usize, module: usize) {
        let _one = self.patching.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.state().with_patches.get(&context).copied();
        let has_patches = known.unwrap_or_else(|| {
            // SAFETY: the image is a complete fat binary, which the library copies. The context
            // exists, because a module was loaded into it.
            let code = unsafe { (self.api.add_patches)(PATCHES.as_ptr().cast(), handle(context)) };
            self.state().with_patches.insert(context, code == 0);
            if code != 0 {
                let words = format!("the kernels of a context were not patched: error {code}");
                self.tell_trouble(&words);
            }
            code == 0
        });
        let mut is_patched = has_patches;
        for (kind, patch) in INSTRUCTIONS.iter().filter(|_| has_patches) {
            // SAFETY: the module exists. The name is a terminated string, and a patch of this
            // signature. The library refuses a kind of instruction that it does not know.
            let code =
                unsafe { (self.api.patch_instructions)(*kind, handle(module), patch.as_ptr()) };
            is_patched &= code == 0 || *kind >= MAP_LOAD;
        }
        if is_patched {
            // SAFETY: the module exists, and no kernel of it was launched yet.
            is_patched = unsafe { (self.api.patch_module)(handle(module)) } == 0;
        }
        if is_patched {
            self.state().unpatched.remove(&module);
        } else {
            self.state().unpatched.insert(module);
            self.tell_trouble("the kernels of a module were not patched");
        }
    }

    /// A stream ends before its launches are read during a capture, or after a wait in vain.
    fn end_stream(&self, context: usize, stream: usize) {
        if let Some(ContextTables::Ready(tables)) = self.state().contexts.get_mut(&context) {
            tables.end_stream(stream);
        }
    }

    /// Gives a launch a place in a table. `graph` is the stream of the graph that it is a part of:
    /// the stream of a node may end with the graph, and the stream of the graph waits for all
    /// nodes.
    fn begin_launch(&self, of: LaunchHandles, graph: Option<usize>) {
        let mut state = self.state();
        let mut present = PRESENT.get();
        if present.call == 0 {
            state.calls += 1;
            present.call = state.calls;
        }
        let is_new = !state.contexts.contains_key(&of.context) && state.captured.is_empty();
        if is_new {
            drop(state);
            self.make_tables(of.context);
            state = self.state();
        }
        let is_patched = !state.unpatched.contains(&of.module);
        let place = match state.contexts.get_mut(&of.context) {
            Some(ContextTables::Ready(tables)) if is_patched => {
                tables.begin(present.call, graph.unwrap_or(of.stream))
            }
            _ => None,
        };
        drop(state);
        // Without a place, a node of a graph may still have the place of its last launch.
        let data = place.map_or(0, |place| table::launch_data(place.address, place.launch));
        let is_set = self.set_launch(&of, data);
        match (place, is_set) {
            (Some(place), true) => {
                present.told += 1;
                BEGUN.with_borrow_mut(|begun| begun.push((of.context, place.table)));
            }
            (Some(place), false) => {
                present.missed += 1;
                let mut state = self.state();
                if let Some(ContextTables::Ready(tables)) = state.contexts.get_mut(&of.context) {
                    tables.forget(&place);
                }
                drop(state);
                self.changed.notify_all();
            }
            (None, _) => present.missed += 1,
        }
        PRESENT.set(present);
    }

    fn set_launch(&self, of: &LaunchHandles, data: usize) -> bool {
        let data = handle(data);
        let [launch, kernel, stream] = [of.launch, of.kernel, of.stream].map(handle);
        // SAFETY: the handles are from the callback of the launch, which begins. The data is null,
        // or names a table, which is never freed.
        unsafe { (self.api.launch_data)(launch, kernel, stream, data) == 0 }
    }

    /// Ends the launches that this thread has begun.
    fn end_launches(&self) {
        let begun = BEGUN.with_borrow_mut(|begun| std::mem::take(&mut **begun));
        if begun.is_empty() {
            return;
        }
        let mut state = self.state();
        for (context, table) in begun {
            if let Some(ContextTables::Ready(tables)) = state.contexts.get_mut(&context) {
                tables.end(table);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Makes the thread read all tables with the launches up to now, and waits for it: up to a
    /// limit, or without one as long as waits are not in vain.
    pub fn read_all(&self, limit: Option<Duration>) {
        let mut state = self.state();
        let mut closings = HashMap::new();
        for (context, one) in &mut state.contexts {
            if let ContextTables::Ready(tables) = one {
                closings.insert(*context, tables.close());
            }
        }
        self.changed.notify_all();
        let is_read = |state: &mut CaptureState| {
            // Nothing is read during a capture.
            !state.captured.is_empty()
                || state.contexts.iter().all(|(context, one)| match (one, closings.get(context)) {
                    (ContextTables::Ready(tables), Some(closing)) => tables.is_read_up_to(*closing),
                    _ => true,
                })
        };
        match limit {
            Some(limit) => drop(self.wait(state, limit, is_read)),
            None => self.wait_unless_stuck(state, is_read),
        }
    }
}

/// The callback of the subscription.
extern "C" fn called(_: *mut c_void, domain: c_int, number: u32, data: *const c_void) {
    if data.is_null() || IS_INSIDE.replace(true) {
        return;
    }
    drop(catch_unwind(AssertUnwindSafe(|| {
        if let Some(capture) = CAPTURE.get().filter(|one| one.process == std::process::id()) {
            // SAFETY: the library passes the structure of this domain and this number.
            capture.take(domain, number, unsafe { Argument::new(data) }, data);
        }
    })));
    IS_INSIDE.set(false);
}
