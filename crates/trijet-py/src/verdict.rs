//! The verdict of the checker about a job.

use trijet::{Device, ErrorKind, Result};
use trijet_tools::command::device::names;

/// The verdict of the checker.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub(crate) is_clean: bool,
    pub(crate) text: String,
}

impl Verdict {
    /// The verdict about all calls on devices of one driver, and the damage of red zones. `None`
    /// for devices without a checker.
    pub(crate) fn of(devices: &[Device]) -> Result<Option<Self>> {
        let Some(verdict) = devices.first().and_then(Device::verdict) else { return Ok(None) };
        let mut damage = Vec::new();
        for device in devices {
            match device.check_memory() {
                Ok(found) => damage.extend(found),
                // The device was opened without red zones.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        let is_clean = verdict.is_clean() && damage.is_empty();
        let damaged = damage.iter().map(|one| format!("error[MEMORY/OVERRUN]: {one}\n"));
        let text = damaged.chain([verdict.text(&names())]).collect();
        Ok(Some(Self { is_clean, text }))
    }
}
