//! The baseline of a check of programs: a file in JSON with findings that do not fail the check.
//!
//! The key of a finding is the same in every run: its level and class, and for both calls the name
//! and the functions that made it. Numbers of calls, addresses and offsets are not in the key.
#![forbid(unsafe_code)]

use jiff::Zoned;
use jiff::civil::Date;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use trijet::check::{Finding, Party};
use trijet::{Error, ErrorKind, Result};
use trijet_calls::{Judged, Stack};
use trijet_io::{NewFile, file_error, shown};

/// The version of the form of the file.
const VERSION: u64 = 1;

/// Maximum number of functions of a stack that a key has.
const CALLERS_MAX: usize = 2;

/// How the accesses of a finding are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindingLevel {
    /// An access of a kernel was seen by its addresses.
    Seen,
    /// Calls declare both accesses.
    Declared,
    /// One of them is only possible.
    Possible,
}

impl FindingLevel {
    /// The level of an error.
    pub(super) fn of_error(one: &Judged, error: &Finding) -> Self {
        let is_seen = error.first.iter().chain([&error.second]).any(|party| one.is_seen(party));
        if is_seen { Self::Seen } else { Self::Declared }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Declared => "declared",
            Self::Possible => "possible",
        }
    }
}

/// A finding of a baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaselineEntry {
    pub(super) key: String,
    /// The reason why it does not fail a check.
    reason: String,
    /// The last day on which it does not; `None` without an end.
    until: Option<Date>,
}

/// The findings of a baseline, and the keys of what a check has found.
#[derive(Debug)]
pub(super) struct Baseline {
    entries: Vec<BaselineEntry>,
    today: Date,
    found: BTreeSet<String>,
}

/// The standing of a finding in a baseline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The finding is not in the baseline.
    New,
    /// The finding is in the baseline.
    Accepted(BaselineEntry),
    /// The finding is in the baseline until a day that is over.
    Expired(BaselineEntry),
}

impl BaselineEntry {
    /// The reason, and the last day.
    pub(super) fn words(&self) -> String {
        let reason = if self.reason.is_empty() { "no reason is given" } else { &self.reason };
        self.until.map_or_else(|| reason.to_owned(), |day| format!("until {day}: {reason}"))
    }

    pub(super) fn json(&self) -> Value {
        let until = self.until.map(|day| day.to_string());
        json!({ "key": self.key, "reason": self.reason, "until": until })
    }
}

impl Baseline {
    /// A baseline without findings.
    pub(super) fn empty() -> Self {
        Self { entries: Vec::new(), today: Zoned::now().date(), found: BTreeSet::new() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Io`, and `InvalidValue` with the place for a file of another form.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| file_error::io("read the baseline", path, error))?;
        let entries = parse(&text).map_err(|cause| {
            let cause = format!("{}: {cause}", shown(path));
            Error::new(ErrorKind::InvalidValue, "read the baseline", cause)
        })?;
        Ok(Self { entries, ..Self::empty() })
    }

    /// The standing of a finding, which now counts as found.
    pub(super) fn standing(&mut self, key: &str) -> Standing {
        self.found.insert(key.to_owned());
        match self.entries.iter().find(|one| one.key == key).cloned() {
            None => Standing::New,
            Some(one) if one.until.is_some_and(|day| day < self.today) => Standing::Expired(one),
            Some(one) => Standing::Accepted(one),
        }
    }

    /// The keys in the baseline that were not found.
    pub(super) fn missing(&self) -> Vec<&str> {
        let keys = self.entries.iter().map(|one| one.key.as_str());
        keys.filter(|key| !self.found.contains(*key)).collect()
    }

    /// Writes a baseline with the findings of this one, and with all that were found.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn write(&self, output: &NewFile) -> Result<()> {
        let is_in = |key: &String| self.entries.iter().any(|one| one.key == *key);
        let new = self.found.iter().filter(|key| !is_in(key)).map(|key| BaselineEntry {
            key: key.clone(),
            reason: String::new(),
            until: None,
        });
        let findings: Vec<_> =
            self.entries.iter().cloned().chain(new).map(|one| one.json()).collect();
        let value = json!({ "version": VERSION, "findings": findings });
        output.write(|file| writeln!(file, "{value:#}"))
    }
}

/// The key of a finding.
pub(super) fn key(one: &Judged, finding: &Finding, level: FindingLevel) -> String {
    let level = level.word();
    let call = |party: &Party| {
        let from = one.stack(party).and_then(callers);
        from.map_or_else(|| party.label.to_string(), |from| format!("{} from {from}", party.label))
    };
    let first = finding.first.as_ref().map_or_else(|| "?".to_owned(), call);
    format!("{level} {}: {first} | {}", finding.class.code(), call(&finding.second))
}

/// The innermost functions of a stack that have a name, with their libraries. The library of the
/// innermost function, if none has a name.
fn callers(stack: &Stack) -> Option<String> {
    let places: Vec<_> = stack.frames.iter().map(|frame| lasting(frame)).collect();
    let named = places.iter().filter(|place| place.contains(" in ")).take(CALLERS_MAX);
    let named: Vec<_> = named.cloned().collect();
    if named.is_empty() {
        return places.first().cloned();
    }
    Some(named.join(" from "))
}

/// A frame without its offset in the library, which changes with each build. A frame of Python has
/// neither its line nor the folder of its file.
fn lasting(frame: &str) -> String {
    if let Some(end) = frame.rfind("+0x") {
        return frame[..end].to_owned();
    }
    let is_line = |end: &usize| frame[end + 1..].bytes().all(|byte| byte.is_ascii_digit());
    let frame = frame.rfind(':').filter(is_line).map_or(frame, |end| &frame[..end]);
    match frame.split_once(" in ") {
        Some((name, file)) => format!("{name} in {}", file.rsplit('/').next().unwrap_or(file)),
        None => frame.to_owned(),
    }
}

/// Reads the text of a file.
fn parse(text: &str) -> std::result::Result<Vec<BaselineEntry>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Value::Object(file) = &value else { return Err("it is no object".to_owned()) };
    only(file, &["version", "findings"])?;
    if file.get("version").and_then(Value::as_u64) != Some(VERSION) {
        return Err(format!("`version` must be {VERSION}"));
    }
    let findings = file.get("findings").and_then(Value::as_array);
    let findings = findings.ok_or("`findings` must be a list")?;
    let entry =
        |(number, value)| entry(value).map_err(|cause| format!("findings[{number}]: {cause}"));
    findings.iter().enumerate().map(entry).collect()
}

fn entry(value: &Value) -> std::result::Result<BaselineEntry, String> {
    let Value::Object(entry) = value else { return Err("it is no object".to_owned()) };
    only(entry, &["key", "reason", "until"])?;
    let text = |name: &str| match entry.get(name) {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Null) | None => Ok(None),
        Some(_) => Err(format!("`{name}` must be a text")),
    };
    let until = text("until")?.map(|day| {
        day.parse::<Date>().map_err(|_| format!("`until` must be a day as 2027-03-31, not `{day}`"))
    });
    Ok(BaselineEntry {
        key: text("key")?.ok_or("`key` is missing")?,
        reason: text("reason")?.unwrap_or_default(),
        until: until.transpose()?,
    })
}

/// Refuses fields of other names, which could be spelling mistakes.
fn only(object: &Map<String, Value>, names: &[&str]) -> std::result::Result<(), String> {
    let other = object.keys().find(|name| !names.contains(&name.as_str()));
    other.map_or(Ok(()), |name| {
        Err(format!("`{name}` is no field; the fields are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::ToSpan;
    use trijet_io::Existing;

    fn stack(frames: &[&str]) -> Stack {
        let frames = frames.iter().map(|&frame| frame.to_owned()).collect();
        Stack { frames, is_of_first_launch: false }
    }

    #[test]
    fn a_key_has_functions_without_offsets() {
        let frames = ["race+0x3e248", "up in race+0x8be6", "all in race+0x9", "main in race+0x10"];
        assert_eq!(callers(&stack(&frames)).unwrap(), "up in race from all in race");
        assert_eq!(callers(&stack(&["liba.so+0x3e248", "b+0x1"])).unwrap(), "liba.so");
        assert_eq!(callers(&stack(&[])), None);
    }

    #[test]
    fn a_finding_is_accepted_to_the_end_of_its_last_day() {
        let mut baseline = Baseline::empty();
        let yesterday = baseline.today.checked_sub(1.day()).unwrap();
        let entry = |key: &str, until| BaselineEntry {
            key: key.to_owned(),
            reason: "a library".to_owned(),
            until,
        };
        baseline.entries =
            vec![entry("a", Some(baseline.today)), entry("b", Some(yesterday)), entry("c", None)];
        let [a, b, c] = [0, 1, 2].map(|number| baseline.entries[number].clone());
        assert_eq!(a.words(), format!("until {}: a library", baseline.today));
        assert_eq!(c.words(), "a library");
        assert_eq!(baseline.standing("a"), Standing::Accepted(a));
        assert_eq!(baseline.standing("b"), Standing::Expired(b));
        assert_eq!(baseline.standing("d"), Standing::New);
        assert_eq!(baseline.missing(), ["c"]);
        assert_eq!(baseline.standing("c"), Standing::Accepted(c));
        assert!(baseline.missing().is_empty());
    }

    #[test]
    fn a_written_file_keeps_reasons_and_has_what_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.json");
        let old = r#"{"version":1,"findings":[{"key":"a","reason":"why","until":"2027-03-31"},{"key":"b"}]}"#;
        std::fs::write(&path, old).unwrap();
        let mut baseline = Baseline::read(&path).unwrap();
        baseline.standing("z");
        baseline.standing("a");
        baseline.write(&NewFile::new("write", &path, Existing::Replaced, &[]).unwrap()).unwrap();
        let read = Baseline::read(&path).unwrap().entries;
        let keys: Vec<_> = read.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "z"]);
        assert_eq!((read[0].reason.as_str(), read[0].until), ("why", "2027-03-31".parse().ok()));
    }

    #[test]
    fn a_file_of_another_form_is_refused_with_the_place() {
        for (text, cause) in [
            ("", "EOF"),
            ("[]", "no object"),
            (r#"{"findings":[]}"#, "`version` must be 1"),
            (r#"{"version":2,"findings":[]}"#, "`version` must be 1"),
            (r#"{"version":1}"#, "`findings` must be a list"),
            (r#"{"version":1,"findngs":[]}"#, "`findngs` is no field"),
            (r#"{"version":1,"findings":[{"key":"a"},{}]}"#, "findings[1]: `key` is missing"),
            (r#"{"version":1,"findings":[{"key":1}]}"#, "findings[0]: `key` must be a text"),
            (
                r#"{"version":1,"findings":[{"key":"a","untli":"x"}]}"#,
                "findings[0]: `untli` is no field",
            ),
            (r#"{"version":1,"findings":[{"key":"a","until":"31.3."}]}"#, "not `31.3.`"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.contains(cause), "{text}: {found}");
        }
    }
}
