//! Verdicts of the checker as text, as JSON and as an exit status.
#![forbid(unsafe_code)]

use super::device::names;
use super::print::{print, print_stderr};
use serde_json::{Value, json};
use std::process::ExitCode;
use trijet::check::{Finding, Names, Party, Verdict};
use trijet::memory::Damage;
use trijet::trace::summary::Audience;
use trijet::{Device, ErrorKind, Result};

/// The verdict of the checker about all calls of a command. Without the option `--check`, there is
/// no verdict.
#[derive(Debug, Default)]
pub struct Live {
    verdict: Option<Verdict>,
    /// The writes outside of buffers that the red zones have detected. Empty for devices without
    /// red zones.
    damage: Vec<Damage>,
}

impl Live {
    /// Gets the verdict about all calls so far from the checker of `device`.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        Self { verdict: device.verdict(), damage: Vec::new() }
    }

    /// Gets the verdict about all calls on devices of one driver, which share one checker. Checks
    /// the red zones of all devices.
    ///
    /// # Errors
    /// Every error of the devices.
    pub fn of_all(devices: &[Device]) -> Result<Self> {
        let mut live = devices.first().map(Self::of).unwrap_or_default();
        for device in devices {
            match device.check_memory() {
                Ok(damage) => live.damage.extend(damage),
                // The device was opened without red zones.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        Ok(live)
    }

    /// Adds the verdict to the JSON object of a command as the field `check`. Does nothing if there
    /// is no verdict.
    pub fn add_to(&self, value: &mut Value) {
        if let Some(verdict) = &self.verdict {
            value["check"] = self::json(verdict, &names());
            value["check"]["damaged_memory"] =
                self.damage.iter().map(ToString::to_string).collect::<Value>();
        }
    }

    /// Prints the verdict, with its findings and the writes outside of buffers. Does nothing if
    /// there is no verdict.
    ///
    /// # Errors
    /// `Io`.
    pub fn print(&self) -> Result<()> {
        let Some(verdict) = &self.verdict else { return Ok(()) };
        for damage in &self.damage {
            print(format_args!("error[MEMORY/OVERRUN]: {damage}"))?;
        }
        print(format_args!("check: {}", verdict.text(&names())))
    }

    /// Prints the same text as [`print`](Self::print) to standard error.
    pub fn print_to_stderr(&self) {
        let Some(verdict) = &self.verdict else { return };
        for damage in &self.damage {
            print_stderr(format_args!("error[MEMORY/OVERRUN]: {damage}"));
        }
        print_stderr(format_args!("check: {}", verdict.text(&names())));
    }

    /// Prints the same text as [`print`](Self::print), but only if there is a finding or a write
    /// outside of a buffer.
    ///
    /// # Errors
    /// `Io`.
    pub fn print_findings(&self) -> Result<()> {
        if self.has_findings() { self.print() } else { Ok(()) }
    }

    fn has_findings(&self) -> bool {
        let verdict = self.verdict.as_ref();
        !self.damage.is_empty() || verdict.is_some_and(|verdict| !verdict.findings.is_empty())
    }

    /// The exit status of a command that had no other error.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        if !self.damage.is_empty() {
            return ExitCode::FAILURE;
        }
        self.verdict.as_ref().map_or(ExitCode::SUCCESS, exit_code)
    }
}

/// The exit status for a verdict. It is a failure if at least one finding is an error.
#[must_use]
pub fn exit_code(verdict: &Verdict) -> ExitCode {
    if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A verdict and its findings as JSON.
#[must_use]
pub fn json(verdict: &Verdict, names: &Names) -> Value {
    let findings = verdict.findings.iter().map(|one| finding(one, names));
    json!({
        "entries": verdict.ops,
        "accesses": verdict.accesses,
        "undeclared": verdict.undeclared,
        "poisoned": verdict.poisoned,
        "clean": verdict.is_clean(),
        "summary": verdict.summary(),
        "findings": findings.collect::<Vec<_>>(),
        "more_findings": verdict.more,
    })
}

/// A finding as JSON.
#[must_use]
pub fn finding(finding: &Finding, names: &Names) -> Value {
    let party = |one: &Party| party(one, names.audience);
    json!({
        "class": finding.class.code(),
        "severity": format!("{:?}", finding.class.severity()).to_lowercase(),
        "first": finding.first.as_ref().map(&party),
        "second": party(&finding.second),
        "block": finding.block.map(|block| block.0),
        "ranges": finding.ranges.iter().map(|range| [range.start, range.end]).collect::<Vec<_>>(),
        "order_known": finding.known,
        "fix": finding.fix,
        "rules": finding.rules,
        "witness": finding.witness.map(|witness| json!({
            "byte": witness.byte,
            "in_order_of_calls": format!("{:08x}", witness.kept),
            "in_other_order": format!("{:08x}", witness.swapped),
        })),
        "text": finding.text(names),
    })
}

fn party(party: &Party, audience: Audience) -> Value {
    let site = party.site.as_ref().filter(|_| audience == Audience::Author);
    json!({
        "op": party.op,
        "label": party.label,
        "site": site.map(ToString::to_string),
        "chunk": party.chunk,
        "device": party.device.0,
        "stream": (!party.is_of_thread()).then_some(party.position.lane.0),
        "stream_name": party.stream_name.as_deref(),
        "position": (!party.is_of_thread()).then_some(party.position.seq),
        "thread": party.thread,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::sim::HostConfig;

    #[test]
    fn memory_that_nothing_damaged_is_no_failure_and_no_text() -> Result<()> {
        let options = trijet::check::CheckOptions::default();
        let builder = Device::builder().host(HostConfig::default()).check(options);
        let device = builder.red_zones().open()?;
        let s = device.stream()?;
        let mut x = s.alloc::<u8>(100)?;
        s.fill_bytes(&mut x, 1)?;
        let live = Live::of_all(&[device])?;
        assert_eq!(live.exit_code(), ExitCode::SUCCESS);
        assert!(!live.has_findings());
        let mut value = json!({});
        live.add_to(&mut value);
        assert_eq!(value["check"]["damaged_memory"], json!([]));
        Ok(())
    }

    /// If nothing is wrong, the verdict is not printed, but a warning is printed.
    #[test]
    fn a_warning_is_a_finding_and_no_failure() -> Result<()> {
        let options = trijet::check::CheckOptions::default();
        let device = Device::builder().host(HostConfig::default()).check(options).open()?;
        let s = device.stream()?;
        let (x, mut y) = (s.alloc::<u8>(100)?, s.alloc::<u8>(100)?);
        // This copy reads `x`, which nothing has written.
        s.copy(&x, &mut y)?;
        let live = Live::of(&device);
        assert!(live.has_findings());
        Ok(())
    }
}
