//! Sizes, and files that nothing compiles.

use std::collections::BTreeSet;

use crate::source::{
    closing_brace, ident_at, line_of, mask, modules, occurrences, production_end, skip_space,
};
use crate::{File, Finding, demand_none, files, lines};

/// The limit for the lines of a file outside tests (style, rule 1).
const FILE_LINES_MAX: usize = 600;
/// The limit for the lines of code in a function's body, counted as clippy's `too_many_lines`
/// counts them: blank lines and comments are free. `clippy.toml` has the same number.
const FUNCTION_LINES_MAX: usize = 70;

fn long_file(file: &File) -> Option<Finding> {
    if !file.is_rust() || file.is_test() {
        return None;
    }
    let code = mask(&file.text);
    let count = file.text[..production_end(&code)].lines().count();
    (count > FILE_LINES_MAX).then(|| {
        file.finding(FILE_LINES_MAX + 1, format!("{count} lines outside tests: split the file"))
    })
}

/// The offset of the `{` that opens the body of the function at `at`, unless it is a declaration.
fn body_open(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (n, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(n),
            b';' if depth == 0 => return None,
            _ if depth < 0 => return None,
            _ => {}
        }
    }
    None
}

fn long_functions(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let code = mask(&file.text);
    let mut findings = Vec::new();
    for at in occurrences(&code, "fn") {
        let start = skip_space(&code, at + "fn".len());
        let name = ident_at(&code, start);
        if name.is_empty() {
            continue;
        }
        let Some(open) = body_open(&code, start) else { continue };
        let body = &code[open + 1..closing_brace(&code, open)];
        let count = body.lines().filter(|line| !line.trim().is_empty()).count();
        if count > FUNCTION_LINES_MAX {
            let message = format!("`{name}` has {count} lines of code: split it");
            findings.push(file.finding(line_of(&code, at), message));
        }
    }
    findings
}

/// The folder in which a file's child modules lie: `a/b.rs` keeps them in `a/b/`.
fn children_folder(path: &str, is_root: bool) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if is_root || name == "mod.rs" {
        folder.to_owned()
    } else {
        path.strip_suffix(".rs").unwrap_or(path).to_owned()
    }
}

/// Crate roots that cargo finds without a declaration: `lib.rs`, `main.rs`, `bin/x.rs` and
/// `bin/x/main.rs`.
fn is_root(below: &str) -> bool {
    let parts: Vec<&str> = below.split('/').collect();
    matches!(parts[..], ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
}

/// Files under a `src/` that no chain of `mod` declarations reaches from a crate root.
fn dead_files(files: &[File]) -> Vec<Finding> {
    let sources: Vec<(&File, &str)> = files
        .iter()
        .filter(|file| file.is_rust())
        .filter_map(|file| Some((file, file.path.split_once("src/")?.1)))
        .collect();
    let mut reached = BTreeSet::new();
    let mut open: Vec<(&File, bool)> =
        sources.iter().filter(|(_, below)| is_root(below)).map(|&(file, _)| (file, true)).collect();
    while let Some((file, is_root)) = open.pop() {
        if !reached.insert(file.path.as_str()) {
            continue;
        }
        let code = mask(&file.text);
        let declared = modules(&code);
        for module in declared.iter().filter(|module| module.body.is_none()) {
            let mut folder = children_folder(&file.path, is_root);
            for outer in &declared {
                if outer.body.is_some_and(|(from, to)| from < module.at && module.at < to) {
                    folder = format!("{folder}/{}", outer.name);
                }
            }
            let candidates = [
                format!("{folder}/{}.rs", module.name),
                format!("{folder}/{}/mod.rs", module.name),
            ];
            open.extend(
                sources
                    .iter()
                    .filter(|(source, _)| candidates.contains(&source.path))
                    .map(|&(source, _)| (source, false)),
            );
        }
    }
    sources
        .iter()
        .filter(|(file, _)| !reached.contains(file.path.as_str()))
        .map(|(file, _)| file.finding(1, "no `mod` declaration reaches this file"))
        .collect()
}

#[test]
fn no_file_is_too_long() {
    let findings: Vec<Finding> = files().iter().filter_map(long_file).collect();
    demand_none("a file has one noun", &findings);
}

#[test]
fn no_function_is_too_long() {
    let findings: Vec<Finding> = files().iter().flat_map(long_functions).collect();
    demand_none("a function is read in one look", &findings);
}

#[test]
fn no_file_is_dead() {
    demand_none("every source file is compiled", &dead_files(&files()));
}

#[test]
fn a_long_file_is_found_and_its_test_module_is_not_counted() {
    let tests = format!("\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// t\n".repeat(700));
    let bad = File::new("a/src/lib.rs", &("// x\n".repeat(601) + &tests));
    assert_eq!(long_file(&bad).map(|finding| finding.line), Some(601));
    let good = File::new("a/src/lib.rs", &("// x\n".repeat(599) + &tests));
    assert!(long_file(&good).is_none());
}

#[test]
fn a_long_function_is_found() {
    let function = |count: usize| {
        let body = "    g('{', \"}\"); // }\n".repeat(count);
        format!("type F = fn([u8; 2]);\nfn f(a: [u8; 2])\nwhere\n    A: B,\n{{\n\n{body}}}\n")
    };
    let bad = File::new("a/src/lib.rs", &function(71));
    assert_eq!(lines(&long_functions(&bad)), [2]);
    assert!(long_functions(&File::new("a/src/lib.rs", &function(70))).is_empty());
}

#[test]
fn a_declaration_without_a_body_has_no_length() {
    let text =
        format!("trait T {{\n    fn f(&self) -> [u8; 2];\n{}}}\n", "    type A;\n".repeat(99));
    assert!(long_functions(&File::new("a/src/lib.rs", &text)).is_empty());
}

#[test]
fn a_dead_file_is_found() {
    let tree = [
        File::new("a/src/lib.rs", "mod b;\n// mod e;\nmod inner { mod d; }\n"),
        File::new("a/src/b/mod.rs", "mod c;"),
        File::new("a/src/b/c.rs", "#[cfg(test)]\nmod tests;"),
        File::new("a/src/b/c/tests.rs", ""),
        File::new("a/src/inner/d.rs", ""),
        File::new("a/src/e.rs", ""),
        File::new("a/src/bin/tool.rs", ""),
    ];
    let dead: Vec<String> = dead_files(&tree).into_iter().map(|finding| finding.path).collect();
    assert_eq!(dead, ["a/src/e.rs"]);
}
