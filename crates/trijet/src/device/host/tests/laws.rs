//! Tests of laws of memory and order that only the contract can test: pools with limits and
//! switches, and the block that an allocation gets. A choice of the driver is tested with many
//! seeds: the chosen behaviour happens in some orders, or in none.
#![forbid(unsafe_code)]

use crate::base::error::ErrorKind;
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::{
    Core, EventHandle, HostFn, PoolAttribute, PoolHandle, Pools, Ranges, Readiness, StreamHandle,
    StreamKind, Timing,
};
use crate::device::host::cost::CostModel;
use crate::device::host::engine::queues::Queues;
use crate::device::host::{Executor, HostConfig, HostDriver, Order};
use crate::device::memory::Memory;
use std::cell::Cell;
use std::sync::Arc;

const DEVICE: DeviceId = DeviceId(0);
/// The limit of a pool. One allocation of this size fills the pool.
const FULL: Bytes = Bytes(1 << 20);
const SEEDS: u64 = 60;

fn open(order: Order) -> HostDriver {
    // A host function delays its stream for longer than the calls of a test take together.
    let cost = CostModel { host_fn: Nanos(20_000_000), ..CostModel::default() };
    let config = HostConfig::new().executor(Executor::Virtual(order)).devices(3).cost(cost);
    HostDriver::open(config).expect("a simulation needs no threads")
}

/// Runs a program in many orders, and returns the number of orders in which it returned true.
fn count(program: impl Fn(&HostDriver) -> bool) -> u64 {
    let orders = std::iter::once(Order::Greedy).chain((0..SEEDS).map(Order::Seeded));
    orders.map(|order| u64::from(program(&open(order)))).sum()
}

/// A host function that does nothing.
fn nothing() -> HostFn {
    Arc::new(|| ())
}

const ALL: u64 = SEEDS + 1;

/// The verbs that the tests use, for drivers that refuse nothing.
impl HostDriver {
    fn stream(&self, kind: StreamKind) -> StreamHandle {
        self.stream_create(DEVICE, kind, 0).expect("a stream")
    }

    fn free_stream(&self) -> StreamHandle {
        self.stream(StreamKind::NonBlocking)
    }

    fn event(&self) -> EventHandle {
        self.event_create(DEVICE, Timing::Off).expect("an event")
    }

    fn hold(&self, stream: StreamHandle) {
        self.host_fn(stream, &nothing(), &[]).expect("enqueued");
    }

    /// A pool of at most `max` bytes with the reuse policies `on`.
    fn pool(&self, max: Bytes, on: &[PoolAttribute]) -> PoolHandle {
        let pool = self.pool_create(DEVICE, max).expect("a pool");
        let policies = [
            PoolAttribute::REUSE_FOLLOW_EVENTS,
            PoolAttribute::REUSE_OPPORTUNISTIC,
            PoolAttribute::REUSE_INTERNAL,
        ];
        for policy in policies {
            self.pool_set(pool, policy, u64::from(on.contains(&policy))).expect("it can be set");
        }
        self.pool_set(pool, PoolAttribute::THRESHOLD, u64::MAX).expect("it can be set");
        pool
    }

    fn get(&self, stream: StreamHandle, pool: PoolHandle) -> Memory {
        self.alloc(stream, Some(pool), FULL).expect("the pool has room for it")
    }

    fn give(&self, stream: StreamHandle, memory: &Memory) {
        self.free(stream, memory).expect("it is live");
    }

    fn edge(&self, from: StreamHandle, to: StreamHandle) {
        let event = self.event();
        self.event_record(event, from).expect("recorded");
        self.stream_wait(to, event).expect("enqueued");
    }

    fn ready(&self, stream: StreamHandle) -> bool {
        self.stream_query(stream).expect("nothing failed") == Readiness::Ready
    }

    fn sync(&self, stream: StreamHandle) {
        self.stream_synchronize(stream).expect("nothing failed");
    }

    /// Lets time pass. The host sees no operation of another stream complete.
    fn let_time_pass(&self) {
        let other = self.free_stream();
        self.hold(other);
        self.sync(other);
    }
}

/// Whether stream `b` allocates the block that stream `a` frees after a slow host function. The
/// test runs `between` after the call that frees and before the call that allocates.
fn reused(
    driver: &HostDriver,
    kind: StreamKind,
    on: &[PoolAttribute],
    between: impl Fn(StreamHandle, StreamHandle),
) -> bool {
    let (a, b) = (driver.stream(kind), driver.stream(kind));
    let pool = driver.pool(Bytes(0), on);
    let x = driver.get(a, pool);
    driver.hold(a);
    driver.give(a, &x);
    between(a, b);
    driver.get(b, pool).address() == x.address()
}

const FREE: StreamKind = StreamKind::NonBlocking;
const FOLLOW: &[PoolAttribute] = &[PoolAttribute::REUSE_FOLLOW_EVENTS];
const LUCK: &[PoolAttribute] = &[PoolAttribute::REUSE_OPPORTUNISTIC];
const INSERT: &[PoolAttribute] = &[PoolAttribute::REUSE_INTERNAL];

/// Law M-B1 holds with all policies off.
#[test]
fn a_stream_gets_back_at_once_what_it_freed() {
    let again = count(|driver| {
        let (a, pool) = (driver.free_stream(), driver.pool(FULL, &[]));
        let x = driver.get(a, pool);
        driver.hold(a);
        driver.give(a, &x);
        // The pool is full: there is no other block.
        driver.get(a, pool).address() == x.address() && !driver.ready(a)
    });
    assert_eq!(again, ALL);
}

/// Law M-B2 holds with all policies off.
#[test]
fn a_free_that_the_host_has_seen_is_reused_by_any_stream() {
    let seen = |driver: &HostDriver| reused(driver, FREE, &[], |a, _| driver.sync(a));
    assert_eq!(count(seen), ALL);
}

/// The opposite of law M-B2: without a policy, a free that is complete but was not seen allows no
/// reuse.
#[test]
fn a_free_that_the_host_has_not_seen_is_reused_by_no_other_stream() {
    let unseen = |driver: &HostDriver| reused(driver, FREE, &[], |_, _| driver.let_time_pass());
    assert_eq!(count(unseen), 0);
}

/// Law M-B3.
#[test]
fn a_wait_for_a_record_after_the_free_allows_reuse() {
    let waited = |driver: &HostDriver| reused(driver, FREE, FOLLOW, |a, b| driver.edge(a, b));
    assert!(count(waited) > 0);
}

/// Law M-B3: the last stream follows the free through a third stream.
#[test]
fn waits_in_a_row_allow_reuse_in_the_last_stream() {
    let waited = |driver: &HostDriver| {
        reused(driver, FREE, FOLLOW, |a, b| {
            let middle = driver.free_stream();
            driver.edge(a, middle);
            driver.edge(middle, b);
        })
    };
    assert!(count(waited) > 0);
}

/// Law M-B3: the legacy stream is an edge between blocking streams.
#[test]
fn the_legacy_stream_allows_reuse_among_blocking_streams() {
    let barrier = |driver: &HostDriver, kind| {
        reused(driver, kind, FOLLOW, |_, _| {
            let legacy = driver.stream_legacy(DEVICE).expect("there is one");
            driver.hold(legacy);
        })
    };
    assert!(count(|driver| barrier(driver, StreamKind::Blocking)) > 0);
    assert_eq!(count(|driver| barrier(driver, FREE)), 0, "no edge without blocking streams");
}

/// The opposite of law M-B3: a record before the free allows no reuse.
#[test]
fn a_wait_for_a_record_before_the_free_allows_no_reuse() {
    let early = count(|driver| {
        let (a, b, event) = (driver.free_stream(), driver.free_stream(), driver.event());
        let pool = driver.pool(Bytes(0), FOLLOW);
        let x = driver.get(a, pool);
        driver.hold(a);
        driver.event_record(event, a).expect("recorded");
        driver.give(a, &x);
        driver.stream_wait(b, event).expect("enqueued");
        driver.get(b, pool).address() == x.address()
    });
    assert_eq!(early, 0);
}

/// Law M-B3, with its policy off.
#[test]
fn without_the_policy_a_wait_allows_no_reuse() {
    let waited = |driver: &HostDriver| reused(driver, FREE, &[], |a, b| driver.edge(a, b));
    assert_eq!(count(waited), 0);
}

/// Law M-B4: a free is used if it is complete and the policy is on.
#[test]
fn a_complete_free_may_be_reused_and_a_pending_one_never() {
    let luck = |driver: &HostDriver| reused(driver, FREE, LUCK, |_, _| driver.let_time_pass());
    let lucky = count(luck);
    assert!(lucky > 0 && lucky < ALL, "{lucky} of {ALL}");
    assert_eq!(count(|driver| reused(driver, FREE, LUCK, |_, _| ())), 0, "it is pending");
}

/// Law M-B5: if the pool is full, the driver inserts a wait. Work after the allocation then comes
/// after the free.
#[test]
fn a_full_pool_inserts_a_wait_for_the_free() {
    let ordered = count(|driver| {
        let (a, b, event) = (driver.free_stream(), driver.free_stream(), driver.event());
        let pool = driver.pool(FULL, INSERT);
        let x = driver.get(a, pool);
        driver.hold(a);
        driver.event_record(event, a).expect("recorded");
        driver.give(a, &x);
        let y = driver.get(b, pool);
        assert_eq!(y.address(), x.address(), "there is no other block");
        driver.fill(b, &y.span(0..64), 1).expect("enqueued");
        assert!(!driver.ready(b), "the fill must wait for the free");
        driver.sync(b);
        driver.event_query(event).expect("nothing failed") == Readiness::Ready
    });
    assert_eq!(ordered, ALL);
    assert_eq!(count(|driver| reused(driver, FREE, INSERT, |_, _| ())), 0, "there is room");
}

/// Law M-B5, with its policy off.
#[test]
fn without_inserted_waits_a_full_pool_is_out_of_memory() {
    let refused = count(|driver| {
        let (a, b) = (driver.free_stream(), driver.free_stream());
        let pool = driver.pool(FULL, LUCK);
        let x = driver.get(a, pool);
        driver.hold(a);
        driver.give(a, &x);
        let refused = driver.alloc(b, Some(pool), FULL).expect_err("the free is pending");
        refused.kind() == ErrorKind::OutOfMemory
    });
    assert_eq!(refused, ALL);
}

/// Law A10: other devices are not included.
#[test]
fn waiting_for_one_device_leaves_another_alone() {
    let other = DeviceId(1);
    let apart = count(|driver| {
        let elsewhere = driver.stream_create(other, FREE, 0).expect("a stream");
        let here = driver.free_stream();
        driver.hold(elsewhere);
        let x = driver.alloc(here, None, Bytes(64)).expect("there is room");
        driver.fill(here, &x.span(0..64), 1).expect("enqueued");
        driver.synchronize(DEVICE).expect("nothing failed");
        driver.ready(here) && !driver.ready(elsewhere)
    });
    assert_eq!(apart, ALL);
}

/// A GPU does not wait when memory is unmapped, so memory of pending operations stays mapped.
#[test]
fn memory_of_a_pending_operation_cannot_be_unmapped() {
    let refused = count(|driver| {
        let a = driver.free_stream();
        let sizes = driver.range_sizes(DEVICE).expect("it has ranges");
        let x = driver.range_reserve(DEVICE, sizes.step).expect("there are addresses");
        let all = 0..sizes.step.0;
        driver.range_map(&x, all.clone()).expect("there is room");
        driver.hold(a);
        driver.fill(a, &x.span(8..16), 1).expect("enqueued");
        let refused = driver.range_unmap(&x, all.clone()).is_err();
        driver.sync(a);
        driver.range_unmap(&x, all).expect("nothing uses it");
        refused
    });
    assert_eq!(refused, ALL);
}

/// Law A24: freeing memory that belongs to no stream may wait for the device.
#[test]
fn freeing_memory_of_no_stream_may_wait_for_the_device() {
    let waits = count(|driver| {
        let a = driver.free_stream();
        let x = driver.device_alloc(DEVICE, Bytes(64)).expect("there is room");
        driver.hold(a);
        driver.device_free(&x).expect("it is live");
        driver.ready(a)
    });
    assert!(waits > 0 && waits < ALL, "{waits} of {ALL}");
}

/// The opposite of law A24: freeing stream-ordered memory waits for nothing.
#[test]
fn freeing_memory_of_a_stream_at_once_waits_for_nothing() {
    let waits = count(|driver| {
        let a = driver.free_stream();
        let x = driver.alloc(a, None, Bytes(64)).expect("there is room");
        driver.hold(a);
        driver.device_free(&x).expect("it is live");
        driver.ready(a)
    });
    assert_eq!(waits, 0);
}

/// Law A25: trimming returns memory whose free was seen complete, and keeps memory whose free is
/// pending. It may return memory whose free is complete but was not seen.
#[test]
fn trimming_may_keep_memory_whose_free_was_not_seen() {
    let trimmed = |see: fn(&HostDriver, StreamHandle)| {
        count(|driver| {
            let (a, pool) = (driver.free_stream(), driver.pool(Bytes(0), &[]));
            let x = driver.get(a, pool);
            driver.hold(a);
            driver.give(a, &x);
            see(driver, a);
            driver.pool_trim(pool, Bytes(0)).expect("a live pool can be trimmed");
            driver.pool_get(pool, PoolAttribute::RESERVED).expect("an attribute") == 0
        })
    };
    assert_eq!(trimmed(|driver, a| driver.sync(a)), ALL, "seen");
    let unseen = trimmed(|driver, _| driver.let_time_pass());
    assert!(unseen > 0 && unseen < ALL, "unseen: {unseen} of {ALL}");
    assert_eq!(trimmed(|_, _| ()), 0, "pending");
}

/// Laws A4, A13 and A21: an allocation is no operation, so it does not make its stream wait for the
/// legacy stream. Memory that was freed in the legacy stream may be reused all the same. An
/// operation that comes after the allocation, in any stream, comes after the free.
#[test]
fn an_operation_after_an_allocation_comes_after_the_free_of_its_memory() {
    let on = [PoolAttribute::REUSE_FOLLOW_EVENTS];
    let outcomes = |event: fn(&HostDriver) -> EventHandle| {
        let [had, followed] = [Cell::new(0), Cell::new(0)];
        count(|driver| {
            let legacy = driver.stream_legacy(DEVICE).expect("it is there");
            let (b, other) = (driver.stream(StreamKind::Blocking), driver.free_stream());
            let pool = driver.pool(Bytes(0), &on);
            let x = driver.get(legacy, pool);
            driver.hold(legacy);
            driver.give(legacy, &x);
            let event = event(driver);
            let y = driver.get(b, pool);
            driver.event_record(event, b).expect("recorded");
            driver.stream_wait(other, event).expect("enqueued");
            driver.hold(other);
            driver.sync(other);
            if y.address() == x.address() {
                had.set(had.get() + 1);
                followed.set(followed.get() + u64::from(driver.ready(legacy)));
            }
            true
        });
        (had.get(), followed.get())
    };
    for (had, followed) in [outcomes(HostDriver::event), outcomes(timed)] {
        assert!(had > 0, "no allocation reused the memory");
        assert_eq!(followed, had, "an operation used the memory before its free");
    }
}

fn timed(driver: &HostDriver) -> EventHandle {
    driver.event_create(DEVICE, Timing::On).expect("an event")
}

/// Laws A4 and A13: a record, timed or not, and a wait of a blocking stream are no operations, and
/// do not wait for the legacy stream.
#[test]
fn a_record_and_a_wait_of_a_blocking_stream_do_not_wait_for_the_legacy_one() {
    for event in [HostDriver::event as fn(&HostDriver) -> EventHandle, timed] {
        let free = count(|driver| {
            let legacy = driver.stream_legacy(DEVICE).expect("it is there");
            let b = driver.stream(StreamKind::Blocking);
            driver.hold(legacy);
            let (first, second) = (event(driver), event(driver));
            driver.event_record(first, b).expect("recorded");
            driver.stream_wait(b, first).expect("enqueued");
            driver.event_record(second, b).expect("recorded");
            driver.event_synchronize(second).expect("nothing failed");
            driver.sync(b);
            !driver.ready(legacy)
        });
        assert_eq!(free, ALL);
    }
}

/// Law A38: a copy between devices in the legacy stream comes after the earlier work of both
/// devices, and before their later work. The stream may belong to a third device.
#[test]
fn a_copy_between_devices_is_in_order_with_both() {
    let devices = [DEVICE, DeviceId(1)];
    for (held, of) in devices.iter().flat_map(|held| [DEVICE, DeviceId(2)].map(|of| (*held, of))) {
        let ordered = count(|driver| {
            let streams = devices.map(|device| {
                driver.stream_create(device, StreamKind::Blocking, 0).expect("a stream")
            });
            let [x, y] = devices.map(|device| {
                driver.device_alloc(device, Bytes(64)).expect("there is room").span(0..64)
            });
            let busy = streams[held.0 as usize];
            driver.hold(busy);
            driver.copy_sync(Queues::legacy(of), &y, &x).expect("enqueued");
            let later = streams[1 - held.0 as usize];
            driver.host_fn(later, &nothing(), &[]).expect("enqueued");
            let waits = !driver.ready(later);
            driver.sync(later);
            waits && driver.ready(busy)
        });
        assert_eq!(ordered, ALL, "{held} was busy, and the copy was in the legacy stream of {of}");
    }
}

/// Law A41: a stream has room for about a thousand pending operations. The next call waits.
#[test]
fn the_host_waits_when_a_stream_is_full() {
    let room = |operations: u32| {
        count(|driver| {
            let (a, event) = (driver.free_stream(), driver.event());
            let x = driver.alloc(a, None, Bytes(64)).expect("there is room");
            driver.hold(a);
            driver.event_record(event, a).expect("recorded");
            for _ in 0..operations {
                driver.fill(a, &x.span(0..64), 1).expect("enqueued");
            }
            driver.event_query(event).expect("nothing failed") == Readiness::NotReady
        })
    };
    assert_eq!(room(900), ALL, "900 operations fit");
    assert_eq!(room(1_100), 0, "1100 do not");
}
