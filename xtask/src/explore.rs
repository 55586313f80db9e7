//! `explore`: runs many random programs, each in several orders, and checks their results.
//!
//! The test program `oracle` runs and checks the programs and prints counts. This task adds up the
//! counts. Each process runs a share of the seeds, and there is one process per core at a time. So
//! the report of a crash names its share, and the memory of a process stays small.
#![forbid(unsafe_code)]

use crate::bundle::explorer_here;
use crate::tools::Result;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The test that checks the programs of `TRIJET_SEEDS`.
const TEST: &str = "programs_compute_what_they_compute_serially_and_each_conflict_is_ordered";

/// The test that compares the exhaustive search with `TRIJET_ORDERS` random orders.
const SEARCH: &str = "a_search_finds_whatever_drawn_orders_lead_to";

/// The number of seeds of one process. Such a process works for some seconds.
const SHARE: u64 = 5_000;
/// The number of seeds of one process if each program is searched and run in thousands of orders.
const SEARCH_SHARE: u64 = 50;

struct Options {
    programs: u64,
    seed: u64,
    /// The number of random orders of each program with which the search is compared.
    search: Option<u64>,
}

impl Options {
    fn share(&self) -> u64 {
        if self.search.is_some() { SEARCH_SHARE } else { SHARE }
    }
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options { programs: 1_000_000, seed: 0, search: None };
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} needs a number"))?;
        let value = value.parse().map_err(|_| format!("{option} needs a number, not `{value}`"))?;
        match option.as_str() {
            "--programs" => options.programs = value,
            "--seed" => options.seed = value,
            "--search" => options.search = Some(value),
            _ => {
                return Err(format!(
                    "unknown option `{option}`: use --programs, --seed or --search"
                )
                .into());
            }
        }
    }
    Ok(options)
}

/// Splits the seeds into shares.
fn shares(all: Range<u64>, share: u64) -> VecDeque<Range<u64>> {
    let mut shares = VecDeque::new();
    let mut start = all.start;
    while start < all.end {
        let end = all.end.min(start + share);
        shares.push_back(start..end);
        start = end;
    }
    shares
}

/// The names and the values of the counts in a line such as `explored seeds=0..9 programs=9
/// runs=27`.
fn counts(output: &str) -> Option<BTreeMap<String, u64>> {
    let (_, found) = output.lines().find_map(|line| line.split_once("explored "))?;
    let pairs = found.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(key, _)| *key != "seeds")
        .map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)))
        .collect()
}

/// Runs the programs of one share of the seeds. Returns their counts.
fn run_share(
    oracle: &Path,
    search: Option<u64>,
    seeds: &Range<u64>,
) -> std::result::Result<BTreeMap<String, u64>, String> {
    let output = Command::new(oracle)
        .args(["--exact", if search.is_some() { SEARCH } else { TEST }, "--nocapture"])
        .env("TRIJET_ORDERS", search.unwrap_or(0).to_string())
        .env("TRIJET_SEEDS", format!("{}..{}", seeds.start, seeds.end))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", oracle.display()))?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match counts(&out) {
        Some(counts) if output.status.success() => Ok(counts),
        _ => Err(format!("seeds {}..{}: {}\n{out}{err}", seeds.start, seeds.end, output.status)),
    }
}

/// The results of all processes.
#[derive(Default)]
struct Total {
    counts: BTreeMap<String, u64>,
    failures: Vec<String>,
}

/// Runs shares until none is left or one has failed.
fn run_shares(
    oracle: &Path,
    search: Option<u64>,
    shares: &Mutex<VecDeque<Range<u64>>>,
    total: &Mutex<Total>,
) {
    const LOCKED: &str = "no thread panics while it holds the lock";
    loop {
        let Some(seeds) = shares.lock().expect(LOCKED).pop_front() else { return };
        let found = run_share(oracle, search, &seeds);
        let mut total = total.lock().expect(LOCKED);
        match found {
            Ok(counts) => {
                for (key, count) in counts {
                    *total.counts.entry(key).or_default() += count;
                }
                eprintln!("{} programs", total.counts.get("programs").unwrap_or(&0));
            }
            Err(failure) => {
                total.failures.push(failure);
                shares.lock().expect(LOCKED).clear();
            }
        }
    }
}

/// Runs the oracle over `--programs` seeds, starting at `--seed`. With `--search N`, the programs
/// are small, and the exhaustive search of each is compared with N random orders.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    let Options { programs, seed, search } = options;
    let (oracle, commit) = explorer_here("oracle")?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let shares = Mutex::new(shares(seed..seed + programs, options.share()));
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| run_shares(&oracle, search, &shares, &total));
        }
    });
    let Total { counts, failures } = total.into_inner()?;
    let list: Vec<String> = counts.iter().map(|(key, count)| format!("{key}={count}")).collect();
    let range = format!("seeds={seed}..{}", seed + programs);
    println!("{range} {} failures={} commit={commit}", list.join(" "), failures.len());
    match failures.first() {
        None => Ok(()),
        Some(failure) => Err(failure.clone().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{SHARE, counts, options, shares};

    #[test]
    fn the_shares_contain_every_seed_once() {
        let found: Vec<_> = shares(3..12_003, SHARE).into();
        assert_eq!(found, [3..5_003, 5_003..10_003, 10_003..12_003]);
        assert!(shares(7..7, SHARE).is_empty());
    }

    #[test]
    fn the_counts_are_found_in_the_output_of_the_test_harness() {
        let output = "\nrunning 1 test\ntest x ... explored seeds=0..9 programs=9 runs=27\nok\n";
        let counts = counts(output).expect("the output has a line with counts");
        assert_eq!(
            counts.into_iter().collect::<Vec<_>>(),
            [("programs".to_owned(), 9), ("runs".to_owned(), 27)]
        );
        assert_eq!(super::counts("running 0 tests\n"), None);
    }

    #[test]
    fn options_are_numbers() {
        let parse = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            options(&arguments).map(|options| (options.programs, options.seed, options.search))
        };
        assert_eq!(parse(&["--programs", "10", "--seed", "3"]).ok(), Some((10, 3, None)));
        let searched = parse(&["--search", "10000", "--programs", "2"]);
        assert_eq!(searched.ok(), Some((2, 0, Some(10_000))));
        assert!(parse(&["--programs"]).is_err());
        assert!(parse(&["--programs", "many"]).is_err());
        assert!(parse(&["--orders", "1"]).is_err());
    }
}
