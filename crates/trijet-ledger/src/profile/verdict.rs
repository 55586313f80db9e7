//! The engine that limits a device, or the causes of its lost time.
//!
//! An engine limits the run if the run would be at most a tenth shorter without all other engines.
//! The *longest* engine is the engine with the longest busy time. This time is always a lower
//! bound: no run with the same work takes less.
#![forbid(unsafe_code)]

use super::device::{DeviceProfile, EngineTime};
use super::idle::IdlePart;
use crate::base::units::Nanos;
use crate::trace::percent_of;
use std::cmp::Reverse;

/// The minimum part of the time for which the limiting engine is busy, in tenths.
const LIMITS_FROM: u128 = 9;
/// Maximum number of losses that a sentence names.
const NAMED_MAX: usize = 2;

/// A part of the time in which the longest engine of a device did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTime {
    /// The cause of the loss, as a key.
    pub cause: &'static str,
    /// The cause in words.
    pub what: String,
    /// The length of this part of the time.
    pub time: Nanos,
}

impl DeviceProfile {
    /// The engine with the longest busy time. No run with the same work takes less than this time.
    #[must_use]
    pub fn longest(&self) -> Option<&EngineTime> {
        self.engines.iter().max_by_key(|engine| engine.busy)
    }

    /// The engine that limits the run: the engine with the longest busy time, if it is busy for
    /// nine tenths of the time.
    #[must_use]
    pub fn limiting(&self) -> Option<&EngineTime> {
        let limits = |engine: &&EngineTime| {
            u128::from(engine.busy.0) * 10 >= u128::from(self.elapsed.0) * LIMITS_FROM
        };
        self.longest().filter(limits)
    }

    /// The causes of the time in which the longest engine did not work, the largest cause first.
    /// The times of the causes sum to that time.
    #[must_use]
    pub fn losses(&self) -> Vec<LostTime> {
        let idle = self.idle.parts().into_iter();
        let of_host = |part: IdlePart| LostTime {
            cause: part.key,
            what: format!("idle while the host was {}", part.host),
            time: part.time,
        };
        let mut losses: Vec<LostTime> = idle.map(of_host).collect();
        if let Some(longest) = self.longest() {
            let time = Nanos(self.busy.0.saturating_sub(longest.busy.0));
            let what = "while only other engines worked".to_owned();
            let cause = "other_engines";
            losses.extend((time.0 > 0).then_some(LostTime { cause, what, time }));
        }
        losses.sort_by_key(|loss| Reverse(loss.time));
        losses
    }

    /// The engine that limits the run, in a few words. If no engine limits the run, the cause of
    /// the most lost time.
    pub(super) fn limit(&self) -> String {
        match (self.limiting(), self.losses().first()) {
            (Some(engine), _) => format!("limited by {}", engine.name),
            (None, Some(LostTime { what, time, .. })) => {
                let share = percent_of(*time, self.elapsed);
                format!("nothing on the device limits the run; {share} was lost: {what}")
            }
            (None, None) => "nothing on the device limits the run".to_owned(),
        }
    }

    /// The sentence about the engine that limits the run, with the lower bound. If no engine limits
    /// the run, the sentence is about the causes of the lost time.
    pub(super) fn limit_sentence(&self) -> Option<String> {
        let EngineTime { name, busy, .. } = self.longest()?;
        let share = percent_of(*busy, self.elapsed);
        if self.limiting().is_some() {
            return Some(format!(
                "limited by {name}, which was busy for {share} of the time: no run with the same work \
                 takes less than {busy}"
            ));
        }
        let losses = self.losses();
        let named = losses.iter().take(NAMED_MAX);
        let named: Vec<String> = named.map(|loss| format!("{} {}", loss.time, loss.what)).collect();
        Some(format!(
            "nothing on the device limits the run: the engine with the longest busy time, \
             {name}, was busy for {share} of the time. Lost: {}. Lower bound for the same work: \
             {busy}",
            named.join(", ")
        ))
    }
}
