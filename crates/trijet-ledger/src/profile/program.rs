//! The profile of a traced program: its processes, and the comparison of its ranks.
#![forbid(unsafe_code)]

use super::process::ProcessProfile;
use super::ranks::{self, LateRanks, RankJob};
use std::ops::Range;

/// The profile of a traced program.
#[derive(Debug)]
pub struct Profile {
    /// The profiles of the processes of the program.
    pub processes: Vec<ProcessProfile>,
    /// The ranks that communicate, grouped by the communicators that connect them.
    pub jobs: Vec<RankJob>,
}

impl Profile {
    /// The profile of a program with these processes.
    ///
    /// ```
    /// use trijet_ledger::profile::{FiguresOf, Profile, analyse, text};
    /// let mut trace = trijet_ledger::trace::activity::ProcessTrace::default();
    /// let profile = Profile::of(vec![analyse(&mut trace, FiguresOf::Steps)]);
    /// assert!(profile.jobs.is_empty());
    /// assert!(text(&profile).starts_with("process 0"));
    /// ```
    #[must_use]
    pub fn of(mut processes: Vec<ProcessProfile>) -> Self {
        let (jobs, late) = ranks::jobs(&processes);
        for LateRanks { place, finding, waits } in late {
            let process = &mut processes[place.process];
            let device = &mut process.devices[place.device];
            if let Some(model) = &mut process.model {
                for wait in waits {
                    model.set_waiting(device.device, wait.start, wait.end - wait.start);
                }
            }
            if let Some(finding) = finding {
                device.add(finding);
            }
        }
        for process in &mut processes {
            // The graph of a long run takes much memory, and nothing needs it after the gains.
            let Some(model) = process.model.take() else { continue };
            process.devices.iter_mut().for_each(|device| device.set_gains(&model));
        }
        Self { processes, jobs }
    }

    /// The interval from the first start to the last end of all activities, in nanoseconds on the
    /// clock of the trace. `None` without activities.
    #[must_use]
    pub fn life(&self) -> Option<Range<u64>> {
        let with_times = || self.processes.iter().filter(|process| process.span.0 > 0);
        let begin = with_times().map(|process| process.began.0).min()?;
        let end = with_times().map(|process| process.began.0 + process.span.0).max()?;
        Some(begin..end)
    }
}
