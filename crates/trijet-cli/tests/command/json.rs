//! docs/json.md is the definition of every document of `--json`: the printed document has the
//! fields of its tables, and each field of the tables is printed.

use crate::own_kernel::empty;
use crate::workdir::{Images, Ran, Workdir, bytes_of, noise, numbers_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trijet::Nanos;
use trijet::trace::activity::{Activity, ActivityKind, End, NameId};
use trijet::trace::process_file;

const PAGE: &str = include_str!("../../../../docs/json.md");

/// Rows with this end of their meaning are not printed without a GPU. The test fails if one of its
/// runs prints them.
const ELSEWHERE: &str = "Only on a GPU.";

/// The type of a field.
#[derive(Debug, Clone)]
enum Type {
    Integer,
    Number,
    String,
    Boolean,
    /// One of these strings.
    Key(Vec<String>),
    Array(Box<Type>),
    /// An object with the fields of a section.
    Object(String),
}

/// A row of a table.
#[derive(Debug)]
struct Field {
    kind: Type,
    is_nullable: bool,
    /// An object may lack it.
    is_optional: bool,
    is_elsewhere: bool,
}

/// The tables of the page, by their headings.
type Tables = BTreeMap<String, BTreeMap<String, Field>>;

/// The words of a cell without links and quotes: `[report](#report)` is `report`.
fn plain(cell: &str) -> String {
    let mut words = String::new();
    let mut rest = cell;
    while let Some((before, link)) = rest.split_once("](#") {
        words += before;
        rest = link.split_once(')').expect("a link ends").1;
    }
    (words + rest).replace(['`', '[', '"'], "").trim().to_owned()
}

fn type_of(words: &str) -> Type {
    match words {
        "integer" => Type::Integer,
        "number" => Type::Number,
        "string" => Type::String,
        "boolean" => Type::Boolean,
        _ => {
            if let Some(one) = words.strip_prefix("array of ") {
                return Type::Array(Box::new(type_of(one)));
            }
            match words.strip_prefix("one of ") {
                Some(keys) => Type::Key(keys.split(" / ").map(str::to_owned).collect()),
                None => Type::Object(words.to_owned()),
            }
        }
    }
}

/// The ends of names and the units that go with them.
const UNITS: [(&str, &str); 7] = [
    ("_ns", "ns"),
    ("_us", "us"),
    ("_s", "s"),
    ("_gb_per_s", "10^9 bytes/s"),
    ("_bytes_per_s", "bytes/s"),
    ("_bytes", "bytes"),
    ("_percent", "%"),
];

/// The unit in the name of a field.
fn unit_of(name: &str) -> Option<&'static str> {
    if name.starts_with("bytes_") {
        return Some("bytes");
    }
    let ends = UNITS.iter().filter(|(end, _)| name.ends_with(end));
    ends.max_by_key(|(end, _)| end.len()).map(|(_, unit)| *unit)
}

/// Adds a row of a table.
fn add_row(table: &mut BTreeMap<String, Field>, row: &str) {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [name, kind, unit, meaning] = cells[..] else { panic!("`{row}` has four cells") };
    assert!(meaning.len() > 3, "`{row}` has a meaning");
    let name = plain(name);
    let named = unit_of(&name);
    assert!(named.is_none_or(|named| named == unit), "`{row}` has the unit of its name");
    let timed = ["ns", "us", "s", "bytes", "bytes/s", "10^9 bytes/s", "%"].contains(&unit);
    assert!(!timed || named.is_some() || name == "bytes", "`{row}` has its unit in its name");
    let kind = plain(kind);
    let (kind, is_optional) = match kind.strip_suffix(", optional") {
        Some(kind) => (kind.to_owned(), true),
        None => (kind, false),
    };
    let (kind, is_nullable) = match kind.strip_suffix(" or null") {
        Some(kind) => (kind.trim_end_matches(',').to_owned(), true),
        None => (kind, false),
    };
    let is_elsewhere = meaning.ends_with(ELSEWHERE);
    let field = Field { kind: type_of(&kind), is_nullable, is_optional, is_elsewhere };
    assert!(table.insert(name, field).is_none(), "`{row}` is there twice");
}

/// The tables of the page. A row `all of [x](#x)` stands for the rows of that section.
fn tables() -> Tables {
    let (mut tables, mut heading) = (Tables::new(), String::new());
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in PAGE.lines() {
        if let Some(words) = line.strip_prefix("### ") {
            heading = plain(words);
            assert!(tables.insert(heading.clone(), BTreeMap::new()).is_none(), "{heading} twice");
        } else if line.starts_with("## ") {
            heading.clear();
        } else if let Some(part) = line.strip_prefix("| all of ") {
            let part = plain(part.split('|').next().expect("a cell"));
            parts.push((heading.clone(), part));
        } else if line.starts_with("| `") && !heading.is_empty() {
            add_row(tables.get_mut(&heading).expect("a heading"), line);
        }
    }
    for (whole, part) in parts {
        let kind = Type::Object(part);
        let field = Field { kind, is_nullable: false, is_optional: false, is_elsewhere: false };
        tables.get_mut(&whole).expect("a heading").insert("all of".to_owned(), field);
    }
    tables
}

/// The contents of the documents of the test.
struct Reader {
    tables: Tables,
    seen: BTreeSet<(String, String)>,
    wrong: BTreeSet<String>,
}

impl Reader {
    /// Compares an object with the table of a section.
    fn object(&mut self, value: &Value, section: &str, place: &str) {
        let Some(object) = value.as_object() else {
            self.wrong.insert(format!("{place} is no object: {value}"));
            return;
        };
        let mut sections = vec![section.to_owned()];
        loop {
            let last = sections.last().expect("there is one");
            let fields = self.tables.get(last).unwrap_or_else(|| panic!("no table of `{last}`"));
            match fields.get("all of").map(|part| part.kind.clone()) {
                Some(Type::Object(part)) => sections.push(part),
                _ => break,
            }
        }
        for (name, value) in object {
            let of = sections.iter().find(|section| self.tables[*section].contains_key(name));
            let Some(of) = of else {
                self.wrong.insert(format!("{place}.{name} is not in the table of {section}"));
                continue;
            };
            let field = &self.tables[of][name];
            let (kind, is_nullable) = (field.kind.clone(), field.is_nullable);
            self.seen.insert((of.clone(), name.clone()));
            if !(value.is_null() && is_nullable) {
                self.value(value, &kind, &format!("{place}.{name}"));
            }
        }
        for section in &sections {
            for (name, field) in &self.tables[section] {
                if name != "all of" && !field.is_optional && !object.contains_key(name) {
                    self.wrong.insert(format!("{place} lacks `{name}` of {section}"));
                }
            }
        }
    }

    fn value(&mut self, value: &Value, kind: &Type, place: &str) {
        let fits = match kind {
            Type::Integer => value.is_u64() || value.is_i64(),
            Type::Number => value.is_number(),
            Type::String => value.is_string(),
            Type::Boolean => value.is_boolean(),
            Type::Key(keys) => {
                value.as_str().is_some_and(|text| keys.iter().any(|key| key == text))
            }
            Type::Array(one) => {
                for each in value.as_array().map_or(&[][..], Vec::as_slice) {
                    self.value(each, one, &format!("{place}[]"));
                }
                value.is_array()
            }
            Type::Object(section) => return self.object(value, section, place),
        };
        if !fits {
            self.wrong.insert(format!("{place} is no {kind:?}: {value}"));
        }
    }

    /// Compares the output of a command with the table of a document.
    #[track_caller]
    fn document(&mut self, section: &str, ran: &Ran) {
        let text = ran.out.as_str();
        let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let first = text.lines().skip(1).take(2).map(str::trim).collect::<Vec<_>>();
        let command = section.split(' ').next().expect("a word");
        assert_eq!(first, ["\"version\": 1,".to_owned(), format!("\"command\": \"{command}\",")]);
        self.object(&value, section, section);
    }
}

fn stack(workdir: &Workdir) {
    let pixels = numbers_of(&noise(64 * 64 * 2 * 8, 3));
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &bytes_of(&pixels));
}

fn maps(reader: &mut Reader, workdir: &Workdir) {
    let run = |args: &[&str]| {
        let call = ["in.npy", "--json", "--op", "median"];
        workdir.map(&[&call[..], args].concat())
    };
    reader.document("map", &run(&["-o", "a.npy", "--check", "--trace", "a.ledger"]));
    reader.document("map", &run(&["-o", "c.npy", "--shard", "0/2", "--chunk", "8KiB"]));
    // Thousands of chunks: the calls cost more than the work, which is worth advice.
    workdir.file("small.raw", &vec![1; 4000 * 16]);
    let rows = ["small.raw", "--shape", "4000x16", "--dtype", "u8", "--op", "affine", "--json"];
    let ran = workdir.map(&[&rows[..], &["--chunk", "16", "-o", "d.raw"]].concat());
    assert!(ran.out.contains("\"change\": \"larger_chunks\""), "{ran:?}");
    reader.document("map", &ran);
    workdir.images("scans", [8, 8], &Images::U8(&[7; 128]));
    workdir.file("scans/1.png", b"no image");
    let skipping = ["scans", "-o", "scans-good", "--op", "median", "--skip-bad", "--json"];
    reader.document("map", &workdir.map(&skipping));
    reader.document("map --resume", &run(&["-o", "a.npy", "--resume"]));
    reader.document("map --plan", &run(&["-o", "b.npy", "--plan"]));
}

fn overlaps(reader: &mut Reader, workdir: &Workdir) {
    let run = |args: &[&str]| {
        let call = ["overlap", "in.npy", "--device", "host", "--json"];
        workdir.trijet(&[&call[..], args].concat())
    };
    reader.document("overlap", &run(&["--check", "--trace", "b.ledger"]));
    reader.document("overlap", &run(&["--chunk", "8KiB", "--depth", "2", "--times", "auto"]));
    let drop = ["--drop-wait", "1", "--chunk", "8KiB"];
    reader.document("overlap --drop-wait", &run(&[&drop[..], &["--trace", "c.ledger"]].concat()));
    let check = ["--check", "--overwrite"];
    reader.document("overlap --drop-wait", &run(&[&drop[..], &check].concat()));
    for ledger in ["a.ledger", "b.ledger", "c.ledger"] {
        for assume in ["documented", "driver-observed"] {
            let check = ["check", ledger, "--json", "--assume", assume];
            reader.document("check", &workdir.trijet(&check));
        }
    }
}

/// The trace of two ranks. Rank 1 is late for each of ten collectives, and rank 0 has a kernel that
/// ends before it starts.
pub(crate) fn ranks() -> Vec<u8> {
    const NAMES: [&str; 2] = ["gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args)"];
    let mut file = Vec::new();
    for rank in 0..2 {
        process_file::header(&mut file, 100 + rank, 130_001, Nanos(1));
        process_file::rank(&mut file, rank);
        for (id, name) in (0..).zip(NAMES) {
            process_file::name(&mut file, NameId(id), name.as_bytes());
        }
        let mut count = 0;
        let mut kernel = |name: u32, stream, begin_us: u64, end_us: u64| {
            count += 1;
            let one = Activity {
                kind: ActivityKind::Kernel,
                begin: Nanos((1000 + begin_us) * 1000),
                end: Nanos((1000 + end_us) * 1000),
                bytes: 0,
                name: Some(NameId(name)),
                device: 0,
                context: 1,
                stream,
                thread: 1,
                correlation: 0,
            };
            process_file::activity(&mut file, &one);
        };
        for step in (0..10).map(|step| step * 1000) {
            let computed = step + 300 + u64::from(rank) * 200;
            kernel(0, 7, step, computed);
            kernel(1, 13, computed + 2, step + 552);
        }
        if rank == 0 {
            kernel(0, 7, 20_010, 20_000);
        }
        let at = Nanos(30_000_000);
        process_file::end(&mut file, &End { activities: count, at, ..End::default() });
    }
    file
}

fn others(reader: &mut Reader, workdir: &Workdir) {
    reader.document("devices", &workdir.trijet(&["devices", "--json"]));
    let mut with_driver = workdir.command(&["devices", "--json"]);
    let ran = Ran::from(with_driver.env("TRIJET_LIBCUDA", empty()).output().unwrap());
    reader.document("devices", &ran);
    let doctor = ["doctor", "--device", "host", "--json", "--check"];
    reader.document("doctor", &workdir.trijet(&doctor));
    let text = "Action,Pointer,Size,Stream,Device\nallocate,1,4096,0,0\nfree,1,,0,0\nallocate,2,4096,0,1\n";
    workdir.file("a.csv", text.as_bytes());
    let replay = ["replay", "a.csv", "--device", "host", "--json", "--check", "--limit", "20MiB"];
    reader.document("replay", &workdir.trijet(&replay));
    reader.document("trace", &workdir.trijet(&["trace", "--json", "--", "true"]));
    reader.document("bench", &workdir.trijet(&["bench", "--json"]));
    reader.document("bench NAME", crate::bench::calls());
    for name in ["gemm", "training"] {
        let bench = ["bench", name, "--device", "host", "--json"];
        reader.document("bench NAME", &workdir.trijet(&bench));
    }
    let bench = ["bench", "gemm", "--device", "host", "--json", "--check"];
    reader.document("bench NAME", &workdir.trijet(&bench));
    workdir.file("run.trijet", &crate::trace::training());
    workdir.file("ranks.trijet", &ranks());
    reader.document("trace", &workdir.trijet(&["trace", "--read", "ranks.trijet", "--json"]));
    for whole in [&[][..], &["--whole"]] {
        let read = ["trace", "--read", "run.trijet", "--json"];
        reader.document("trace", &workdir.trijet(&[&read[..], whole].concat()));
    }
}

#[test]
fn every_field_of_every_document_is_in_docs_json_md_and_is_printed() {
    let workdir = Workdir::new();
    stack(&workdir);
    let mut reader = Reader { tables: tables(), seen: BTreeSet::new(), wrong: BTreeSet::new() };
    maps(&mut reader, &workdir);
    overlaps(&mut reader, &workdir);
    others(&mut reader, &workdir);
    for (section, fields) in &reader.tables {
        for (name, field) in fields {
            let is_seen = reader.seen.contains(&(section.clone(), name.clone()));
            if name != "all of" && !field.is_elsewhere && !is_seen {
                reader.wrong.insert(format!("`{name}` of {section} is never printed"));
            }
            if field.is_elsewhere && is_seen {
                reader.wrong.insert(format!("`{name}` of {section} is printed without a GPU"));
            }
        }
    }
    let wrong: Vec<&String> = reader.wrong.iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.iter().map(|w| format!("{w}\n")).collect::<String>());
}

#[test]
fn the_document_of_a_trace_has_the_figures_of_its_text() {
    let workdir = Workdir::new();
    workdir.file("run.trijet", &crate::trace::training());
    workdir.file("ranks.trijet", &ranks());
    let read = |name: &str| -> Value {
        serde_json::from_str(&workdir.trijet(&["trace", "--read", name, "--json"]).done()).unwrap()
    };
    let run = read("run.trijet");
    let device = &run["processes"][0]["devices"][0];
    assert_eq!((&device["figures_of"], &device["steps"]["count"]), (&"steps".into(), &100.into()));
    assert_eq!(device["steps"]["time_per_step"]["median_ns"], 4_100_000);
    assert_eq!((&device["limiting"], &device["lower_bound_ns"]), (&().into(), &300_000_000.into()));
    let lost = &device["lost"][0];
    assert_eq!(
        (&lost["cause"], &lost["time_ns"]),
        (&"idle_outside_of_cuda".into(), &99_000_000.into())
    );
    let shown = workdir.trijet(&["trace", "--read", "run.trijet"]).done();
    let findings = device["findings"].as_array().unwrap();
    assert!(findings.len() >= 2 && run["races"].is_string(), "{run:#}");
    for finding in findings {
        let line = shown.lines().find(|line| line.contains(finding["key"].as_str().unwrap()));
        let cost = Nanos(finding["cost_ns"].as_u64().unwrap()).to_string();
        assert!(line.is_some_and(|line| line.contains(&cost)), "{finding}\n{shown}");
    }
    let ranks = read("ranks.trijet");
    let found = &ranks["processes"][0]["contradicting_records"][0];
    assert_eq!((&found["key"], &found["count"]), (&"end".into(), &1.into()), "{ranks:#}");
    let rank = &ranks["jobs"][0]["ranks"][1];
    assert_eq!((&rank["rank"], &rank["awaited_ns"]), (&1.into(), &2_000_000.into()), "{ranks:#}");
    assert_eq!(ranks["jobs"][0]["by_name"][0]["exposed_ns"], 3_000_000);
}
