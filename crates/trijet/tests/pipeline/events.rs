//! Reports about times from pairs of events on more streams than there are hardware queues.

use crate::{Memory, host, noise, virtual_host};
use std::num::NonZeroU32;
use trijet::pipeline::Schedule;
use trijet::sim::Order;
use trijet::testing::WORK;
use trijet::trace::TimesFrom;
use trijet::{Bytes, Pipeline, Report};

/// A run with a stream for each of `slots` slots, on a device with four queues.
fn run(slots: usize, from: TimesFrom) -> Report {
    let bytes = noise(4, 10_000);
    let mut results: Vec<u8> = Vec::new();
    let hardware_queues = NonZeroU32::new(4);
    let device = host(virtual_host(Order::Greedy).hardware_queues(hardware_queues));
    let pipeline = Pipeline::on(&device).source(Memory::new(bytes.clone(), 100));
    let pipeline = pipeline.stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)));
    let pipeline = pipeline.schedule(Schedule::SlotStreams).chunk(Bytes(500)).times(from);
    let report = pipeline.depth(slots).sink(&mut results).run().expect("a run without faults");
    assert_eq!(results, bytes);
    report
}

#[test]
fn a_report_warns_of_pairs_of_events_on_more_streams_than_queues() {
    let words = run(6, TimesFrom::Events).warnings();
    assert_eq!(words.len(), 1, "{words:?}");
    assert!(words[0].starts_with("6 streams share 4 hardware queues"), "{words:?}");
    assert_eq!(run(4, TimesFrom::Events).warnings(), [""; 0]);
}

/// If the engines' own times are available, the automatic choice takes them, and records no events.
#[test]
fn the_automatic_choice_of_times_records_no_events_that_hold_streams_back() {
    for from in [TimesFrom::ActivityIfThere, TimesFrom::Activity] {
        assert_eq!(run(6, from).warnings(), [""; 0], "{from:?}");
    }
}
