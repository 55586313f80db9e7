//! Dependent launches (laws A34 to A36).
//!
//! A dependent launch may start before the previous kernel has ended. The launched kernel restores
//! the order by a wait of its own, before it uses memory. This wait is for the previous kernel and
//! for nothing else. So a launch may be dependent only if it follows nothing but the previous
//! kernel: directly after a kernel of its lane, and without a wait for another lane. Any other
//! launch is enqueued as an ordinary launch.
#![forbid(unsafe_code)]

use crate::device::driver::{Action, Launch};
use crate::order::lane::State;
use crate::order::submission::Submission;

/// Whether the operation is a dependent launch.
#[inline(always)]
pub(in crate::order) fn is_dependent(submission: &Submission<'_>) -> bool {
    matches!(submission.action, Action::Launch(Launch { config, .. }) if config.dependent)
}

/// Returns the operation as an ordinary launch if the operation asks for a dependent launch and
/// must not be dependent here. Returns `None` if the operation can be enqueued unchanged. `waits`
/// is true if the operation may have to follow work outside of its lane: in another lane, of other
/// code, or of the legacy stream.
pub(in crate::order) fn in_full_order<'a>(
    submission: &Submission<'a>,
    state: &State,
    waits: bool,
) -> Option<Submission<'a>> {
    if !is_dependent(submission) || (!waits && state.is_behind_kernel()) {
        return None;
    }
    let Action::Launch(mut launch) = submission.action else { return None };
    launch.config.dependent = false;
    Some(Submission { action: Action::Launch(launch), ..*submission })
}
