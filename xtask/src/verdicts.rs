//! `verdicts`: runs jobs of `trijet map`, and prints the limits that the runs of each job report.
//! It also prints the time that a run saves if it follows the advice of the runs.
//!
//! Each job runs several times, in alternation with the other jobs, so that a change of the machine
//! affects all jobs. A row of kind `verdict` has the limits that the runs of a job reported, each
//! with the number of these runs. A row of kind `advice` compares two values: the saving that an
//! advice promised, and the difference between the median times of the job and of a job that
//! follows the advice.
#![forbid(unsafe_code)]

use crate::tools::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The default number of runs of each job.
const RUNS: usize = 20;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// The file system on which a file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Disk,
    Memory,
}

/// A job over 16-bit images of 512 x 512, and the jobs that follow its advice.
struct Job {
    name: &'static str,
    images: u32,
    from: At,
    to: At,
    options: &'static [&'static str],
    followed: &'static [(&'static str, &'static str)],
}

const fn job(
    name: &'static str,
    images: u32,
    (from, to): (At, At),
    options: &'static [&'static str],
    followed: &'static [(&'static str, &'static str)],
) -> Job {
    Job { name, images, from, to, options, followed }
}

const ON_DISK: (At, At) = (At::Disk, At::Disk);
const IN_MEMORY: (At, At) = (At::Memory, At::Memory);

const JOBS: &[Job] = &[
    job("short", 24, ON_DISK, &["median:3"], &[("no_sync", "short-no-sync")]),
    job("short-no-sync", 24, ON_DISK, &["median:3", "--no-sync"], &[]),
    job("kernels", 24, IN_MEMORY, &["median:7"], &[]),
    job(
        "disk",
        256,
        ON_DISK,
        &["affine:2,1"],
        &[("no_sync", "disk-no-sync"), ("faster_output", "to-memory")],
    ),
    job("disk-no-sync", 256, ON_DISK, &["affine:2,1", "--no-sync"], &[]),
    job("to-memory", 256, (At::Disk, At::Memory), &["affine:2,1"], &[]),
    job("memory", 256, IN_MEMORY, &["affine:2,1"], &[]),
    job("one-slot", 256, IN_MEMORY, &["affine:2,1", "--depth", "1"], &[("more_slots", "memory")]),
    job(
        "small-chunks",
        256,
        IN_MEMORY,
        &["affine:2,1", "--chunk", "64KiB"],
        &[("larger_chunks", "memory")],
    ),
    job(
        "small-chunks-disk",
        256,
        ON_DISK,
        &["affine:2,1", "--chunk", "64KiB"],
        &[("larger_chunks", "disk")],
    ),
    job(
        "one-chunk",
        256,
        IN_MEMORY,
        &["affine:2,1", "--chunk", "128MiB"],
        &[("smaller_chunks", "memory")],
    ),
    job(
        "large",
        1024,
        ON_DISK,
        &["affine:2,1"],
        &[("no_sync", "large-no-sync"), ("faster_output", "large-to-memory")],
    ),
    job("large-no-sync", 1024, ON_DISK, &["affine:2,1", "--no-sync"], &[]),
    job("large-to-memory", 1024, (At::Disk, At::Memory), &["affine:2,1"], &[]),
];

/// The figures that a run reported.
struct Report {
    elapsed_ns: u64,
    named: String,
    /// For each change that the run advises: the name of the change, the nanoseconds that it should
    /// save, and whether this number is a minimum or a maximum.
    advice: Vec<(String, u64, String)>,
}

impl Report {
    fn of(document: &Value) -> Option<Self> {
        let nearest = document["nearest_limits"].as_array();
        let words = |list: &Vec<Value>| {
            list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" and ")
        };
        let named = match nearest {
            Some(list) => format!("none: {}", words(list)),
            None => document["limit"].as_str()?.to_owned(),
        };
        let advice = document["advice"].as_array()?.iter().filter_map(|one| {
            let text = |field: &str| one[field].as_str().map(str::to_owned);
            Some((text("change")?, one["saves_ns"].as_u64()?, text("bound")?))
        });
        Some(Self { elapsed_ns: document["elapsed_ns"].as_u64()?, named, advice: advice.collect() })
    }
}

/// The folders of a run, which are removed at the end.
struct Folders([PathBuf; 2]);

impl Folders {
    fn new() -> Result<Self> {
        let name = format!("trijet-verdicts-{}", std::process::id());
        let both = Self([std::env::temp_dir().join(&name), Path::new(MEMORY).join(&name)]);
        both.0.iter().try_for_each(fs::create_dir_all)?;
        Ok(both)
    }

    fn get(&self, at: At) -> &Path {
        &self.0[usize::from(at == At::Memory)]
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in &self.0 {
            if let Err(error) = fs::remove_dir_all(folder) {
                eprintln!("{}: {error}", folder.display());
            }
        }
    }
}

/// Runs a job, and returns its report.
fn run_job(program: &str, device: &str, folders: &Folders, job: &Job) -> Result<Report> {
    let input = folders.get(job.from).join(format!("{}.npy", job.images));
    if !input.exists() {
        let images = job.images.to_string();
        let made = Command::new(program)
            .arg("sample")
            .arg(&input)
            .args(["--images", &images])
            .stdout(Stdio::null())
            .status()?;
        if !made.success() {
            return Err(format!("sample: {made}").into());
        }
    }
    let output = folders.get(job.to).join("out.npy");
    let done = Command::new(program)
        .arg("map")
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .args(["--device", device, "--json", "--op"])
        .args(job.options)
        .output()?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{}: {words}", job.name).into());
    }
    fs::remove_file(&output)?;
    let document: Value = serde_json::from_slice(&done.stdout)?;
    Report::of(&document).ok_or_else(|| format!("{}: the report lacks a field", job.name).into())
}

fn middle(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

fn ms(time_ns: i128) -> String {
    let tenths = time_ns / 100_000;
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{}", tenths.abs() / 10, tenths.abs() % 10)
}

/// The rows that are printed for a job.
fn rows(job: &Job, all: &BTreeMap<&str, Vec<Report>>) -> Vec<String> {
    let elapsed = |name: &str| {
        let reports = all.get(name).map_or(&[][..], Vec::as_slice);
        middle(reports.iter().map(|one| one.elapsed_ns).collect())
    };
    let reports = all.get(job.name).map_or(&[][..], Vec::as_slice);
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    reports.iter().for_each(|one| *named.entry(&one.named).or_default() += 1);
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let most = named.first().map_or(0, |(_, count)| *count);
    let named: Vec<String> = named.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut rows = vec![format!(
        "verdict job={} runs={} middle_ms={} most={most} named=\"{}\"",
        job.name,
        reports.len(),
        ms(elapsed(job.name).into()),
        named.join(", ")
    )];
    for (change, followed) in job.followed {
        let own = reports.iter().flat_map(|one| &one.advice).filter(|(name, ..)| name == change);
        let (saves, bounds): (Vec<u64>, Vec<&String>) =
            own.map(|(_, saves, bound)| (*saves, bound)).unzip();
        let Some(bound) = bounds.first() else { continue };
        let count = saves.len();
        let gained = i128::from(elapsed(job.name)) - i128::from(elapsed(followed));
        let saves = middle(saves);
        let holds = match bound.as_str() {
            "at_least" => gained >= i128::from(saves),
            _ => gained <= i128::from(saves),
        };
        rows.push(format!(
            "advice job={} change={change} given={count} bound={bound} saves_ms={} followed={followed} \
             gained_ms={} holds={}",
            job.name,
            ms(saves.into()),
            ms(gained),
            if holds { "yes" } else { "no" }
        ));
    }
    rows
}

/// Runs all jobs of a program on a device.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (program, device, runs) = match arguments {
        [program] => (*program, "auto", RUNS),
        [program, device] => (*program, *device, RUNS),
        [program, device, runs] => (*program, *device, runs.parse()?),
        _ => return Err("usage: cargo xtask verdicts PROGRAM [DEVICE [RUNS]]".into()),
    };
    let folders = Folders::new()?;
    let mut all: BTreeMap<&str, Vec<Report>> = BTreeMap::new();
    for _ in 0..runs {
        for job in JOBS {
            let report = run_job(program, device, &folders, job)?;
            all.entry(job.name).or_default().push(report);
        }
    }
    JOBS.iter().flat_map(|job| rows(job, &all)).for_each(|row| println!("{row}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(elapsed_ns: u64, named: &str, saves: u64) -> Report {
        let advice = vec![("no_sync".to_owned(), saves, "at_least".to_owned())];
        Report { elapsed_ns, named: named.to_owned(), advice }
    }

    #[test]
    fn a_job_has_what_its_runs_named_and_what_its_advice_brought() {
        let runs =
            |times: [u64; 3]| times.map(|time| report(time * 1_000_000, "output", 2_000_000));
        let mut disk = Vec::from(runs([9, 8, 10]));
        disk[0].named = "none: reader and output".to_owned();
        let all = BTreeMap::from([("short", disk), ("short-no-sync", Vec::from(runs([6, 4, 5])))]);
        let rows = rows(&JOBS[0], &all);
        assert_eq!(
            rows[0],
            "verdict job=short runs=3 middle_ms=9.0 most=2 named=\"output 2, none: reader and output 1\""
        );
        assert!(rows[1].ends_with("saves_ms=2.0 followed=short-no-sync gained_ms=4.0 holds=yes"));
    }

    #[test]
    fn each_job_is_there_once_and_what_follows_it_is_one() {
        let names: Vec<&str> = JOBS.iter().map(|job| job.name).collect();
        for job in JOBS {
            assert_eq!(names.iter().filter(|name| **name == job.name).count(), 1, "{}", job.name);
            assert!(job.followed.iter().all(|(_, followed)| names.contains(followed)));
        }
    }
}
