//! The table of deliberate faults: exact rewrites of the library's sources, one rewrite per fault.
//! The text of the table explains its syntax. `tidy` reads the table too, so that it is updated
//! together with the sources.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

/// The text of the table.
pub(crate) const TABLE: &str = include_str!("faults.txt");

/// One fault and its rewrite.
pub(crate) struct Fault {
    /// The number of the fault. The environment variable `TRIJET_MUTANT` with this number switches
    /// the fault on.
    pub(crate) id: usize,
    /// The effect of the fault.
    pub(crate) what: String,
    /// The path of the file, relative to the folder of the library's sources.
    pub(crate) file: String,
    /// The line of the table where the fault starts, counted from one.
    pub(crate) line: usize,
    /// The lines of the file that are replaced.
    before: Vec<String>,
    /// The lines that replace the lines of `before`.
    after: Vec<String>,
}

impl Fault {
    /// Reads the first line of a fault, such as `7 stream/lane.rs: what it does`.
    fn begun(header: &str, line: usize) -> Option<Self> {
        let (id, rest) = header.split_once(' ')?;
        let (file, what) = rest.split_once(": ")?;
        Some(Self {
            id: id.parse().ok()?,
            what: what.to_owned(),
            file: file.to_owned(),
            line,
            before: Vec::new(),
            after: Vec::new(),
        })
    }

    /// Adds one line of the rewrite; `None` if the line is not a line of a rewrite.
    fn add(&mut self, line: &str) -> Option<()> {
        let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        if !matches!(kind, " " | "-" | "+") {
            return None;
        }
        if kind != "+" {
            self.before.push(text.to_owned());
        }
        if kind != "-" {
            self.after.push(text.to_owned());
        }
        Some(())
    }

    /// The indices of the lines of `text` that the fault replaces.
    fn place(&self, text: &str) -> Result<Range<usize>, String> {
        let lines: Vec<&str> = text.lines().collect();
        let count = self.before.len();
        if count == 0 {
            return Err("it replaces nothing".to_owned());
        }
        let places: Vec<usize> = lines
            .windows(count)
            .enumerate()
            .filter(|(_, window)| self.before == *window)
            .map(|(at, _)| at)
            .collect();
        match places[..] {
            [at] => Ok(at..at + count),
            _ => Err(format!(
                "the replaced lines occur {} times in {} instead of once",
                places.len(),
                self.file
            )),
        }
    }

    /// The mistakes in this fault. `number` is the number that its position in the table requires.
    fn objections(&self, number: usize) -> Vec<String> {
        let mut objections = Vec::new();
        if self.id != number {
            objections.push(format!("fault {} must have the number {number}", self.id));
        }
        let switch = format!("crate::mutant::on({})", self.id);
        if self.after.iter().map(|line| line.matches(&switch).count()).sum::<usize>() != 1 {
            objections.push(format!("fault {} must call `{switch}` exactly once", self.id));
        }
        objections
    }
}

/// Reads a table. An error has the number of the line and the mistake.
pub(crate) fn parse(table: &str) -> Result<Vec<Fault>, (usize, String)> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut blank = 0;
    for (line, text) in (1..).zip(table.lines()) {
        if text.starts_with('#') {
            continue;
        }
        if text.is_empty() {
            // Inside a rewrite, an empty line is an unchanged line. Before the next fault, it is
            // only a separator.
            blank += 1;
            continue;
        }
        let blanks = std::mem::take(&mut blank);
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let fault = Fault::begun(text, line);
            faults.push(fault.ok_or((
                line,
                "this line is not of the form `NUMBER FILE: DESCRIPTION`".to_owned(),
            ))?);
            continue;
        }
        let fault =
            faults.last_mut().ok_or((line, "this line precedes the first fault".to_owned()))?;
        let added = (0..blanks).try_for_each(|_| fault.add("")).and_then(|()| fault.add(text));
        added.ok_or((line, "this line does not begin with a blank, `-` or `+`".to_owned()))?;
    }
    Ok(faults)
}

/// Applies the rewrites to the files. `read` returns the text of a file. Returns the new text of
/// each file, and all mistakes, each with its line of the table.
pub(crate) fn apply(
    faults: &[Fault],
    read: impl Fn(&str) -> Option<String>,
) -> (BTreeMap<String, String>, Vec<(usize, String)>) {
    let mut objections = Vec::new();
    let mut places: BTreeMap<&str, Vec<(Range<usize>, &Fault)>> = BTreeMap::new();
    let mut texts = BTreeMap::new();
    for (number, fault) in (1..).zip(faults) {
        let wrong = fault.objections(number).into_iter().map(|what| (fault.line, what));
        objections.extend(wrong);
        let Some(text) = read(&fault.file) else {
            objections.push((fault.line, format!("there is no file {}", fault.file)));
            continue;
        };
        match fault.place(&text) {
            Ok(place) => places.entry(&fault.file).or_default().push((place, fault)),
            Err(what) => objections.push((fault.line, format!("fault {}: {what}", fault.id))),
        }
        texts.insert(fault.file.clone(), text);
    }
    for (file, mut places) in places {
        places.sort_by_key(|(place, _)| place.start);
        for pair in places.windows(2) {
            if let [(first, one), (second, other)] = pair
                && second.start < first.end
            {
                let what = format!("faults {} and {} overlap", one.id, other.id);
                objections.push((other.line, what));
            }
        }
        if let Some(text) = texts.get_mut(file) {
            *text = rewritten(text, &places);
        }
    }
    (texts, objections)
}

/// The text with the lines in each of `places` replaced by the lines of the fault.
fn rewritten(text: &str, places: &[(Range<usize>, &Fault)]) -> String {
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        for (_, fault) in places.iter().filter(|(place, _)| place.start == at) {
            fault.after.iter().for_each(|line| out.extend([line, "\n"]));
        }
        if !places.iter().any(|(place, _)| place.contains(&at)) {
            out.extend([line, "\n"]);
        }
    }
    out
}
