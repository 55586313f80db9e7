//! docs/json.md is the definition of every document of `--json`: the printed document has the
//! fields of its tables, and each field of the tables is printed.

use crate::ran::Ran;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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
pub(crate) struct Reader {
    tables: Tables,
    seen: BTreeSet<(String, String)>,
    wrong: BTreeSet<String>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { tables: tables(), seen: BTreeSet::new(), wrong: BTreeSet::new() }
    }

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
    pub(crate) fn document(&mut self, section: &str, ran: &Ran) {
        let text = ran.out.as_str();
        let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let first = text.lines().skip(1).take(2).map(str::trim).collect::<Vec<_>>();
        let command = section.split(' ').next().expect("a word");
        assert_eq!(first, ["\"version\": 1,".to_owned(), format!("\"command\": \"{command}\",")]);
        self.object(&value, section, section);
    }

    /// Asserts that all documents fit their tables, and that every field of the sections that
    /// `is_ours` selects was printed.
    #[track_caller]
    pub(crate) fn demand_all(mut self, is_ours: impl Fn(&str) -> bool) {
        for (section, fields) in self.tables.iter().filter(|(section, _)| is_ours(section)) {
            for (name, field) in fields {
                let is_seen = self.seen.contains(&(section.clone(), name.clone()));
                if name != "all of" && !field.is_elsewhere && !is_seen {
                    self.wrong.insert(format!("`{name}` of {section} is never printed"));
                }
                if field.is_elsewhere && is_seen {
                    self.wrong.insert(format!("`{name}` of {section} is printed without a GPU"));
                }
            }
        }
        let wrong: String = self.wrong.iter().map(|wrong| format!("{wrong}\n")).collect();
        assert!(wrong.is_empty(), "{wrong}");
    }
}

/// Whether a section describes documents of the benchmarks, which are a program of their own.
pub(crate) fn is_of_benchmarks(section: &str) -> bool {
    ["bench", "bench NAME", "benchmark", "row"].contains(&section)
}
