//! Kernels that waited as if their streams shared hardware queues.
#![forbid(unsafe_code)]

use super::activities::is_kernel;
use super::calls::ProgramCalls;
use super::operations::Operations;
use crate::base::crowd::{Crowd, KernelRun, crowd};
use crate::trace::activity::{Activity, ActivityKind};
use std::collections::BTreeMap;

/// The number of hardware queues of CUDA, unless the environment of the program sets another
/// number.
const HARDWARE_QUEUES: u32 = 8;
/// Maximum number of streams that are named.
const NAMED_MAX: usize = 8;

/// The kernels that waited for a hardware queue.
pub(super) struct SharedQueues {
    pub(super) crowd: Crowd,
    /// The numbers of the streams of these kernels, as text.
    pub(super) streams: String,
}

/// Kernels that were ready but waited while exactly as many kernels ran as CUDA has hardware queues
/// by default. A trace has neither the number of queues nor the order that events make. So there is
/// no finding for a program that lets streams wait for events or launches graphs.
pub(super) fn shared(operations: &Operations<'_>, calls: &ProgramCalls) -> Option<SharedQueues> {
    if calls.order_streams() {
        return None;
    }
    let mut streams: BTreeMap<(u32, u32), Vec<&Activity>> = BTreeMap::new();
    for &one in &operations.all {
        streams.entry((one.context, one.stream)).or_default().push(one);
    }
    let (mut runs, mut names) = (Vec::new(), Vec::new());
    for (stream, mut its) in streams.into_values().enumerate() {
        its.sort_by_key(|one| (one.begin, one.end));
        names.push(its[0].stream);
        for (at, one) in its.iter().enumerate().filter(|(_, one)| needs_queue(one)) {
            let Some(call) = calls.enqueuing(one) else { continue };
            let before = at.checked_sub(1).map_or(0, |before| its[before].end.0);
            let next = its[at + 1..].iter().find(|next| needs_queue(next));
            let next = next.and_then(|next| calls.enqueuing(next));
            runs.push(KernelRun {
                stream,
                ready: call.time.end.max(before),
                ran: one.begin.0..one.end.0,
                is_followed: next.is_some_and(|next| next.time.end < one.end.0),
            });
        }
    }
    let found = crowd(&runs, HARDWARE_QUEUES)?;
    let named = found.streams.iter().take(NAMED_MAX).map(|stream| names[*stream].to_string());
    let named = named.collect::<Vec<_>>().join(", ");
    let more = found.streams.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(SharedQueues { streams: format!("{named}{more}"), crowd: found })
}

fn needs_queue(one: &Activity) -> bool {
    is_kernel(one) || one.kind == ActivityKind::Fill
}
