//! `results`: writes the tables of the documents from the result files of the benchmarks.
//!
//! A block of a document begins with the line `<!-- results: BENCHMARK GPU -->` and ends with `<!--
//! end of results -->`. Between these lines is the table for the rows of that benchmark on that
//! GPU. Rows are appended to the result files, so the newest commit is the commit of the last row.
//! The rows of other commits are left out.

use crate::tools::{Result, root};
use csv::StringRecord;
use std::fs;
use std::path::Path;

const DOCUMENTS: [&str; 1] = ["docs/measuring.md"];
const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of results -->";

/// The indices of the columns of a result file.
const DEVICE: usize = 0;
const DRIVER: usize = 1;
const DATE: usize = 3;
const COMMIT: usize = 4;
const WHAT: usize = 5;
const MEDIAN: usize = 7;
const BOUND: usize = 11;
const OF_BOUND: usize = 12;
const NOTE: usize = 13;

/// Writes the blocks of all documents.
pub(crate) fn write() -> Result<()> {
    for (document, old, new) in documents(&root())? {
        if old != new {
            fs::write(root().join(document), new)?;
            println!("{document}: written");
        }
    }
    Ok(())
}

/// Compares the blocks of all documents with the result files.
///
/// # Errors
/// The first line that differs.
pub(crate) fn check() -> Result<()> {
    for (document, old, new) in documents(&root())? {
        let lines = old.lines().zip(new.lines()).enumerate();
        let differs =
            lines.map(|(n, (old, new))| (n + 1, old, new)).find(|(_, old, new)| old != new);
        if let Some((line, old, new)) = differs {
            return Err(format!(
                "{document}:{line} differs from the results; run `cargo xtask results`\n\
                 document: {old}\nresults: {new}"
            )
            .into());
        }
        if old != new {
            let cause = "has more or fewer lines than the results; run `cargo xtask results`";
            return Err(format!("{document} {cause}").into());
        }
    }
    Ok(())
}

/// The name of each document, its present text, and the text that it should have.
fn documents(root: &Path) -> Result<Vec<(&'static str, String, String)>> {
    let read = |file: &str| {
        let path = root.join("crates/trijet-bench/results").join(file);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()).into())
    };
    let render = |document| {
        let old = fs::read_to_string(root.join(document))?;
        let new = rendered(&old, read).map_err(|error| format!("{document}: {error}"))?;
        Ok((document, old, new))
    };
    DOCUMENTS.into_iter().map(render).collect()
}

/// A text with newly written blocks. `read` returns the text of a result file.
fn rendered(text: &str, read: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(named) = line.strip_prefix(BEGIN) else { continue };
        let words: Vec<&str> = named.trim_end_matches("-->").split_whitespace().collect();
        let [benchmark, gpu] = words[..] else {
            return Err(format!("`{line}` does not name a benchmark and a GPU").into());
        };
        if !lines.by_ref().any(|line| line == END) {
            return Err(format!("no `{END}` follows `{line}`").into());
        }
        let newest = Newest::of(&read(&format!("{gpu}/{benchmark}.csv"))?)?;
        out += &match benchmark {
            "overlap" => overlap(&newest)?,
            "files" => files(&newest)?,
            _ => return Err(format!("no table is known for the benchmark `{benchmark}`").into()),
        };
        out += &newest.source()?;
        out += END;
        out.push('\n');
    }
    Ok(out)
}

/// The rows of the newest commit.
struct Newest(Vec<StringRecord>);

impl Newest {
    fn of(text: &str) -> Result<Self> {
        let rows: Vec<StringRecord> =
            csv::Reader::from_reader(text.as_bytes()).records().collect::<csv::Result<_>>()?;
        let last = rows.last().ok_or("the result file has no rows")?.clone();
        Ok(Self(rows.into_iter().filter(|row| row[COMMIT] == last[COMMIT]).collect()))
    }

    /// The newest row of the figure `what`, if the figure was measured.
    fn find(&self, what: &str) -> Option<&StringRecord> {
        self.0.iter().rev().find(|row| &row[WHAT] == what)
    }

    /// A number in a column of the figure `what`, which must have been measured.
    fn number(&self, what: &str, column: usize) -> Result<f64> {
        let row =
            self.find(what).ok_or_else(|| format!("the newest commit has no row `{what}`"))?;
        number(row, &row[column])
    }

    /// The origin of the rows, as a sentence for the document.
    fn source(&self) -> Result<String> {
        let row = self.0.last().ok_or("the result file has no rows")?;
        let (commit, date) = (&row[COMMIT], &row[DATE]);
        let [commit, date] =
            [(commit, 12), (date, 10)].map(|(text, n)| text.get(..n).unwrap_or(text));
        Ok(format!("\n{}, driver {}, commit {commit}, {date}.\n", &row[DEVICE], &row[DRIVER]))
    }
}

fn number(row: &StringRecord, text: &str) -> Result<f64> {
    let wrong = |_| format!("`{text}` in the row `{}` is not a number", &row[WHAT]);
    Ok(text.parse().map_err(wrong)?)
}

/// The rate in GB/s at the start of a row's note.
fn rate(row: &StringRecord) -> Result<f64> {
    number(row, row[NOTE].split(' ').next().unwrap_or_default())
}

/// The table of the schedules, and a sentence about the default settings.
fn overlap(newest: &Newest) -> Result<String> {
    let mut out =
        "\n| chunk | one stream | a stream per slot, 3 slots | a stream per engine, 3 slots \
                   | PyTorch, 3 streams |\n|---|---|---|---|---|\n"
            .to_owned();
    for mib in [1, 4, 16, 64] {
        out += &format!("| {mib} MiB |");
        for (name, slots, rounds) in [
            ("one-stream", 1, " rounds=0"),
            ("slot-streams", 3, " rounds=0"),
            ("role-streams", 3, " rounds=0"),
            ("pytorch slot-streams", 3, ""),
        ] {
            let what = format!("{name} chunk={mib}MiB slots={slots}{rounds}");
            out += &format!(" {:.1} |", newest.number(&what, MEDIAN)?);
        }
        out.push('\n');
    }
    let light = "tuned rounds=0";
    let heavy = newest.0.iter().map(|row| &row[WHAT]);
    let heavy = heavy.rev().find(|what| what.starts_with("tuned rounds=") && *what != light);
    let heavy = heavy.ok_or("the newest commit has no row of a heavy kernel")?;
    let of_bound = |what| newest.number(what, OF_BOUND);
    out += &format!(
        "\nBound {:.1}; default settings {:.1}, that is {:.3} of the bound; with a kernel that takes \
         80 % of the copies' time {:.1} ({:.3}).\n",
        newest.number(light, BOUND)?,
        newest.number(light, MEDIAN)?,
        of_bound(light)?,
        newest.number(heavy, MEDIAN)?,
        of_bound(heavy)?,
    );
    Ok(out)
}

/// The table of jobs from file to file, in GB/s of the input. It has a row for each case. A program
/// that did not run in a case has a dash there.
fn files(newest: &Newest) -> Result<String> {
    let mut out =
        "\n| GB/s | threads without a GPU | `map --no-sync`, run | of the threads | `map`, process \
                   | CuPy loop, run | TomocuPy scheme, run |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    let mut cases: Vec<&str> = Vec::new();
    for row in &newest.0 {
        if let Some((case, _)) = row[WHAT].split_once(": ")
            && !cases.contains(&case)
        {
            cases.push(case);
        }
    }
    for case in cases {
        let find = |program: &str| newest.find(&format!("{case}: {program}"));
        let plain = newest.0.iter().filter(|row| {
            let program = row[WHAT].strip_prefix(&format!("{case}: plain "));
            program.is_some_and(|name| name.ends_with(", run") && !name.contains(", synced"))
        });
        let map = find("trijet map --no-sync, run");
        let mut cells = vec![
            plain.map(rate).reduce(|a, b| Ok(a?.max(b?))),
            map.map(rate),
            map.map(|row| number(row, &row[OF_BOUND])),
        ];
        for program in ["trijet map, process", "CuPy loop, run", "TomocuPy scheme, run"] {
            cells.push(find(program).map(rate));
        }
        out += &format!("| {case} |");
        for cell in cells {
            out += &cell.transpose()?.map_or(" - |".to_owned(), |value| format!(" {value:.2} |"));
        }
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "device,driver,host,date,commit,what,unit,median,min,max,samples,bound,bound_over_median,note\n";

    fn row(commit: &str, what: &str, median: &str, rest: &str) -> String {
        format!("gpu,570,host,2026-11-22T00:00:00Z,{commit},\"{what}\",ms,{median},1,1,3,{rest}\n")
    }

    /// A file of two commits, with every row of the table.
    fn overlap_rows() -> String {
        let mut text = HEADER.to_owned();
        for (commit, median) in [("0ld", "9.000"), ("new", "30.04")] {
            for mib in [1, 4, 16, 64] {
                for name in ["one-stream", "slot-streams", "role-streams"] {
                    let slots = if name == "one-stream" { 1 } else { 3 };
                    let what = format!("{name} chunk={mib}MiB slots={slots} rounds=0");
                    text += &row(commit, &what, median, ",,");
                }
                let what = format!("pytorch slot-streams chunk={mib}MiB slots=3");
                text += &row(commit, &what, median, ",,");
            }
            text += &row(commit, "tuned rounds=0", "20.06", "19.000,0.9474,");
            text += &row(commit, "tuned rounds=229", "21.94", "19.000,0.8660,");
        }
        text
    }

    const BLOCK: &str =
        "before\n<!-- results: overlap h200 -->\nold\n<!-- end of results -->\nafter\n";

    #[test]
    fn the_documents_say_what_the_results_say() {
        check().expect("a document is out of date; run `cargo xtask results`");
    }

    #[test]
    fn each_document_has_a_block() {
        for document in DOCUMENTS {
            let text = fs::read_to_string(root().join(document)).unwrap();
            assert!(text.contains(BEGIN), "{document}");
        }
    }

    #[test]
    fn a_block_has_the_newest_commit_and_the_text_around_it_stays() {
        let read = |file: &str| {
            assert_eq!(file, "h200/overlap.csv");
            Ok(overlap_rows())
        };
        let text = rendered(BLOCK, read).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("\nafter\n"), "{text}");
        assert!(!text.contains("old\n") && !text.contains("| 9.0 |"), "{text}");
        assert_eq!(text.matches("MiB | 30.0 | 30.0 | 30.0 | 30.0 |\n").count(), 4, "{text}");
        assert!(
            text.contains("Bound 19.0; default settings 20.1, that is 0.947 of the bound; with")
        );
        assert!(
            text.contains("time 21.9 (0.866).\n\ngpu, driver 570, commit new, 2026-11-22.\n"),
            "{text}"
        );
        let again = rendered(&text, |_| Ok(overlap_rows())).unwrap();
        assert_eq!(again, text);
    }

    #[test]
    fn a_changed_number_is_noticed() {
        let text = rendered(BLOCK, |_| Ok(overlap_rows())).unwrap();
        let slower = overlap_rows().replace("30.04", "31.04");
        assert_ne!(rendered(&text, |_| Ok(slower.clone())).unwrap(), text);
    }

    #[test]
    fn a_missing_row_and_a_wrong_block_are_named() {
        let told = |text: &str, file: String| {
            rendered(text, |_| Ok(file.clone())).unwrap_err().to_string()
        };
        let short = overlap_rows().replace("role-streams chunk=16MiB", "role-streams chunk=8MiB");
        let missing = "no row `role-streams chunk=16MiB slots=3 rounds=0`";
        assert!(told(BLOCK, short).contains(missing));
        assert!(told(BLOCK, HEADER.to_owned()).contains("no rows"));
        let unknown = BLOCK.replace("overlap h200", "speed h200");
        assert!(told(&unknown, overlap_rows()).contains("`speed`"));
        let open = BLOCK.replace(END, "");
        assert!(told(&open, overlap_rows()).contains("no `<!-- end of results -->` follows"));
    }

    #[test]
    fn files_have_a_row_for_each_case_and_dashes_for_what_did_not_run() {
        let mut text = HEADER.to_owned();
        let case = "affine, disk, new output";
        for (side, median, rest) in [
            ("trijet map, process", "2", "0.5,0.25,\"1.000 GB/s in; spread 0\""),
            ("trijet map --no-sync, run", "1", "0.5,0.5,\"2.000 GB/s in; spread 0\""),
            ("CuPy loop, run", "4", "0.5,0.125,0.500 GB/s in"),
            ("plain threads=8 write, run", "0.5", "0.5,1,4.000 GB/s in"),
            ("plain threads=4 write, run", "0.6", "0.5,1,3.333 GB/s in"),
            ("plain threads=8 write, synced, run", "0.4", "0.5,1,5.000 GB/s in"),
        ] {
            text += &row("new", &format!("{case}: {side}"), median, rest);
        }
        let tried = "plain threads=4 write 1.000 s, plain threads=8 write 1.200 s";
        let warm_up = format!("{case}: plain threads in the warm-up");
        text += &row("new", &warm_up, "", &format!(",,\"{tried}\""));
        let other = "affine, disk, over existing pages: trijet map";
        text += &row("new", other, "", ",,not applicable: no option");
        let table = rendered(&BLOCK.replace("overlap", "files"), |_| Ok(text.clone())).unwrap();
        let wanted = "| affine, disk, new output | 4.00 | 2.00 | 0.50 | 1.00 | 0.50 | - |\n\
                      | affine, disk, over existing pages | - | - | - | - | - | - |\n";
        assert!(table.contains(wanted), "{table}");
        let damaged = text.replace("2.000 GB/s", "fast");
        let files = BLOCK.replace("overlap", "files");
        let told = rendered(&files, |_| Ok(damaged.clone())).unwrap_err().to_string();
        assert!(told.contains("`fast` in the row `affine, disk, new output: trijet map"), "{told}");
    }
}
