//! The device memory that the kernels of a run use, compared with the rate of the memory.
//!
//! The operations declare the bytes that they use. The rate at the memory itself is not measured: a
//! cache may serve a part of the declared bytes, a kernel may use only a part of them, and it may
//! read bytes several times.
#![forbid(unsafe_code)]

use crate::base::dag::Dag;
use crate::base::ledger::{Engine, Mode, Op, Place};
use crate::base::span::Union;
use crate::base::units::{Bytes, Nanos, count, rate};
use crate::device::driver::Clock;
use std::fmt;
use std::ops::Range;

/// The device memory that the kernels, the fills and the copies within the device of a run declare,
/// and the time in which they ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The declared bytes of device memory. Each byte that an operation reads or writes counts
    /// once, and each byte that it updates counts twice.
    pub bytes: Bytes,
    /// The time in which at least one of these operations ran.
    pub busy: Nanos,
    /// The number of operations that declare nothing, for example because the kernel gets raw
    /// addresses. If it is not 0, the operations may use more than `bytes`.
    pub undeclared: usize,
    /// The theoretical rate of the device memory in bytes per second. On a host device with
    /// modelled time, it is the rate of the model.
    pub memory_bytes_per_s: u64,
    /// The kind of the device's clock.
    pub clock: Clock,
}

/// The declared bytes of device memory that an operation reads and writes.
fn declared_bytes(op: &Op) -> u64 {
    let on_device = op.accesses.iter().filter(|access| access.place == Place::Device);
    let bytes = on_device.map(|access| {
        let times = if access.mode == Mode::Update { 2 } else { 1 };
        times * (access.range.end - access.range.start)
    });
    bytes.sum()
}

impl MemoryUse {
    /// The use of device memory in a window. An operation that the window cuts counts with the part
    /// inside the window. `None` if no operation declares device memory.
    pub(super) fn of(
        ops: &[Op],
        dag: &Dag,
        window: &Range<u64>,
        clock: Clock,
        memory_bytes_per_s: u64,
    ) -> Option<Self> {
        let (mut bytes, mut undeclared, mut spans) = (0.0, 0, Vec::new());
        for (index, op) in ops.iter().enumerate().filter(|(_, op)| op.engine == Engine::Compute) {
            let Some(span) = dag.work(index) else { continue };
            let inside = span.start.max(window.start)..span.end.min(window.end);
            if inside.is_empty() {
                continue;
            }
            undeclared += usize::from(op.accesses.is_empty());
            let (part, whole) = (inside.end - inside.start, span.end - span.start);
            bytes += declared_bytes(op) as f64 * (part as f64 / whole as f64);
            spans.push(inside);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let bytes = bytes.round() as u64;
        let busy = Union::of(spans).length();
        let found = Self { bytes: Bytes(bytes), busy, undeclared, memory_bytes_per_s, clock };
        (bytes > 0).then_some(found)
    }

    /// The declared bytes divided by the time in which the operations ran, in bytes per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes.0 as f64 / self.busy.seconds()
    }

    /// The rate of the declared bytes divided by the rate of the device memory. If the value is
    /// near 1, the kernels are bound by device memory. If it exceeds 1, a cache served a part of
    /// the bytes, or the kernels did not use all of them.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.bytes_per_s() / self.memory_bytes_per_s as f64
    }
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.undeclared > 0 { "at least " } else { "" };
        let limit = rate(Bytes(self.memory_bytes_per_s), Nanos(1_000_000_000));
        let of = if self.clock == Clock::Model { "of the model" } else { "in theory" };
        write!(
            f,
            "device memory: kernels move {at_least}{}, {:.0} % of {limit} {of} ({} declared",
            rate(self.bytes, self.busy),
            self.share() * 100.0,
            self.bytes
        )?;
        if self.undeclared > 0 {
            write!(f, "; {} declared nothing", count(self.undeclared as u64, "operation"))?;
        }
        if self.share() > 1.0 {
            write!(f, "; caches served a part, or it was not used")?;
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dag::Kernels;
    use crate::base::id::{BlockId, DeviceId, LaneId, Position};
    use crate::base::ledger::{Access, OrderedBy, StreamWork, Times};

    fn op(engine: Engine, seq: u64, (begin, end): (u64, u64), uses: &[(Place, u64, Mode)]) -> Op {
        let access = |(place, bytes, mode): &(Place, u64, Mode)| Access {
            block: BlockId(1),
            place: *place,
            range: 100..100 + bytes,
            mode: *mode,
            ordered: OrderedBy::Library,
        };
        Op {
            accesses: uses.iter().map(access).collect(),
            times: Some(Times { begin: Nanos(begin), end: Nanos(end) }),
            ..Op::new(StreamWork::Kernel, engine, DeviceId(0), Position { lane: LaneId(1), seq })
        }
    }

    fn used(ops: &[Op], window: Range<u64>, memory_bytes_per_s: u64) -> Option<MemoryUse> {
        let dag = Dag::new(ops, Kernels::Several);
        MemoryUse::of(ops, &dag, &window, Clock::Device, memory_bytes_per_s)
    }

    /// Two kernels of 1 us each: the first one reads 1000 and updates 500 kB, and the second one
    /// writes 2000 kB. The upload and the host memory do not count.
    #[test]
    fn kernels_count_bytes_of_the_device_once_and_updates_twice() {
        let ops = [
            op(Engine::Upload, 1, (0, 1000), &[(Place::Device, 9_000_000, Mode::Write)]),
            op(
                Engine::Compute,
                2,
                (1000, 2000),
                &[(Place::Device, 1_000_000, Mode::Read), (Place::Device, 500_000, Mode::Update)],
            ),
            op(
                Engine::Compute,
                3,
                (3000, 4000),
                &[(Place::Device, 2_000_000, Mode::Write), (Place::Pinned, 7_000_000, Mode::Read)],
            ),
        ];
        let all = used(&ops, 0..5000, 4_000_000_000_000).expect("declared bytes");
        assert_eq!((all.bytes, all.busy, all.undeclared), (Bytes(4_000_000), Nanos(2000), 0));
        assert!((all.share() - 0.5).abs() < 1e-12, "{}", all.share());
        assert_eq!(
            all.to_string(),
            "device memory: kernels move 2.00 TB/s, 50 % of 4.00 TB/s in theory (3.81 MiB declared)"
        );
        let cut = used(&ops, 0..3500, 4_000_000_000_000).expect("declared bytes");
        assert_eq!((cut.bytes, cut.busy), (Bytes(3_000_000), Nanos(1500)));
    }

    #[test]
    fn a_kernel_that_declares_nothing_makes_the_rate_a_lower_bound() {
        let ops = [
            op(Engine::Compute, 1, (0, 1000), &[(Place::Device, 1000, Mode::Read)]),
            op(Engine::Compute, 2, (1000, 2000), &[]),
        ];
        let found = used(&ops, 0..5000, 1_000_000_000).expect("declared bytes").to_string();
        assert!(found.contains("at least 500.0 MB/s, 50 %"), "{found}");
        assert!(found.ends_with("declared; 1 operation declared nothing)"), "{found}");
    }

    #[test]
    fn more_than_the_memory_can_do_came_from_caches() {
        let ops = [op(Engine::Compute, 1, (0, 1000), &[(Place::Device, 1500, Mode::Read)])];
        let found = used(&ops, 0..1000, 1_000_000_000).expect("declared bytes").to_string();
        assert!(found.contains("150 %") && found.ends_with("or it was not used)"), "{found}");
    }

    #[test]
    fn a_run_without_declared_device_memory_has_no_rate() {
        let ops = [op(Engine::Compute, 1, (0, 1000), &[(Place::Pinned, 1500, Mode::Read)])];
        assert_eq!(used(&ops, 0..1000, 1_000_000_000), None);
    }
}
