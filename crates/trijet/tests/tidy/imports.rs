//! Floors: a module imports only strictly lower floors or its own folder.
//!
//! Paths are found as `crate::`, `super::` and `self::` in the code, `use` groups included, and
//! resolved against the file's own module path, so that `super::super::device` counts as `device`.

use crate::paths::{branches, module_path};
use crate::source::{line_of, mask, modules, occurrences, skip_space};
use crate::{File, Finding, demand_none, files, lines};

/// Each folder of the library and its floor. Two folders of one floor never import each other.
const FLOORS: &[(&str, u8)] = &[
    ("base", 0),
    ("laws", 0),
    ("trace", 1),
    ("check", 1),
    ("device", 2),
    ("profile", 2),
    ("log", 3),
    ("heap", 3),
    ("ranks", 3),
    ("order", 4),
    ("stream", 5),
    ("memory", 6),
    ("launch", 7),
    ("kernels", 8),
    ("graph", 8),
    ("pipeline", 9),
    ("task", 9),
    ("comm", 9),
    ("workers", 8),
    ("staged", 10),
    ("training", 10),
    ("explore", 10),
    // They only name items of the floors below.
    ("probe", 11),
    ("sim", 11),
    ("testing", 11),
];

/// Pairs of folders inside one module that never import each other.
const STRANGERS: &[(&str, &str, &str)] = &[("device", "cuda", "host")];

/// Modules that only these folders import.
const RESERVED: &[(&[&str], &[&str])] = &[
    // The ordering, the host device and the tests derive the order independently, so a mistake in
    // one shows against the others.
    (&["base", "edges"], &["base", "trace", "check"]),
];

fn floor(folder: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == folder).map(|&(_, floor)| floor)
}

/// Every path of the code that can leave its module, as offset and absolute module path.
fn absolute_paths<'a>(code: &'a str, below: &'a str) -> Vec<(usize, Vec<&'a str>)> {
    let inline = modules(code);
    let mut found = Vec::new();
    for keyword in ["crate", "super", "self"] {
        for at in occurrences(code, keyword) {
            let continued = code[..at].trim_end().ends_with("::");
            let after = skip_space(code, at + keyword.len());
            if continued || !code[after..].starts_with("::") {
                continue;
            }
            let mut base = Vec::new();
            if keyword != "crate" {
                base = module_path(below);
                base.extend(inline.iter().filter_map(|module| {
                    let (open, close) = module.body?;
                    (open < at && at < close).then_some(module.name)
                }));
            }
            for branch in branches(code, at) {
                let mut path = base.clone();
                for name in branch.names {
                    match name {
                        "crate" => path.clear(),
                        "self" => {}
                        "super" => drop(path.pop()),
                        other => path.push(other),
                    }
                }
                found.push((at, path));
            }
        }
    }
    found.sort();
    found
}

/// The reason why the module at `from` may not name `to`, if there is a reason.
fn objection(from: &[&str], to: &[&str]) -> Option<String> {
    let (Some(&home), Some(&target)) = (from.first(), to.first()) else { return None };
    if home == target {
        let (Some(&room), Some(&other)) = (from.get(1), to.get(1)) else { return None };
        let strangers = STRANGERS.iter().any(|&(folder, a, b)| {
            folder == home && ((room, other) == (a, b) || (room, other) == (b, a))
        });
        return strangers.then(|| format!("`{home}::{room}` imports `{home}::{other}`"));
    }
    if RESERVED.iter().any(|(module, by)| to.starts_with(module) && !by.contains(&home)) {
        return Some(format!("`{home}` imports `{}`, and must not know it", to.join("::")));
    }
    let home_floor = floor(home)?;
    match floor(target) {
        None => Some(format!("`crate::{target}` is no floor; name the folder that owns the item")),
        Some(floor) if floor < home_floor => None,
        Some(floor) => {
            Some(format!("`{home}` (floor {home_floor}) imports `{target}` (floor {floor})"))
        }
    }
}

fn imports(file: &File) -> Vec<Finding> {
    let Some(below) = file.in_library() else { return Vec::new() };
    let from = module_path(below);
    let Some(&folder) = from.first() else { return Vec::new() };
    if floor(folder).is_none() {
        return vec![file.finding(1, format!("`{folder}` is on no floor: add it to FLOORS"))];
    }
    let code = mask(&file.text);
    absolute_paths(&code, below)
        .into_iter()
        .filter_map(|(at, to)| Some(file.finding(line_of(&code, at), objection(&from, &to)?)))
        .collect()
}

/// Lines of documentation that list imports. The code shows them, and readers of rustdoc do not know
/// the modules.
fn documented_imports(file: &File) -> Vec<Finding> {
    let text = |line: &str| {
        let line = line.trim_start();
        Some(line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?.trim_start().to_owned())
    };
    let is_list = |text: &str| text.starts_with("Imports: ") || text.starts_with("Imported by: ");
    let lines = file.text.lines().zip(1..).filter(|_| file.is_rust());
    let found = lines.filter(|(line, _)| text(line).is_some_and(|text| is_list(&text)));
    found.map(|(_, n)| file.finding(n, "the code has the imports")).collect()
}

#[test]
fn no_documentation_lists_imports() {
    let findings: Vec<Finding> = files().iter().flat_map(documented_imports).collect();
    demand_none("no documentation lists imports", &findings);
}

#[test]
fn a_list_of_imports_in_documentation_is_found() {
    let text = "//! A module.\n//!\n//! Imports: `base`.\n// Imports: what is public.\n\
                \x20   /// Imported by: `check`.\nlet imports = \"Imports: \";\n";
    let bad = File::new("crates/trijet-ledger/src/check/lint.rs", text);
    assert_eq!(lines(&documented_imports(&bad)), [3, 5]);
}

/// The table of the floors in CONTRIBUTING.md, the upper floors first.
fn floor_table() -> String {
    let mut floors: Vec<u8> = FLOORS.iter().map(|&(_, floor)| floor).collect();
    floors.sort_unstable_by(|one, other| other.cmp(one));
    floors.dedup();
    let mut table = String::from("| floor | folders |\n|---|---|\n");
    for floor in floors {
        let on_it = FLOORS.iter().filter(|(_, its)| *its == floor);
        let names: Vec<String> = on_it.map(|(name, _)| format!("`{name}`")).collect();
        table += &format!("| {floor} | {} |\n", names.join(" "));
    }
    table
}

#[test]
fn contributing_has_the_table_of_the_floors() {
    let table = floor_table();
    let page =
        files().into_iter().find(|file| file.path == "CONTRIBUTING.md").expect("it is there");
    assert!(page.text.contains(&table), "write this table into CONTRIBUTING.md:\n{table}");
}

#[test]
fn each_folder_of_a_floor_exists() {
    let all = files();
    let is_there = |name: &str| {
        let (folder, module) = (format!("{name}/"), format!("{name}.rs"));
        let mut below = all.iter().filter_map(File::in_library);
        below.any(|path| path.starts_with(&folder) || path == module)
    };
    let missing: Vec<_> = FLOORS.iter().filter(|(name, _)| !is_there(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_import_goes_to_a_lower_floor() {
    let findings: Vec<Finding> = files().iter().flat_map(imports).collect();
    demand_none("imports go to strictly lower floors or stay in their folder", &findings);
}

#[test]
fn an_import_of_an_upper_floor_or_a_sibling_is_found() {
    let text = "use crate::base::Error;\nuse crate::stream::Lane;\nuse crate::{\n    base::Id,\n    \
                check::{Rule},\n};\nfn f() -> crate::trace::Lane { super::super::memory::x() }\n\
                // crate::task\nmod tests {\n    use super::super::super::graph;\n}\n";
    let bad = File::new("crates/trijet-ledger/src/trace/metrics.rs", text);
    assert_eq!(lines(&imports(&bad)), [2, 3, 7, 10]);
}

#[test]
fn an_import_through_the_crate_root_or_of_an_unknown_folder_is_found() {
    let bad = File::new(
        "crates/trijet-ledger/src/trace/mod.rs",
        "use crate::Error;\nuse super::util::x;",
    );
    assert_eq!(lines(&imports(&bad)), [1, 2]);
    let unknown = File::new("crates/trijet/src/util/mod.rs", "");
    assert_eq!(lines(&imports(&unknown)), [1]);
}

#[test]
fn the_two_devices_never_import_each_other() {
    let text = "use crate::device::driver::Driver;\nuse crate::device::host::Engine;\n";
    let bad = File::new("crates/trijet/src/device/cuda/driver.rs", text);
    assert_eq!(lines(&imports(&bad)), [2]);
    let bad = File::new("crates/trijet/src/device/host/mod.rs", "use super::cuda::api;\n");
    assert_eq!(lines(&imports(&bad)), [1]);
    let good = File::new("crates/trijet/src/device/probe.rs", "use super::{cuda::A, host::B};\n");
    assert_eq!(lines(&imports(&good)), [0; 0]);
}

#[test]
fn the_ordering_and_the_host_device_derive_the_order_by_themselves() {
    let text = "use crate::base::edges::Role;\nuse crate::base::{dag::Dag, edges};\n\
                fn f() { crate::base::edges::may_wait() }\n";
    for home in ["order/lane.rs", "device/host/engine.rs"] {
        let bad = File::new(&format!("crates/trijet/src/{home}"), text);
        assert_eq!(lines(&imports(&bad)), [1, 2, 3], "{home}");
    }
    let good = File::new("crates/trijet-ledger/src/check/order.rs", text);
    assert_eq!(lines(&imports(&good)), [0; 0]);
}

#[test]
fn paths_inside_the_folder_and_downwards_pass() {
    let text = "use super::lane::Lane;\nuse self::inner::X;\nuse crate::stream::event::Event;\n\
                use crate::{base::{clock::Clock, Error}, device};\npub(in crate::stream) fn f() {}\n\
                mod tests {\n    use super::*;\n    use super::super::event;\n}\n";
    let good = File::new("crates/trijet/src/stream/stream.rs", text);
    assert_eq!(lines(&imports(&good)), [0; 0]);
}
