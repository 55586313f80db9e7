//! The graphs of a driver, by handle. The handle of a graph is its number.
#![forbid(unsafe_code)]

use crate::device::driver::GraphHandle;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The graphs of a driver. Each graph has its own lock, so that a launch of one graph delays no
/// launch of another graph.
#[derive(Debug)]
pub(in crate::device) struct GraphTable<G>(Mutex<Numbered<G>>);

#[derive(Debug)]
struct Numbered<G> {
    last: u64,
    by_number: HashMap<u64, Arc<Mutex<G>>>,
}

impl<G> Default for GraphTable<G> {
    fn default() -> Self {
        Self(Mutex::new(Numbered { last: 0, by_number: HashMap::new() }))
    }
}

impl<G> GraphTable<G> {
    /// Adds a graph. No two graphs get the same number.
    pub(in crate::device) fn add(&self, graph: G) -> GraphHandle {
        let mut all = self.0.lock().expect("no thread panicked while it held this lock");
        all.last += 1;
        let number = all.last;
        all.by_number.insert(number, Arc::new(Mutex::new(graph)));
        GraphHandle(number)
    }

    pub(in crate::device) fn find(&self, graph: GraphHandle) -> Option<Arc<Mutex<G>>> {
        let all = self.0.lock().expect("no thread panicked while it held this lock");
        all.by_number.get(&graph.0).map(Arc::clone)
    }

    pub(in crate::device) fn remove(&self, graph: GraphHandle) -> Option<Arc<Mutex<G>>> {
        let mut all = self.0.lock().expect("no thread panicked while it held this lock");
        all.by_number.remove(&graph.0)
    }
}
