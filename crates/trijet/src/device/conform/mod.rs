//! Conformance: many short sequences of calls of the driver contract, and the answers of a driver.
//!
//! A sequence is a few lines of text with one call each (see `text`). Its transcript has the same
//! lines with the answers of the driver: `ok`, `ok` and a value that the laws define, or `err` and
//! the number of the `CUresult`. Values that CUDA does not define are not printed. If several
//! answers are legal, the line lists them (`may`). The transcript of a GPU is kept beside the
//! tests, and every other driver must produce the same transcript.
//!
//! No sequence is undefined in CUDA or loses the context. No sequence can hang, because a held
//! stream is released after a few seconds.
#![forbid(unsafe_code)]

mod bytes;
mod captures;
mod kernels;
mod latch;
mod machine;
mod order;
mod pools;
mod text;
mod tools;

use crate::base::error::{Error, ErrorKind, Result};
use crate::device::{HostConfig, open_cuda, open_host};
use machine::Machine;
use std::io::Write;
use text::Sequence;

/// The driver that runs the sequences.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Subject {
    /// CUDA, with all of its devices.
    Cuda,
    /// Host devices.
    Host(HostConfig),
}

/// The texts of the sequences, each with the name of its topic.
const FILES: &[(&str, &str)] = &[
    ("streams", include_str!("streams.txt")),
    ("events", include_str!("events.txt")),
    ("defaults", include_str!("defaults.txt")),
    ("copies", include_str!("copies.txt")),
    ("batches", include_str!("batches.txt")),
    ("pools", include_str!("pools.txt")),
    ("attributes", include_str!("attributes.txt")),
    ("memory", include_str!("memory.txt")),
    ("peers", include_str!("peers.txt")),
    ("kernels", include_str!("kernels.txt")),
    ("captures", include_str!("captures.txt")),
];

fn sequences() -> impl Iterator<Item = Sequence<'static>> {
    FILES.iter().flat_map(|(subject, text)| text::parse(subject, text))
}

/// Runs every sequence and writes the transcript. Each call is written before it is made, and its
/// answer afterwards. So the text of an interrupted run ends at the interrupted call.
///
/// ```
/// use trijet::testing::{Subject, transcript};
/// use trijet::sim::{Executor, HostConfig, Order};
///
/// let executor = Executor::Virtual(Order::Greedy);
/// let mut text = Vec::new();
/// transcript(&Subject::Host(HostConfig::new().executor(executor)), &mut text)?;
/// assert!(String::from_utf8_lossy(&text).contains("query e -> ok ready"));
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Errors
/// When the driver cannot be opened, or `out` cannot be written. The errors of the calls are part
/// of the transcript.
pub fn transcript(subject: &Subject, out: &mut (dyn Write + Send)) -> Result<()> {
    let driver = match subject {
        Subject::Cuda => open_cuda()?,
        Subject::Host(config) => open_host(config.clone())?,
    };
    let mut machine = Machine::new(driver.as_ref())?;
    for sequence in sequences() {
        machine.run(&sequence, out).map_err(|cause| {
            Error::new(ErrorKind::Io, "transcript", "the transcript could not be written")
                .caused_by(cause)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_sequence_has_a_name_of_its_own_and_calls_something() {
        let mut names = BTreeSet::new();
        for sequence in sequences() {
            assert!(!sequence.lines.is_empty(), "{}", sequence.name);
            assert!(
                names.insert(sequence.name.clone()),
                "the name `{}` occurs twice",
                sequence.name
            );
        }
        assert!(names.len() >= 110, "{} sequences", names.len());
    }

    #[test]
    fn every_statement_is_understood() {
        let config = HostConfig::new().devices(2);
        let driver = open_host(config).expect("the system starts a few threads");
        let mut machine = Machine::new(driver.as_ref()).expect("the host device has properties");
        let mut out = Vec::new();
        for sequence in sequences() {
            machine.run(&sequence, &mut out).expect("a vector accepts every byte");
        }
        let text = String::from_utf8(out).expect("a transcript is UTF-8");
        let bad: Vec<&str> = text.lines().filter(|line| line.contains("-> what?")).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}
