//! Copies and communication of each device, and the part of their time that no kernel hid.
//!
//! With I_e the union of the intervals of engine e of a device, clipped to the window:
//!
//! - exposed copies = |(the union of I_upload and I_download) without I_compute|;
//! - exposed communication = |(the union of I_peer and I_communication) without I_compute|, and the
//!   same for the copies of each route.
//!
//! A copy between devices belongs to the device of its stream, whose engine executes it.
#![forbid(unsafe_code)]

use crate::base::dag::Dag;
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op, Route};
use crate::base::span::Union;
use crate::base::units::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// The time in which engines of a device moved data, and the part of this time in which no kernel
/// of the device ran.
///
/// ```
/// use trijet::Nanos;
/// use trijet::trace::exposed::Exposure;
/// let copies = Exposure { busy: Nanos(400), exposed: Nanos(100) };
/// assert_eq!(copies.hidden(), Some(0.75));
/// assert_eq!(copies.to_string(), "exposed for 100 ns, 75 % hidden");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exposure {
    /// The time in which the engines moved data.
    pub busy: Nanos,
    /// The part of `busy` in which no kernel of the device ran.
    pub exposed: Nanos,
}

impl Exposure {
    fn of(moved: &Union, computed: &Union) -> Self {
        Self { busy: moved.length(), exposed: moved.minus(computed).length() }
    }

    /// The share of `busy` in which a kernel of the device ran; `None` if nothing was moved.
    #[must_use]
    pub fn hidden(&self) -> Option<f64> {
        (self.busy.0 > 0).then(|| 1.0 - self.exposed.0 as f64 / self.busy.0 as f64)
    }

    /// The sums of `busy` and of `exposed` over devices.
    pub(super) fn sum(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            busy: Nanos(sum.busy.0 + part.busy.0),
            exposed: Nanos(sum.exposed.0 + part.exposed.0),
        })
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.hidden().unwrap_or(1.0) * 100.0;
        write!(f, "exposed for {}, {hidden:.0} % hidden", self.exposed)
    }
}

/// The copies from one device to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteMetrics {
    /// The device that is read and the device that is written.
    pub route: Route,
    /// The number of copies in the window.
    pub copies: usize,
    /// The number of bytes of these copies. A copy that the window cuts counts with all its bytes.
    pub bytes: u64,
    /// The time of the copies.
    pub time: Exposure,
}

/// The copies and the communication of a device in a window.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMetrics {
    /// The device of these figures.
    pub device: DeviceId,
    /// Copies between host and device.
    pub copies: Exposure,
    /// Copies between devices, and collectives by NCCL.
    pub communication: Exposure,
    /// The copies between devices, by direction. Empty for files before version 5, which do not
    /// have the devices of such copies.
    pub routes: Vec<RouteMetrics>,
}

impl fmt::Display for RouteMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { route, time: Exposure { busy, exposed }, .. } = self;
        write!(f, "peer {route} busy {busy}, {exposed} of it exposed")
    }
}

impl DeviceMetrics {
    /// The copies and the communication of the device, in words: one sentence for each kind that
    /// occurred.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let parts = [("copies", self.copies), ("communication", self.communication)];
        let parts = parts.into_iter().filter(|(_, time)| time.busy.0 > 0);
        let parts = parts.map(|(what, time)| format!("{what} {time}"));
        parts.chain(self.routes.iter().map(RouteMetrics::to_string)).collect()
    }
}

impl fmt::Display for DeviceMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentences = self.sentences();
        let said = if sentences.is_empty() { "no copies".to_owned() } else { sentences.join("; ") };
        write!(f, "device {}: {said}", self.device.0)
    }
}

/// The indices of the copies between devices. The key is the device that executes a copy, and the
/// route of the copy.
fn routes(ops: &[Op]) -> BTreeMap<(DeviceId, Route), Vec<usize>> {
    let mut routes: BTreeMap<(DeviceId, Route), Vec<usize>> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate().filter(|(_, op)| op.engine == Engine::Peer) {
        if let Some(route) = op.route {
            routes.entry((op.device, route)).or_default().push(index);
        }
    }
    routes
}

/// The figures of each device. `busy` has the time of each engine in the window.
pub(super) fn devices(
    ops: &[Op],
    dag: &Dag,
    window: &Range<u64>,
    busy: &BTreeMap<(DeviceId, Engine), Union>,
) -> Vec<DeviceMetrics> {
    let inside = Union::of([window.clone()]);
    let routes = routes(ops);
    let names: BTreeSet<DeviceId> = busy.keys().map(|(device, _)| *device).collect();
    let of = |device: DeviceId| {
        let union = |engines: &[Engine]| {
            Union::all(engines.iter().filter_map(|engine| busy.get(&(device, *engine))))
        };
        let computed = union(&[Engine::Compute]);
        let exposure = |engines: &[Engine]| Exposure::of(&union(engines), &computed);
        let mine = routes.iter().filter(|((own, _), _)| *own == device);
        let routes = mine.filter_map(|((_, route), list)| {
            let timed = list.iter().filter_map(|op| Some((*op, dag.work(*op)?)));
            let timed: Vec<_> = timed.filter(|(_, span)| inside.overlap(span) > 0).collect();
            let union = Union::of(timed.iter().map(|(_, span)| span.clone())).and(&inside);
            (!timed.is_empty()).then(|| RouteMetrics {
                route: *route,
                copies: timed.len(),
                bytes: timed.iter().map(|(op, _)| ops[*op].bytes).sum(),
                time: Exposure::of(&union, &computed),
            })
        });
        DeviceMetrics {
            device,
            copies: exposure(&[Engine::Upload, Engine::Download]),
            communication: exposure(&[Engine::Peer, Engine::Communication]),
            routes: routes.collect(),
        }
    };
    names.into_iter().map(of).collect()
}
