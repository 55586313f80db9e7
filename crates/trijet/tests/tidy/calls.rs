//! Calls and attributes that are banned in some places, each with its reason.

use crate::source::{is_word, line_of, mask, occurrences, production_end, skip_space};
use crate::{File, Finding, demand_none, files, lines};

/// Where a ban holds.
enum Scope {
    /// Every Rust file, tests included.
    Everywhere,
    /// Everything outside tests.
    Production,
    /// The library outside tests.
    Library,
    /// The library and its examples outside tests, but for these files.
    LibraryBut(&'static [&'static str]),
    /// The library outside tests, except the files whose path below `src/` starts with one of
    /// these.
    LibraryOutside(&'static [&'static str]),
    /// The files whose paths start with one of these, outside tests.
    Below(&'static [&'static str]),
    /// One folder of the library outside tests, except these file names.
    Folder(&'static str, &'static [&'static str]),
}

struct Ban {
    patterns: &'static [&'static str],
    scope: Scope,
    reason: &'static str,
}

const SLEEP: Ban = Ban {
    patterns: &["thread::sleep", "thread::sleep_ms"],
    scope: Scope::Everywhere,
    reason: "no code sleeps; wait for the event itself",
};
const WALL_CLOCK: Ban = Ban {
    patterns: &["Instant::now", "SystemTime::now"],
    scope: Scope::Folder("device/host/", &["clock.rs"]),
    reason: "the host device runs on a virtual clock",
};
const ENVIRONMENT: Ban = Ban {
    patterns: &["env::var", "env::var_os", "env::vars", "env::vars_os"],
    scope: Scope::LibraryBut(&[
        "crates/trijet/src/device/cuda/library.rs",
        "crates/trijet/src/ranks/launcher.rs",
    ]),
    reason: "the library reads the environment in `device/cuda/library.rs`, and the variables of launchers in `ranks/launcher.rs`",
};
const UNFINISHED: Ban = Ban {
    patterns: &["todo!(", "unimplemented!(", "dbg!("],
    scope: Scope::Production,
    reason: "nothing unfinished on main",
};
const PRINT: Ban = Ban {
    patterns: &["println!(", "eprintln!(", "print!(", "eprint!("],
    scope: Scope::Library,
    reason: "a library does not print; return a report",
};
const ALLOW: Ban = Ban {
    patterns: &["#[allow", "#![allow"],
    scope: Scope::Everywhere,
    reason: "use `#[expect(lint, reason = ..)]`",
};
const SWALLOWED: Ban = Ban {
    patterns: &[".ok();", "unwrap_or_default()"],
    scope: Scope::Library,
    reason: "a failure is returned or recorded, never dropped",
};

const DISPLAY: Ban = Ban {
    patterns: &[".display()"],
    scope: Scope::Below(&[
        "crates/trijet-cli/src/",
        "crates/trijet-io/src/",
        "crates/trijet-tools/src/",
    ]),
    reason: "a terminal obeys control characters of names; use `trijet_io::shown`",
};

const ORDERING: Ban = Ban {
    patterns: &[
        ".event_record(",
        ".event_query(",
        ".event_poll(",
        ".event_synchronize(",
        ".stream_wait(",
        ".stream_query(",
        ".stream_synchronize(",
        "driver.submit(",
        "driver().submit(",
        "driver.synchronize(",
        "driver().synchronize(",
    ],
    scope: Scope::LibraryOutside(&["device/", "order/gate.rs"]),
    reason: "the library orders work through the gate, `order/gate.rs`, alone",
};

/// The end of the part of the file that a ban covers, if it covers any.
fn covered(scope: &Scope, file: &File, code: &str) -> Option<usize> {
    if !file.is_rust() {
        return None;
    }
    let holds = match scope {
        Scope::Everywhere => return Some(code.len()),
        Scope::Production => true,
        Scope::Library => file.in_library().is_some(),
        Scope::LibraryBut(exceptions) => {
            file.path.starts_with("crates/trijet/") && !exceptions.contains(&file.path.as_str())
        }
        Scope::Below(places) => places.iter().any(|place| file.path.starts_with(place)),
        Scope::LibraryOutside(places) => file
            .in_library()
            .is_some_and(|below| !places.iter().any(|place| below.starts_with(place))),
        Scope::Folder(folder, names) => file.in_library().is_some_and(|below| {
            let name = below.rsplit('/').next().unwrap_or(below);
            below.starts_with(folder) && !names.contains(&name)
        }),
    };
    (holds && !file.is_test()).then(|| production_end(code))
}

fn banned(ban: &Ban, file: &File) -> Vec<Finding> {
    let code = mask(&file.text);
    let Some(end) = covered(&ban.scope, file, &code) else { return Vec::new() };
    let mut findings: Vec<Finding> = Vec::new();
    for pattern in ban.patterns {
        for at in occurrences(&code[..end], pattern) {
            let message = format!("`{pattern}`: {}", ban.reason);
            findings.push(file.finding(line_of(&code, at), message));
        }
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// `let _ = f(..)` discards the result of `f`. `let _ = name;` only drops a name.
fn discarded(file: &File) -> Vec<Finding> {
    let code = mask(&file.text);
    let Some(end) = covered(&Scope::Library, file, &code) else { return Vec::new() };
    let mut findings = Vec::new();
    for at in occurrences(&code[..end], "let _ =") {
        let start = skip_space(&code, at + "let _ =".len());
        let statement = code[start..].split(';').next().unwrap_or_default();
        if statement.bytes().next().is_some_and(is_word) && statement.contains('(') {
            let message = "`let _ =` on a call: a failure is returned or recorded, never dropped";
            findings.push(file.finding(line_of(&code, at), message));
        }
    }
    findings
}

fn over_the_tree(ban: &Ban) -> Vec<Finding> {
    files().iter().flat_map(|file| banned(ban, file)).collect()
}

#[test]
fn nothing_sleeps() {
    demand_none("no sleep", &over_the_tree(&SLEEP));
}

#[test]
fn the_host_device_reads_no_wall_clock() {
    demand_none("no wall clock in the host device", &over_the_tree(&WALL_CLOCK));
}

#[test]
fn the_environment_is_read_in_one_place() {
    demand_none("the environment is read in one place", &over_the_tree(&ENVIRONMENT));
}

#[test]
fn every_call_that_orders_work_passes_the_gate() {
    demand_none("every call that orders work passes the gate", &over_the_tree(&ORDERING));
}

#[test]
fn a_call_of_an_ordering_verb_outside_of_the_gate_is_found() {
    for pattern in ORDERING.patterns {
        let text = format!("fn f() {{ self{pattern}) }}").replace("selfdriver", "driver");
        let found = |path: &str| lines(&banned(&ORDERING, &File::new(path, &text)));
        assert_eq!(found("crates/trijet/src/stream/event.rs"), [1], "{pattern}");
        assert!(found("crates/trijet/src/order/gate.rs").is_empty());
        assert!(found("crates/trijet/src/device/host/verbs/driver.rs").is_empty());
    }
}

#[test]
fn names_of_files_are_shown_with_escapes() {
    demand_none("names of files are shown with escapes", &over_the_tree(&DISPLAY));
}

#[test]
fn a_name_that_is_shown_as_it_is_is_found() {
    let text = "fn f() { path.display(); }\n#[cfg(test)]\nmod tests { fn f() { path.display(); } }";
    let found = |path: &str| lines(&banned(&DISPLAY, &File::new(path, text)));
    assert_eq!(found("crates/trijet-io/src/input.rs"), [1]);
    assert!(found("crates/trijet-ledger/src/base/bytes.rs").is_empty());
    assert!(found("crates/trijet-cli/tests/command/map.rs").is_empty());
}

#[test]
fn nothing_is_unfinished() {
    demand_none("nothing unfinished", &over_the_tree(&UNFINISHED));
}

#[test]
fn the_library_does_not_print() {
    demand_none("the library does not print", &over_the_tree(&PRINT));
}

#[test]
fn no_lint_is_allowed() {
    demand_none("no lint is allowed", &over_the_tree(&ALLOW));
}

#[test]
fn no_failure_is_swallowed() {
    demand_none("no failure is swallowed", &over_the_tree(&SWALLOWED));
    let findings: Vec<Finding> = files().iter().flat_map(discarded).collect();
    demand_none("no result is discarded", &findings);
}

#[test]
fn each_ban_finds_its_sample() {
    let library = "crates/trijet/src/device/host/engine.rs";
    for ban in [&SLEEP, &WALL_CLOCK, &ENVIRONMENT, &UNFINISHED, &PRINT, &ALLOW, &SWALLOWED] {
        for pattern in ban.patterns {
            let text =
                format!("fn a() {{}}\n// {pattern}\nfn f() {{ std::{pattern} }}\n\"{pattern}\"");
            let found = banned(ban, &File::new(library, &text));
            assert_eq!(lines(&found), [3], "{pattern}");
        }
    }
}

#[test]
fn a_ban_ends_where_its_scope_ends() {
    let test = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { println!(); }\n}\n";
    assert!(banned(&PRINT, &File::new("crates/trijet-ledger/src/base/id.rs", test)).is_empty());
    let print = "fn main() { println!(); }";
    assert!(banned(&PRINT, &File::new("crates/trijet-cli/src/main.rs", print)).is_empty());
    let clock = "fn f() { Instant::now(); }";
    assert!(
        banned(&WALL_CLOCK, &File::new("crates/trijet/src/device/host/run/clock.rs", clock))
            .is_empty()
    );
    assert!(
        banned(&WALL_CLOCK, &File::new("crates/trijet-ledger/src/trace/mod.rs", clock)).is_empty()
    );
    let variable = "fn f() { std::env::var(name); }";
    for path in [
        "crates/trijet/src/device/cuda/library.rs",
        "xtask/src/main.rs",
        "crates/trijet/tests/gpu.rs",
    ] {
        assert!(banned(&ENVIRONMENT, &File::new(path, variable)).is_empty(), "{path}");
    }
    assert_eq!(
        lines(&banned(&SLEEP, &File::new("crates/trijet/tests/a.rs", "thread::sleep(d)"))),
        [1]
    );
}

#[test]
fn a_discarded_result_is_found() {
    let text = "let _ = f();\nlet _ = name;\nlet _ = self.lane\n    .close(x);\nlet _guard = f();\n\
                let _ = write!(out, x);\n";
    let bad = File::new("crates/trijet/src/stream/lane.rs", text);
    assert_eq!(lines(&discarded(&bad)), [1, 3, 6]);
}
