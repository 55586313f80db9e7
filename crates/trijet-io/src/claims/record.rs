//! The texts of the files in the folder of claims: the job, and the state of each process.
//!
//! A text is one line of JSON. A line without its end is incomplete: its process died while it
//! wrote, or a loss of power took the line. Anything else than such a line is an error that names
//! the file.

use super::decision::Owner;
use crate::file_error;
use crate::fingerprint::Fingerprint;
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;
use trijet::pipeline::Layout;
use trijet::{Error, Result};

/// Maximum number of ranges of a job.
const RANGES_MAX: u64 = 1024;
/// Maximum length of a text in bytes. A job names its input and its operations.
pub(super) const TEXT_BYTES_MAX: u64 = 1 << 20;

/// The record of a job: which job it is, and its ranges.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobRecord {
    fields: Value,
    /// Hashes of the states of the input files: without their `ctime`, and of the `ctime` alone.
    states: [String; 2],
    pub(super) rows: u64,
    /// The number of rows of a range. The last range may have fewer.
    pub(super) range_rows: u64,
}

impl JobRecord {
    /// The job of `fingerprint`, cut into ranges of at least `bytes_min` bytes. A range is a
    /// multiple of the granule of `layout`.
    pub(super) fn new(fingerprint: &Fingerprint, layout: Layout, bytes_min: u64) -> Self {
        let least = (bytes_min / layout.row_bytes.max(1)).max(layout.rows.div_ceil(RANGES_MAX));
        let range_rows = least.max(1).next_multiple_of(layout.granule);
        Self {
            fields: fingerprint.fields(),
            states: states_of(fingerprint),
            rows: layout.rows,
            range_rows,
        }
    }

    pub(super) fn text(&self) -> String {
        let Self { fields, states, rows, range_rows } = self;
        let record = json!(["trijet claims", 1, fields, states, [rows, range_rows]]);
        format!("{record}\n")
    }

    /// Parses the record. `None` if it is incomplete.
    pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Option<Self>> {
        let Some(value) = line_of(path, text)? else { return Ok(None) };
        let parsed = || {
            let [name, version, fields, states, numbers] = value.as_array()?.as_slice() else {
                return None;
            };
            if name != "trijet claims" || version != 1 {
                return None;
            }
            let [job, changed] = states.as_array()?.as_slice() else { return None };
            let [rows, range_rows] = numbers.as_array()?.as_slice() else { return None };
            let states = [job.as_str()?.to_owned(), changed.as_str()?.to_owned()];
            let (rows, range_rows) = (rows.as_u64()?, range_rows.as_u64()?);
            let is_sound = range_rows > 0 && rows.div_ceil(range_rows) <= RANGES_MAX;
            is_sound.then(|| Self { fields: fields.clone(), states, rows, range_rows })
        };
        parsed().map(Some).ok_or_else(|| damaged(path))
    }

    /// Refuses a process of another job, or a process that sees another state of the input.
    pub(super) fn check(&self, path: &Path, fingerprint: &Fingerprint, own: Layout) -> Result<()> {
        let refused = |cause: String| {
            let advice = "finish that job, or delete this folder and the partial output next to it";
            Err(file_error::refused("claim", path, format!("{cause}; {advice}")))
        };
        if let Some(difference) = fingerprint.other_job(&self.fields) {
            return refused(format!("the claims belong to another job: {difference}"));
        }
        if let Some(difference) = fingerprint.changed(&self.fields) {
            return refused(difference);
        }
        if self.rows != own.rows || !self.range_rows.is_multiple_of(own.granule) {
            let (rows, of_range) = (self.rows, self.range_rows);
            return refused(format!("the job has {rows} rows in ranges of {of_range}"));
        }
        let [job, changed] = states_of(fingerprint);
        if job != self.states[0] {
            return refused("the input has changed since the job began".to_owned());
        }
        if changed != self.states[1] && !fingerprint.is_same_input() {
            let doubtful = crate::fingerprint::DOUBTFUL;
            return refused(format!("the state of the input (ctime) has changed: {doubtful}"));
        }
        Ok(())
    }

    /// The number of ranges.
    pub(super) fn ranges(&self) -> usize {
        usize::try_from(self.rows.div_ceil(self.range_rows)).unwrap_or(usize::MAX)
    }

    /// The rows of the range with this index.
    pub(super) fn rows_of(&self, range: usize) -> Range<u64> {
        let start = (range as u64).saturating_mul(self.range_rows).min(self.rows);
        start..start.saturating_add(self.range_rows).min(self.rows)
    }

    /// The operation of the job, for the state that a user asks for.
    pub(super) fn operation(&self) -> String {
        self.fields.get("operation").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

fn states_of(fingerprint: &Fingerprint) -> [String; 2] {
    let hashes = [fingerprint.job_hash(), fingerprint.state_hash()];
    hashes.map(|hash| format!("{hash:032x}"))
}

/// The activity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessActivity {
    /// It computes rows.
    Working,
    /// It has no rows, because all are done or belong to other processes.
    Waiting,
    /// It was stopped by a signal, or it has done its part.
    Stopped,
    /// It has ended with an error.
    Failed,
}

const ACTIVITIES: [(ProcessActivity, &str); 4] = [
    (ProcessActivity::Working, "working"),
    (ProcessActivity::Waiting, "waiting"),
    (ProcessActivity::Stopped, "stopped"),
    (ProcessActivity::Failed, "failed"),
];

impl ProcessActivity {
    /// The word for it, as in the state of a job.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        ACTIVITIES.into_iter().find(|(own, _)| *own == self).map_or("", |(_, word)| word)
    }

    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }
}

/// The state of a process, which it writes again and again as a sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessState {
    /// The name of the host, and the number of the process on it.
    pub(crate) host: String,
    /// The number of the process on its host.
    pub(crate) process: u32,
    /// Its activity.
    pub(crate) activity: ProcessActivity,
    /// The rows that it computes at present, in ascending order.
    pub(crate) rows: Vec<Range<u64>>,
    /// The number of rows that it has done.
    pub(crate) rows_done: u64,
    /// The seconds since it began, by its own clock.
    pub(crate) seconds: u64,
    /// The cause of its failure.
    pub(crate) error: Option<String>,
    /// The number that increases with each sign of life.
    pub(super) beat: u64,
}

impl ProcessState {
    pub(super) fn text(&self) -> String {
        let rows: Vec<[u64; 2]> = self.rows.iter().map(|rows| [rows.start, rows.end]).collect();
        let state = json!({
            "host": self.host,
            "process": self.process,
            "activity": self.activity.word(),
            "rows": rows,
            "rows_done": self.rows_done,
            "seconds": self.seconds,
            "error": self.error,
            "beat": self.beat,
        });
        format!("{state}\n")
    }

    /// Parses a state. `None` if it is incomplete.
    pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Option<Self>> {
        let Some(value) = line_of(path, text)? else { return Ok(None) };
        let parsed = || {
            let number = |name: &str| value.get(name)?.as_u64();
            let word = value.get("activity")?.as_str()?;
            let (activity, _) = ACTIVITIES.into_iter().find(|(_, known)| *known == word)?;
            let range = |pair: &Value| {
                let [start, end] = pair.as_array()?.as_slice() else { return None };
                Some(start.as_u64()?..end.as_u64()?)
            };
            Some(Self {
                host: value.get("host")?.as_str()?.to_owned(),
                process: u32::try_from(number("process")?).ok()?,
                activity,
                rows: value.get("rows")?.as_array()?.iter().map(range).collect::<Option<_>>()?,
                rows_done: number("rows_done")?,
                seconds: number("seconds")?,
                error: value.get("error")?.as_str().map(str::to_owned),
                beat: number("beat")?,
            })
        };
        parsed().map(Some).ok_or_else(|| damaged(path))
    }
}

/// The text of a claim.
pub(super) fn claim_text(owner: Owner) -> String {
    format!("{}\n", json!({ "owner": format!("{owner:016x}") }))
}

/// The owner that a claim names. `None` if the text is incomplete.
pub(super) fn owner_of(path: &Path, text: &[u8]) -> Result<Option<Owner>> {
    let Some(value) = line_of(path, text)? else { return Ok(None) };
    let owner = value.get("owner").and_then(Value::as_str);
    let owner = owner.and_then(|owner| Owner::from_str_radix(owner, 16).ok());
    owner.map(Some).ok_or_else(|| damaged(path))
}

/// The value of the only line of a text. `None` for an incomplete line, which is empty, has no end
/// or has zeros.
fn line_of(path: &Path, text: &[u8]) -> Result<Option<Value>> {
    let Some(line) = text.strip_suffix(b"\n").filter(|line| !line.contains(&0)) else {
        return match text.len() as u64 > TEXT_BYTES_MAX {
            true => Err(damaged(path)),
            false => Ok(None),
        };
    };
    serde_json::from_slice(line).map(Some).map_err(|_| damaged(path))
}

fn damaged(path: &Path) -> Error {
    let cause = "is damaged, or is no file of this program; move it elsewhere";
    file_error::damaged("claim", path, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::testing::Prng;

    fn state() -> ProcessState {
        ProcessState {
            host: "node7".to_owned(),
            process: 12,
            activity: ProcessActivity::Failed,
            rows: vec![0..4, 8..12],
            rows_done: 7,
            seconds: 3,
            error: Some("the disk is full".to_owned()),
            beat: 9,
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let text = state().text();
        let path = Path::new("process");
        assert_eq!(ProcessState::parse(path, text.as_bytes()).unwrap(), Some(state()));
        for end in 0..text.len() {
            assert_eq!(ProcessState::parse(path, &text.as_bytes()[..end]).unwrap(), None, "{end}");
        }
    }

    #[test]
    fn a_claim_names_its_owner() {
        let text = claim_text(77);
        assert_eq!(owner_of(Path::new("claim"), text.as_bytes()).unwrap(), Some(77));
        assert_eq!(owner_of(Path::new("claim"), b"").unwrap(), None);
        assert_eq!(owner_of(Path::new("claim"), &[0; 40]).unwrap(), None);
    }

    #[test]
    fn damaged_texts_are_errors_that_name_the_file() {
        let whole = [
            state().text(),
            claim_text(5),
            "[\"trijet claims\",1,{},[\"\",\"\"],[9,3]]\n".to_owned(),
        ];
        let path = Path::new("claim-of-another");
        for seed in 0..3000 {
            let mut draw = Prng::new(seed);
            let below =
                |draw: &mut Prng, bound: usize| usize::try_from(draw.below(bound as u64)).unwrap();
            let mut text = whole[below(&mut draw, 3)].clone().into_bytes();
            for _ in 0..1 + below(&mut draw, 4) {
                let at = below(&mut draw, text.len() - 1);
                text[at] = b"\0{}[]\",:9xA\xff\n-1"[below(&mut draw, 15)];
            }
            let errors = [
                ProcessState::parse(path, &text).err(),
                owner_of(path, &text).err(),
                JobRecord::parse(path, &text).err(),
            ];
            for error in errors.into_iter().flatten() {
                assert!(error.to_string().contains("claim-of-another"), "seed {seed}: {error}");
            }
        }
        for text in
            ["[\"trijet claims\",1,{},[\"\",\"\"],[9,0]]\n", "[\"trijet claims\",2]\n", "9\n"]
        {
            assert!(JobRecord::parse(path, text.as_bytes()).is_err(), "{text}");
        }
    }
}
