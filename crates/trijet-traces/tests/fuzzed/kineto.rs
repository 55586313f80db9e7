//! A trace of PyTorch's profiler of any bytes is read or refused, and what is read can be written.

use trijet_traces::{chrome, kineto, table};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(traces) = kineto::read(bytes) else { return };
    let mut written = Vec::new();
    chrome::write(&traces, &mut written).expect("a vector takes all");
    assert!(serde_json::from_slice::<serde_json::Value>(&written).is_ok());
    table::write(&traces, &mut Vec::new()).expect("a vector takes all");
}
