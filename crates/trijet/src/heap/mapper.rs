//! The thread that maps memory ahead of its use.
//!
//! The thread starts when a heap first needs it, and ends with the heap. If the thread could not be
//! started, the call that needs the memory maps it.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type MapperTask = Box<dyn FnOnce() + Send>;

/// The channel for tasks of the thread. `None` if the system refused to start a thread.
#[derive(Default)]
pub(super) struct Mapper(OnceLock<Option<Sender<MapperTask>>>);

impl Mapper {
    /// Gives a task to the thread.
    pub(super) fn run(&self, task: MapperTask) {
        let Some(tasks) = self.0.get_or_init(start) else { return };
        // The thread lives as long as the heap. If a panic ended the thread earlier, the call that
        // needs the memory maps it.
        let Ok(()) = tasks.send(task) else { return };
    }
}

fn start() -> Option<Sender<MapperTask>> {
    let (sender, receiver) = channel::<MapperTask>();
    let thread = std::thread::Builder::new().name("trijet-mapper".to_owned());
    thread.spawn(move || receiver.into_iter().for_each(|task| task())).ok().map(|_| sender)
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mapper")
    }
}
