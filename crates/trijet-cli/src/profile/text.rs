//! A summary for people.
#![forbid(unsafe_code)]

use super::device::Device;
use super::findings::Finding;
use super::process::Process;
use std::fmt::{self, Display, Formatter};
use trijet::Nanos;
use trijet::base::units::rate;

/// Columns of a line of prose.
const WIDTH: usize = 100;

/// The summary of all processes; it ends with a line break.
#[must_use]
pub fn text(processes: &[Process]) -> String {
    processes.iter().map(ToString::to_string).collect()
}

/// A share, in percent.
fn share(part: Nanos, whole: Nanos) -> f64 {
    100.0 * part.0 as f64 / whole.0.max(1) as f64
}

impl Display for Process {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "process {}", self.process)?;
        for trouble in &self.troubles {
            writeln!(f, "  not recorded: {trouble}")?;
        }
        if self.interface == 0 {
            return Ok(());
        }
        if self.end.is_none() {
            writeln!(
                f,
                "  CUT OFF: the process ended without its exit handlers (killed, aborted or"
            )?;
            writeln!(f, "  left by _exit), or the disk was full; the last records are missing")?;
        }
        if self.devices.is_empty() {
            writeln!(f, "  no operation of a GPU was recorded, and {} calls", self.calls)?;
        }
        for device in &self.devices {
            write!(f, "{device}")?;
        }
        writeln!(
            f,
            "  times are those of CUPTI {}, of operations and calls alike",
            self.interface
        )?;
        if let Some(end) = &self.end {
            writeln!(
                f,
                "  the recording took {} in CUPTI ({:.2} % of {}) and {} in its own callbacks",
                self.overhead,
                share(self.overhead, self.span),
                self.span,
                end.host
            )?;
            writeln!(
                f,
                "  {} records, {} dropped, {} not understood, {} without times",
                end.activities, end.dropped, end.unknown, self.untimed
            )?;
        }
        writeln!(f, "  the accesses of kernels are undeclared here: races are not checked")
    }
}

impl Display for Device {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  device {}: {} from its first operation to the end of its last, {} streams",
            self.device, self.elapsed, self.streams
        )?;
        writeln!(f, "    {:<14}{:>12}{:>9}{:>12}", "engine", "busy", "share", "operations")?;
        for engine in &self.engines {
            write!(
                f,
                "    {:<14}{:>12}{:>7.1} %{:>12}",
                engine.name,
                engine.busy,
                share(engine.busy, self.elapsed),
                engine.operations
            )?;
            if engine.bytes.0 > 0 {
                write!(f, "   {} at {}", engine.bytes, rate(engine.bytes, engine.busy))?;
            }
            writeln!(f)?;
        }
        let idle = &self.idle;
        let part = share(idle.total, self.elapsed);
        writeln!(f, "    {:<14}{:>12}{part:>7.1} %{:>12}", "idle", idle.total, idle.gaps)?;
        let parts = [
            (idle.waiting, "in a wait for the GPU"),
            (idle.allocating, "allocating or freeing"),
            (idle.copying, "in a copy call"),
            (idle.calling, "in another call"),
            (idle.elsewhere, "in no call of CUDA"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(time, _)| time.0 > 0)
            .map(|(time, words)| format!("{time} {words}"))
            .collect();
        if !parts.is_empty() {
            prose(f, 6, &format!("the host meanwhile: {}", parts.join(", ")))?;
        }
        if let Some(limit) = self.limiting() {
            let words = format!(
                "limited by {}: with the same work no run is shorter than {}, {:.3} of this one",
                limit.name,
                limit.busy,
                limit.busy.0 as f64 / self.elapsed.0.max(1) as f64
            );
            prose(f, 4, &words)?;
        }
        if !self.findings.is_empty() {
            writeln!(
                f,
                "    findings by cost; several may claim the same moment, so they do not add up:"
            )?;
        }
        self.findings.iter().try_for_each(|finding| write!(f, "{finding}"))?;
        if !self.kernels.is_empty() {
            writeln!(f, "    longest kernels, all launches together:")?;
        }
        for kernel in &self.kernels {
            writeln!(f, "    {:>12}{:>9} x  {}", kernel.total, kernel.launches, kernel.name)?;
        }
        Ok(())
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "    {:<19}{:>12}{:>9} x  {}", self.key, self.cost, self.count, self.title)?;
        prose(f, 8, &self.seen)?;
        prose(f, 8, &format!("fix: {}", self.fix))
    }
}

/// Words in lines of limited length.
fn prose(f: &mut Formatter<'_>, indent: usize, words: &str) -> fmt::Result {
    let mut column = 0;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            writeln!(f)?;
            column = 0;
        }
        if column == 0 {
            write!(f, "{:indent$}{word}", "")?;
            column = indent + length;
        } else {
            write!(f, " {word}")?;
            column += 1 + length;
        }
    }
    writeln!(f)
}
