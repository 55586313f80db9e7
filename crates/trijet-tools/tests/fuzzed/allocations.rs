//! A trace of allocations of any bytes is read or refused, and a trace that is read can be written
//! and drawn.

use trijet_tools::allocations::Trace;
use trijet_tools::allocations::picture::of_caching;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(trace) = Trace::read(bytes) else { return };
    let again = Trace::read(trace.text().as_bytes()).expect("what is written is read");
    assert_eq!((&again.rows, again.allocations), (&trace.rows, trace.allocations));
    assert_eq!(again.peak(), trace.peak());
    let panel = of_caching(&trace, Some(1 << 30));
    assert!(panel.held_peak <= 1 << 30 && panel.live_peak <= panel.held_peak);
    let refused = panel.failures.len() as u64;
    assert_eq!(
        (refused, panel.blocks.len() as u64),
        (panel.failed, u64::from(trace.allocations) - refused)
    );
}
