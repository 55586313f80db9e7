//! Runs of workers that tasks have started. The outcome of a run is known when the run is complete.
#![forbid(unsafe_code)]

use super::core::Core;
use super::region::Running;
use super::state::State;
use super::task_state::{Failure, Name, Number};
use crate::base::error::Error;
use std::sync::{Arc, PoisonError};

impl State {
    /// Notes that a run failed. The tasks of the run were over already. These tasks have no result
    /// now.
    fn run_failed(&mut self, running: &Running, error: Error) {
        let node = running.run.reported_task().and_then(|payload| usize::try_from(payload).ok());
        let culprit = node.and_then(|at| running.members.get(at)).or(running.members.first());
        let Some(culprit) = culprit.copied() else { return };
        let name = self.task(culprit).map_or(Name::Borrowed(""), |one| one.name.clone());
        let failure = Arc::new(Failure { culprit, name, error });
        self.unreported.get_or_insert_with(|| Arc::clone(&failure));
        for number in &running.members {
            self.counts.succeeded -= 1;
            self.counts.failed += 1;
            self.failures.insert(*number, Arc::clone(&failure));
            if let Some(task) = self.task_mut(*number) {
                task.failure = Some(Arc::clone(&failure));
            }
        }
    }
}

impl Core {
    /// Waits for the ends of all runs, or only for the end of the run that contains the task `of`.
    /// Returns whether all of these runs succeeded.
    pub(super) fn end_runs(&self, of: Option<Number>) -> bool {
        // If another thread waits for ends of runs, this thread waits here until the other thread
        // has noted their outcomes.
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        let runs = std::mem::take(&mut state.runs);
        let is_asked = |running: &Running| of.is_none_or(|task| running.members.contains(&task));
        let (asked, others): (Vec<_>, Vec<_>) = runs.into_iter().partition(is_asked);
        state.runs = others;
        drop(state);
        let mut are_well = true;
        for running in asked {
            if let Err(error) = running.run.end() {
                are_well = false;
                self.lock().run_failed(&running, error);
            }
        }
        are_well
    }

    /// Notes the outcomes of the runs that are complete. Does not wait.
    pub(super) fn look_at_runs(&self) {
        let Ok(_ending) = self.ending.try_lock() else { return };
        let runs = std::mem::take(&mut self.lock().runs);
        let (over, others): (Vec<_>, Vec<_>) =
            runs.into_iter().partition(|running| running.run.is_over());
        let mut failed = Vec::new();
        for running in over {
            if let Err(error) = running.run.end() {
                failed.push((running, error));
            }
        }
        let mut state = self.lock();
        state.runs.splice(0..0, others);
        for (running, error) in &failed {
            state.run_failed(running, error.again());
        }
        // The drop of a run frees its memory. This must not happen while the state is locked.
        drop(state);
    }
}
