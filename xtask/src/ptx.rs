//! `ptx` and `ptx --check`: generate or check the PTX of every kernel source. The programs of
//! `trijet-programs` are compiled when they run, and are checked in the same way.
//!
//! The PTX depends only on the source and the pinned compiler. The first line of the PTX contains
//! the hash of the source, so that a stale file is found without the compiler. The check assembles
//! the PTX for its architectures. This proves that the PTX uses nothing newer than its `.target`,
//! and shows spills. The PTX is also checked by the lint of the library.
#![forbid(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::nvrtc::Nvrtc;
use crate::patches;
use crate::tools::{self, Result};
use trijet::kernels::{PtxRule, lint};
use trijet::workers::queens::QUEENS;

/// The compiler options in addition to the architecture: no fused multiply-add, so that arithmetic
/// is exact.
const OPTIONS: [&CStr; 2] = [c"--std=c++17", c"--fmad=false"];

/// The type that `trijet map` defines for the elements of an array of u16.
const ELEMENTS: &CStr = c"--define-macro=TRIJET_T=unsigned short";

/// The version line that the PTX must have. Drivers of version 525 and later accept it.
const VERSION: &str = ".version 8.0";

/// The architecture for which a source is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The oldest supported architecture: Ampere.
    Oldest,
    /// Hopper and later architectures, for clusters, bulk copies and dependent launches. A source
    /// requests this target by a line `// target: sm_90`.
    Hopper,
    /// Hopper only, for the matrix multiplication by warpgroups, which no other architecture has. A
    /// source requests this target by a line `// target: sm_90a`.
    HopperAlone,
}

impl Target {
    /// The target that a source requests.
    fn of(name: &str, source: &str) -> Result<Self> {
        match source.lines().find_map(|line| line.strip_prefix("// target: ")) {
            None => Ok(Self::Oldest),
            Some("sm_90") => Ok(Self::Hopper),
            Some("sm_90a") => Ok(Self::HopperAlone),
            Some(other) => {
                Err(format!("{name}: unknown target in `// target: {other}`; use sm_90 or sm_90a")
                    .into())
            }
        }
    }

    fn option(self) -> &'static CStr {
        match self {
            Self::Oldest => c"--gpu-architecture=compute_80",
            Self::Hopper => c"--gpu-architecture=compute_90",
            Self::HopperAlone => c"--gpu-architecture=compute_90a",
        }
    }

    /// The `.target` line that the PTX must have.
    fn line(self) -> &'static str {
        match self {
            Self::Oldest => ".target sm_80",
            Self::Hopper => ".target sm_90",
            Self::HopperAlone => ".target sm_90a",
        }
    }

    /// The architectures of Ampere, Hopper and Blackwell for which the PTX is assembled.
    fn architectures(self) -> &'static [&'static str] {
        match self {
            Self::Oldest => &["sm_80", "sm_90a", "sm_100a"],
            Self::Hopper => &["sm_90", "sm_90a", "sm_100a"],
            Self::HopperAlone => &["sm_90a"],
        }
    }
}

/// Whether a finding of `rule` in the file `name` is not a mistake, because barriers order the
/// accesses. In the matrix product, one warp loads and waits, and the other warps follow its loads.
fn is_ordered(name: &str, rule: PtxRule) -> bool {
    name == "gemm.ptx" && [PtxRule::EarlyUse, PtxRule::SkippedWait].contains(&rule)
}

/// Writes a `.ptx` beside every `.cu`.
pub(crate) fn generate() -> Result<()> {
    let nvrtc = Nvrtc::open(&tools::nvrtc_folder()?)?;
    for source in sources()? {
        if let Some(ptx) = &source.ptx {
            fs::write(ptx, compiled(&nvrtc, &source)?)?;
            println!("wrote {}", file_name(ptx));
        }
    }
    patches::generate(&nvrtc)
}

/// Compares every `.ptx` with a newly generated text, assembles it and lints it. Prints every
/// mistake.
pub(crate) fn check() -> Result<()> {
    let nvrtc = Nvrtc::open(&tools::nvrtc_folder()?)?;
    let ptxas = tools::ptxas()?;
    let mut mistakes = 0_usize;
    let mut report_mistake = |message: String| {
        eprintln!("error: {message}");
        mistakes += 1;
    };
    for source in sources()? {
        let fresh = compiled(&nvrtc, &source)?;
        let target = match &source.ptx {
            Some(ptx) => ptx.clone(),
            None => temporary(&source.name, &fresh)?,
        };
        let name = file_name(&target);
        if fs::read_to_string(&target).ok().as_deref() != Some(&fresh) {
            report_mistake(format!("{name} is out of date; run `cargo xtask ptx`"));
            continue;
        }
        // The lint also reports remarks. In a kernel of the library, a remark counts as a mistake.
        for found in lint(&fresh).into_iter().filter(|found| !is_ordered(&name, found.rule)) {
            report_mistake(format!("{name}: {found}"));
        }
        let target_of = Target::of(&name, &source.text)?;
        for architecture in target_of.architectures() {
            for entry in assemble(&ptxas, &target, architecture)? {
                println!("{architecture:8} {:16} {}", entry.name, entry.usage);
                if entry.spills && !source.may_spill {
                    report_mistake(format!("{name}: {} spills on {architecture}", entry.name));
                }
            }
        }
    }
    if !patches::is_new(&nvrtc)? {
        report_mistake("accesses.fatbin is out of date; run `cargo xtask ptx`".to_owned());
    }
    // `trijet map --kernel-template` prints the templates, and examples have sources of their own.
    // All these sources are compiled like the kernels of the library.
    let templates = files_of(&tools::root().join("crates/trijet-cli/src/cmd/template"))?;
    let examples = files_of(&tools::root().join("crates/trijet/examples/vision_pipeline"))?;
    for source in templates.into_iter().chain(examples) {
        let (name, text) = (file_name(&source), fs::read_to_string(&source)?);
        let options = [Target::Oldest.option(), OPTIONS[0], ELEMENTS];
        if let Err(error) = nvrtc.compile(&name, &text, &options) {
            report_mistake(format!("{name}: {error}"));
        }
    }
    if mistakes == 0 { Ok(()) } else { Err(format!("ptx --check: {mistakes} mistakes").into()) }
}

/// Writes PTX to a temporary file.
fn temporary(source: &str, ptx: &str) -> Result<PathBuf> {
    let path = tools::scratch()?.join(source).with_extension("ptx");
    fs::write(&path, ptx)?;
    Ok(path)
}

/// The source of a PTX text.
struct Source {
    name: String,
    text: String,
    /// The file of the PTX, if it is a part of the repository.
    ptx: Option<PathBuf>,
    /// Whether the kernels may have a stack frame. Arrays that are indexed by a variable are in
    /// local memory.
    may_spill: bool,
}

/// The sources of the kernels, and the sources of the programs for workers, which the library
/// assembles. The sources are sorted by the path of the PTX, then by the name.
fn sources() -> Result<Vec<Source>> {
    let crates = tools::root().join("crates");
    let library = crates.join("trijet/src");
    let mut found = Vec::new();
    for parent in [library.join("kernels"), crates.join("trijet-ops/src")] {
        for folder in fs::read_dir(&parent)? {
            let folder = folder?.path();
            if !folder.is_dir() {
                continue;
            }
            for file in files_of(&folder)? {
                let (name, text) = (file_name(&file), with_shared(&parent, &file)?);
                let ptx = Some(file.with_extension("ptx"));
                found.push(Source { name, text, ptx, may_spill: false });
            }
        }
    }
    let program = |name: &str, text, ptx| {
        let name = format!("{name}.cu");
        Source { name, text, ptx, may_spill: true }
    };
    let ptx = library.join("workers/queens/queens.ptx");
    found.push(program(QUEENS.name(), QUEENS.source(), Some(ptx)));
    let others = trijet_programs::sources().into_iter();
    found.extend(others.map(|(name, text)| program(name, text, None)));
    found.sort_by(|a, b| (&a.ptx, &a.name).cmp(&(&b.ptx, &b.name)));
    Ok(found)
}

/// The text of a source. A line `#include "<name>.cuh"` is replaced by the file `<name>.cuh` in
/// `folder`, which has the code that several sources share.
fn with_shared(folder: &Path, file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)?;
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(name) => lines.push(fs::read_to_string(folder.join(name))?.trim_end().to_owned()),
            None => lines.push(line.to_owned()),
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// The `.cu` files in a folder, sorted by their paths.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension() == Some(OsStr::new("cu")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The file name, for messages.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The first line of the PTX of a source.
fn hash_line(source: &[u8]) -> String {
    // FNV-1a, 64 bits: it detects stale files, not forgeries.
    let hash = source.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("// source fnv1a64 {hash:016x}\n")
}

fn compiled(nvrtc: &Nvrtc, source: &Source) -> Result<String> {
    let Source { name, text, .. } = source;
    let target = Target::of(name, text)?;
    let ptx = nvrtc.compile(name, text, &[&[target.option()], &OPTIONS[..]].concat())?;
    for required in [VERSION, target.line()] {
        if !ptx.lines().any(|line| line == required) {
            return Err(format!("{name}: the PTX has no line `{required}`").into());
        }
    }
    Ok(format!("{}{}\n", hash_line(text.as_bytes()), ptx.trim_end()))
}

/// The assembler's report about one entry.
#[derive(Debug, PartialEq, Eq)]
struct Assembled {
    name: String,
    usage: String,
    spills: bool,
}

fn assemble(ptxas: &Path, ptx: &Path, architecture: &str) -> Result<Vec<Assembled>> {
    let cubin = tools::scratch()?.join("check.cubin");
    let output = Command::new(ptxas)
        .args(["--verbose", "--gpu-name", architecture, "--output-file"])
        .arg(cubin)
        .arg(ptx)
        .output()
        .map_err(|error| format!("{}: {error}", ptxas.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: ptxas for {architecture}:\n{text}", file_name(ptx)).into());
    }
    Ok(report(&text))
}

/// Reads the verbose output of the assembler. Each entry has three lines: the name, the spills, and
/// the registers and the shared memory.
fn report(output: &str) -> Vec<Assembled> {
    let mut entries: Vec<Assembled> = Vec::new();
    for line in output.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            entries.push(Assembled { name, usage: String::new(), spills: true });
        } else if let Some(entry) = entries.last_mut() {
            if line.contains("spill stores") {
                entry.spills = !line.contains("0 bytes stack frame, 0 bytes spill stores");
            } else if let Some((_, usage)) = line.split_once("Used ") {
                let spills = if entry.spills { "spills" } else { "no spills" };
                usage.clone_into(&mut entry.usage);
                entry.usage.push_str(", ");
                entry.usage.push_str(spills);
            }
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

#[cfg(test)]
mod tests {
    use super::{Target, file_name, hash_line, is_ordered, report, sources, with_shared};
    use crate::tools;
    use std::ffi::OsStr;
    use std::fs;
    use std::path::{Path, PathBuf};
    use trijet::kernels::lint;

    /// Adds to `found` every PTX file in a folder and its subfolders.
    fn add_ptx(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add_ptx(&path, found);
            } else if path.extension() == Some(OsStr::new("ptx")) {
                found.push(path);
            }
        }
    }

    #[test]
    fn no_ptx_of_the_repository_has_a_finding() {
        let mut files = Vec::new();
        add_ptx(&tools::root().join("crates"), &mut files);
        assert!(files.iter().any(|file| file.ends_with("bare/dependent.ptx")), "{files:?}");
        for file in files {
            let mut found = lint(&fs::read_to_string(&file).unwrap());
            found.retain(|one| !is_ordered(&file_name(&file), one.rule));
            assert_eq!(found, [], "{}", file.display());
        }
    }

    #[test]
    fn the_text_of_a_shared_file_takes_the_place_of_its_line() {
        let folder = tools::scratch().unwrap().join("with-shared");
        fs::create_dir_all(&folder).unwrap();
        let file = |name| folder.join(name);
        fs::write(file("all.cuh"), "int shared;\n\n").unwrap();
        fs::write(file("k.cu"), "// k\n#include \"all.cuh\"\nint own;\n").unwrap();
        let text = with_shared(&folder, &file("k.cu")).unwrap();
        assert_eq!(text, "// k\nint shared;\nint own;\n");
        // Sources without such lines keep their text.
        fs::write(file("one.cu"), "// one\n\nint own;\n").unwrap();
        assert_eq!(with_shared(&folder, &file("one.cu")).unwrap(), "// one\n\nint own;\n");
        assert!(with_shared(&file("none"), &file("k.cu")).is_err());
    }

    #[test]
    fn the_hash_is_fnv1a() {
        // Test vectors of the FNV reference.
        assert_eq!(hash_line(b""), "// source fnv1a64 cbf29ce484222325\n");
        assert_eq!(hash_line(b"foobar"), "// source fnv1a64 85944171f73967e8\n");
    }

    #[test]
    fn every_ptx_names_the_hash_of_its_source() {
        let sources = sources().unwrap();
        assert!(!sources.is_empty());
        for (source, ptx) in sources.iter().filter_map(|one| Some((one, one.ptx.as_ref()?))) {
            let ptx = fs::read_to_string(ptx).unwrap();
            let line = hash_line(source.text.as_bytes());
            assert!(ptx.starts_with(&line), "{}: run `cargo xtask ptx`", source.name);
        }
    }

    #[test]
    fn a_source_names_its_target_or_gets_the_oldest() {
        let of = |source| Target::of("k.cu", source);
        assert_eq!(of("// k\n\nextern").unwrap(), Target::Oldest);
        assert_eq!(of("// k\n// target: sm_90\n").unwrap(), Target::Hopper);
        assert_eq!(of("// target: sm_90a\n").unwrap(), Target::HopperAlone);
        let error = of("// target: sm_70\n").unwrap_err().to_string();
        assert_eq!(error, "k.cu: unknown target in `// target: sm_70`; use sm_90 or sm_90a");
        // The PTX in the repository was made for the target of its source.
        for source in sources().unwrap() {
            let target = Target::of("", &source.text).unwrap();
            let Some(ptx) = &source.ptx else { continue };
            let ptx = fs::read_to_string(ptx).unwrap();
            assert!(ptx.lines().any(|line| line == target.line()), "{}", source.name);
        }
    }

    #[test]
    fn spills_and_usage_are_read_from_the_assembler() {
        let output = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for b
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
";
        let seen: Vec<_> =
            report(output).into_iter().map(|e| (e.name, e.usage, e.spills)).collect();
        let expected = [
            ("a", "12 registers, used 0 barriers, no spills", false),
            ("b", "64 registers, used 1 barriers, spills", true),
        ];
        assert_eq!(seen, expected.map(|(n, u, s)| (n.to_owned(), u.to_owned(), s)));
    }
}
