//! Tests of the benchmark with small files, and with shell commands as programs.

use super::definition::{Case, End, Op, Output, Size, Variant};
use super::*;
use crate::definition::parse;
use std::fs;
use trijet::{Device, Select};
use trijet_tools::progress::Step;

/// A command that copies the input as it should. It overwrites an existing output only with
/// `--over`.
const OURS: &str = r#"test ! -e "$1" || test "$2" = --over || exit 9; cp "$0" "$1"
echo '{"cold_setup_ns": 1e8, "wall_ns": 4e8}'"#;

/// A peer with a script. The arguments of the script are the input and the output.
fn peer(name: &str, script: &str) -> String {
    format!(
        "[[peers]]\nname = '{name}'\nprobe = ['true']\nlimit_s = 60\n\
         command = ['sh', '-c', '''{script}''', '{{in}}', '{{out}}']\n"
    )
}

/// A small benchmark in its own folder. The affine map with scale 1 and offset 0 changes nothing,
/// so `cp` computes it.
struct Small {
    folder: TempDir,
    definition: Definition,
}

impl Small {
    fn new(peers: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "piece_bytes = 1000\nthreads = [1, 2]\nplain_kept = 1\nslow_every = 2\nlimit_s = 60\n\
             command = ['sh', '-c', '''{OURS}''', '{{in}}', '{{out}}']\n\
             variants = [{{ name = 'trijet map', options = [], end = 'written' }}]\n\
             over_existing = ['--over']\n\
             [[jobs]]\nop = {{ affine = {{ scale = 1.0, offset = 0.0 }} }}\ncases = []\n\
             expected = {{ gpu = '', host = '' }}\n\
             [places]\ntmpfs = ['{0}']\ndisk = ['{0}']\n\
             [sizes]\ngpu = {{ pages = 1, height = 1, width = 1, repeats = 1 }}\n\
             host = {{ pages = 3, height = 20, width = 30, repeats = 3 }}\n{peers}",
            folder.path().display()
        );
        let mut definition: Definition = toml::from_str(&text).expect("a definition");
        let size = definition.sizes.host;
        let stack = Stack { size, piece_bytes: definition.piece_bytes, threads: 1 };
        let digest = stack.expected(definition.jobs[0].op).expect("hashes").digest();
        definition.jobs[0].expected.host = digest;
        Self { folder, definition }
    }

    /// Adds a case with this output. The kind of the case is the kind of this folder's file system.
    fn case(mut self, output: Output) -> Self {
        let folders = [self.folder.path().to_owned()];
        let is_disk = place::find(Kind::Disk, &folders, 1).is_ok();
        let place = if is_disk { Kind::Disk } else { Kind::Tmpfs };
        self.definition.jobs[0].cases.push(Case { place, output });
        self
    }

    fn run(&self) -> Result<Vec<String>> {
        let device = Device::open(Select::Host(0))?;
        let setting = Setting::for_tests(&device);
        let mut show = |_: Step<'_>| ();
        let steps = &mut Steps::new(&mut show);
        let results = measure(&setting, &self.definition, Scale::Host, steps)?.to_string();
        let left = fs::read_dir(self.folder.path()).expect("the folder").count();
        assert_eq!(left, 0, "the benchmark leaves no files");
        Ok(results.lines().map(str::to_owned).collect())
    }

    /// The text of the error that ends the benchmark.
    fn error(&self) -> String {
        self.run().expect_err("the benchmark fails").to_string()
    }
}

/// The rows whose name has `part`.
fn rows<'a>(rows: &'a [String], part: &str) -> Vec<&'a str> {
    rows.iter().map(String::as_str).filter(|row| row.contains(part)).collect()
}

#[test]
fn every_program_has_its_times_beside_the_fastest_threads() -> Result<()> {
    let good = peer("a good peer", "cp \"$0\" \"$1\"; printf 'run\\ts\\t2\\n'");
    let printed = Small::new(&good).case(Output::New).run()?;
    let ours = rows(&printed, "new output: trijet map, run");
    assert!(ours.len() == 1 && ours[0].contains(",s,0.500,0.500,0.500,3,"), "{printed:#?}");
    assert!(ours[0].contains("GB/s in; spread 0.000; 4.00 times as fast as a good peer"));
    assert_eq!(rows(&printed, "new output: trijet map, process").len(), 1, "{printed:#?}");
    // The peer runs in two of three rounds.
    let peer = rows(&printed, "new output: a good peer, run");
    assert!(peer.len() == 1 && peer[0].contains(",s,2.000,2.000,2.000,2,"), "{printed:#?}");
    let mut plain = rows(&printed, "new output: plain threads=");
    plain.retain(|row| !row.contains(", synced, run"));
    assert!(plain.len() == 1 && plain[0].contains(",3,") && plain[0].contains(",1.0000,"));
    let tried = rows(&printed, "plain threads in the warm-up");
    assert!(tried.len() == 1 && tried[0].matches("plain threads=1 ").count() == 3, "{tried:?}");
    Ok(())
}

/// The full benchmark takes minutes, so the rows that it has when it is stopped are kept.
#[test]
fn a_benchmark_that_is_stopped_has_the_rows_of_the_cases_that_had_ended() -> Result<()> {
    let device = Device::open(Select::Host(0))?;
    for (after, cases) in [(1, 0), (2, 0), (6, 1), (9, 1)] {
        let small = Small::new("").case(Output::New).case(Output::Existing);
        let setting = Setting::for_tests(&device);
        let mut show = |step: Step<'_>| {
            if step.number == after {
                setting.cancel.cancel();
            }
        };
        let steps = &mut Steps::new(&mut show);
        let outcome = measure(&setting, &small.definition, Scale::Host, steps);
        let Ok(results) = outcome else {
            assert_eq!((cases, outcome.unwrap_err().kind()), (0, ErrorKind::Cancelled), "{after}");
            continue;
        };
        let printed: Vec<_> = results.to_string().lines().map(str::to_owned).collect();
        assert_eq!(rows(&printed, "trijet map, run").len(), cases, "{after}: {printed:#?}");
        assert!(results.check_whole().is_err_and(|e| e.kind() == ErrorKind::Cancelled));
        assert_eq!(rows(&printed, "stopped,").len(), 1);
    }
    Ok(())
}

#[test]
fn a_peer_that_writes_wrong_bytes_fails_the_benchmark_and_is_named() {
    let wrong = [
        ("head -c 3600 /dev/zero >\"$1\"", "wrong bytes in 0..1000 of the output"),
        ("cp \"$0\" \"$1\"; printf x >>\"$1\"", "the output has 3601 bytes, not 3600"),
        ("true", "os error 2"),
    ];
    for (script, why) in wrong {
        let told = Small::new(&peer("the bad peer", script)).case(Output::New).error();
        assert!(told.contains("the bad peer") && told.contains(why), "{told}");
    }
}

#[test]
fn a_peer_that_leaves_the_bytes_of_an_existing_output_is_found() {
    let lazy = peer("the lazy peer", "test -e \"$1\"");
    let told = Small::new(&lazy).case(Output::Existing).error();
    assert!(told.contains("the lazy peer") && told.contains("wrong bytes in 0..1000"), "{told}");
}

#[test]
fn a_peer_that_cannot_run_here_has_a_row_in_every_case() -> Result<()> {
    let none = peer("no peer", "true").replace("['true']", "['no-such-program']");
    let small = Small::new(&none).case(Output::New).case(Output::Existing);
    let printed = small.run()?;
    let missing = rows(&printed, ": no peer");
    let reason = "not run: `no-such-program` cannot be started";
    assert!(missing.len() == 2 && missing.iter().all(|row| row.contains(reason)), "{printed:#?}");
    Ok(())
}

#[test]
fn the_command_runs_over_existing_pages_with_its_option() -> Result<()> {
    let mut small = Small::new("").case(Output::Existing);
    let printed = small.run()?;
    assert_eq!(rows(&printed, "over existing pages: trijet map, run").len(), 1, "{printed:#?}");
    small.definition.over_existing = vec!["--wrong".to_owned()];
    let told = small.error();
    assert!(told.contains("trijet map") && told.contains("exit status: 9"), "{told}");
    Ok(())
}

#[test]
fn a_place_that_is_not_there_has_a_row() -> Result<()> {
    let mut small = Small::new("").case(Output::New);
    small.definition.places.disk = vec![PathBuf::from("no-such-folder")];
    small.definition.places.tmpfs = Vec::new();
    let printed = small.run()?;
    assert!(rows(&printed, "not run: no").len() == 1, "{printed:#?}");
    Ok(())
}

#[test]
fn an_expectation_that_the_rule_does_not_give_is_an_error() {
    let mut small = Small::new("").case(Output::New);
    small.definition.jobs[0].op = Op::Median;
    let told = small.error();
    assert!(told.contains("the rule of median gives the digest"), "{told}");
}

#[test]
fn the_definition_has_the_four_cases_and_peers_with_scripts() {
    let text = include_str!("../../definitions/files.toml");
    let definition: Definition = parse(text).expect("the definition parses");
    assert_eq!(definition.jobs[0].cases.len(), 4);
    let scripts = Scripts::new().expect("the scripts are written");
    for peer in &definition.peers {
        let name = peer.script().expect("a script");
        assert!(scripts.folder().join(name).exists(), "{name}");
    }
    let Size { pages, height, width, .. } = definition.sizes.gpu;
    assert_eq!(pages * height * width * 2, 4 << 30);
}

#[test]
fn what_brings_its_output_to_the_disk_is_beside_threads_that_do_so_too() -> Result<()> {
    let mut small = Small::new("").case(Output::New);
    let synced = Variant { name: "synced map".to_owned(), options: vec![], end: End::Synced };
    small.definition.variants.push(synced);
    let printed = small.run()?;
    // The quotes end with the name, so the other cells contain no commas.
    let cell = |part: &str, column: usize| {
        let row = rows(&printed, part).pop()?;
        let cells = row.rsplit_once("\",s,")?.1;
        cells.split(',').nth(column).map(str::to_owned)
    };
    let is_disk = small.definition.jobs[0].cases[0].place == Kind::Disk;
    let threads = if is_disk { ", synced, run\",s" } else { "plain threads=" };
    assert_eq!(cell("synced map, run", 4), cell(threads, 0), "{printed:#?}");
    assert!(cell("synced map, run", 4).is_some(), "{printed:#?}");
    Ok(())
}
