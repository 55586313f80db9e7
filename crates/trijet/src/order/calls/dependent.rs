//! Dependent launches (laws A34 to A36).
//!
//! A dependent launch gives up its order after the kernel before it. The kernel restores this order
//! with its own wait, before it uses memory. That wait stands for the kernel before and nothing
//! else. So a launch is dependent only where the kernel before is all that it follows: directly
//! after a kernel of its lane, and without a wait for another lane. Elsewhere it is an ordinary
//! launch.
#![forbid(unsafe_code)]

use crate::device::driver::{Action, Launch};
use crate::order::lane::State;
use crate::order::submission::Submission;

/// Whether the operation is a dependent launch.
#[inline(always)]
pub(in crate::order) fn is_dependent(submission: &Submission<'_>) -> bool {
    matches!(submission.action, Action::Launch(Launch { config, .. }) if config.dependent)
}

/// The operation as an ordinary launch, if it is one that may not be dependent here.
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
