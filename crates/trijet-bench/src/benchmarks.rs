//! The table of benchmarks. The list, the help, the check of the definitions and the runs read it.
#![forbid(unsafe_code)]

use crate::definition::{ByDevice, parse};
use crate::results::Results;
use crate::setting::Setting;
use serde::de::DeserializeOwned;
use trijet::Result;
use trijet_tools::progress::Steps;

/// The devices that a benchmark uses, and the programs that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The benchmark uses the device of its [`Setting`].
    Device,
    /// The benchmark opens the devices that it uses.
    OwnDevices,
    /// The benchmark starts commands that open devices, and makes large files. When
    /// [`Setting::cancel`] is cancelled, the benchmark removes the files and returns `Cancelled`.
    /// If a signal ended the process instead, the files would stay.
    Commands,
    /// The benchmark opens the devices that it uses. Under a launcher, the benchmark runs as
    /// several processes with one device each.
    Ranks,
}

/// A benchmark that is ready to run, because its definition was read.
type Ready = Box<dyn FnOnce(&Setting<'_>, &mut Steps<'_>) -> Result<Results>>;

/// The function of a benchmark, with its parameters.
type Measure<D> = fn(&Setting<'_>, &D, &mut Steps<'_>) -> Result<Results>;

/// A benchmark.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Benchmark {
    /// The name.
    pub name: &'static str,
    /// The measurement, in words that can follow "The benchmark measures".
    pub measures: &'static str,
    /// The definition of the parameters: a TOML file with comments.
    pub definition: &'static str,
    /// The devices that the benchmark uses, and the programs that it starts.
    pub(crate) runs: Runs,
    read: fn(&str) -> Result<Ready>,
}

impl Benchmark {
    /// Runs the benchmark. Calls the function of `steps` at the start of each step.
    ///
    /// # Errors
    /// `InvalidValue` for a wrong result; `Cancelled`; every error of the device.
    pub fn run(&self, setting: &Setting<'_>, steps: &mut Steps<'_>) -> Result<Results> {
        (self.read)(self.definition)?(setting, steps)
    }
}

/// Reads a definition that has separate parameters for a GPU and for a host device.
fn by_device<D: DeserializeOwned + 'static>(text: &str, measure: Measure<D>) -> Result<Ready> {
    let ByDevice { gpu, host } = parse::<ByDevice<D>>(text)?;
    Ok(Box::new(move |setting, steps| {
        measure(setting, if setting.is_gpu() { &gpu } else { &host }, steps)
    }))
}

/// Reads a definition that has the same parameters for every device.
fn whole<D: DeserializeOwned + 'static>(text: &str, measure: Measure<D>) -> Result<Ready> {
    let definition = parse::<D>(text)?;
    Ok(Box::new(move |setting, steps| measure(setting, &definition, steps)))
}

/// All benchmarks.
pub const BENCHMARKS: [Benchmark; 23] = [
    Benchmark {
        name: "overlap",
        measures: "upload, kernel and download of one array under every schedule, compared with the machine's limits",
        definition: include_str!("../definitions/overlap.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::overlap::run),
    },
    Benchmark {
        name: "enqueue",
        measures: "the host time of a launch and of an upload: tracked, ordered by hand, traced, and as the bare call",
        definition: include_str!("../definitions/enqueue.toml"),
        runs: Runs::Device,
        read: |text| {
            whole(text, |setting, of, steps| crate::enqueue::run(setting.device, of, steps))
        },
    },
    Benchmark {
        name: "virtual",
        measures: "the modelled device: the real time of an operation, and of the search through every order",
        definition: include_str!("../definitions/virtual.toml"),
        runs: Runs::OwnDevices,
        read: |text| whole(text, |_, of, steps| crate::simulate::run(of, steps)),
    },
    Benchmark {
        name: "check",
        measures: "the checker: records per second, on ledgers of one and of several streams",
        definition: include_str!("../definitions/check.toml"),
        runs: Runs::OwnDevices,
        read: |text| whole(text, |_, of, steps| crate::check::run(of, steps)),
    },
    Benchmark {
        name: "pitfalls",
        measures: "pairs of programs, one with a common mistake and one without this mistake",
        definition: include_str!("../definitions/pitfalls.toml"),
        runs: Runs::Device,
        read: |text| {
            whole(text, |setting, of, steps| crate::pitfalls::run(setting.device, of, steps))
        },
    },
    Benchmark {
        name: "claims",
        measures: "every claim that a lesson can test, with the verdict of this device",
        definition: include_str!("../definitions/claims.toml"),
        runs: Runs::Device,
        read: |text| whole(text, crate::claims::run),
    },
    Benchmark {
        name: "files",
        measures: "`trijet map` from file to file, compared with threads that only move the bytes",
        definition: include_str!("../definitions/files.toml"),
        runs: Runs::Commands,
        read: |text| whole(text, crate::files::run),
    },
    Benchmark {
        name: "staging",
        measures: "uploads from a vector and from a mapped file, compared with the link and copies within the host",
        definition: include_str!("../definitions/staging.toml"),
        runs: Runs::Device,
        read: |text| whole(text, crate::staging::run),
    },
    Benchmark {
        name: "devices",
        measures: "one array over all devices of the host, compared with copies that do not wait \
                   for each other",
        definition: include_str!("../definitions/devices.toml"),
        runs: Runs::OwnDevices,
        read: |text| whole(text, crate::devices::run),
    },
    Benchmark {
        name: "tuner",
        measures: "the choice of a prepared pipeline, compared with every way of a grid",
        definition: include_str!("../definitions/tuner.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::tuner::run),
    },
    Benchmark {
        name: "latency",
        measures: "small requests during a bulk job: percentiles of their times, and the slowdown \
                   of the bulk job",
        definition: include_str!("../definitions/latency.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::latency::run),
    },
    Benchmark {
        name: "streams",
        measures: "kernels and jobs in 1 to 64 streams, and launches of 1 to 64 host threads",
        definition: include_str!("../definitions/streams.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::streams::run),
    },
    Benchmark {
        name: "chains",
        measures: "chains of short kernels: launched one by one, as a graph, and as dependent launches",
        definition: include_str!("../definitions/chains.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::chains::run),
    },
    Benchmark {
        name: "gemm",
        measures: "products of bf16 matrices, large, small and in chains, compared with PyTorch",
        definition: include_str!("../definitions/gemm.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::gemm::run),
    },
    Benchmark {
        name: "memory",
        measures: "an allocation and its free, and allocations of random sizes, compared with other allocators",
        definition: include_str!("../definitions/memory.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::memory::run),
    },
    Benchmark {
        name: "growth",
        measures: "the cache of keys and values of a language model in buffers that grow",
        definition: include_str!("../definitions/growth.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::growth::run),
    },
    Benchmark {
        name: "training",
        measures: "training steps of a small transformer in PyTorch over four allocators",
        definition: include_str!("../definitions/training.toml"),
        runs: Runs::OwnDevices,
        read: |text| by_device(text, crate::training::run),
    },
    Benchmark {
        name: "soak",
        measures: "allocations of several threads for a long time, with a check that no byte has two owners",
        definition: include_str!("../definitions/soak.toml"),
        runs: Runs::Device,
        read: |text| {
            by_device(text, |setting, of, steps| crate::soak::run(setting.device, of, steps))
        },
    },
    Benchmark {
        name: "tasks",
        measures: "the cost of a task for the host, compared with bare events and CUDASTF",
        definition: include_str!("../definitions/tasks.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::tasks::run),
    },
    Benchmark {
        name: "workers",
        measures: "tasks that the device schedules itself, under every policy, compared with schedulers by hand",
        definition: include_str!("../definitions/workers.toml"),
        runs: Runs::Device,
        read: |text| by_device(text, crate::workers::run),
    },
    Benchmark {
        name: "allreduce",
        measures: "sums over all devices of the host, in a ring and by NCCL",
        definition: include_str!("../definitions/allreduce.toml"),
        runs: Runs::Ranks,
        read: |text| whole(text, crate::allreduce::run),
    },
    Benchmark {
        name: "gradients",
        measures: "a backward pass that overlaps the sums of its gradients, compared with PyTorch",
        definition: include_str!("../definitions/gradients.toml"),
        runs: Runs::OwnDevices,
        read: |text| by_device(text, crate::gradients::run),
    },
    Benchmark {
        name: "layers",
        measures: "a model in stages, one on each GPU, compared with the stages on one GPU",
        definition: include_str!("../definitions/layers.toml"),
        runs: Runs::OwnDevices,
        read: |text| by_device(text, crate::layers::run),
    },
];

/// The benchmark with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Benchmark> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn each_row_has_a_definition_that_its_function_reads() {
        for one in BENCHMARKS {
            if let Err(error) = (one.read)(one.definition) {
                panic!("{}: {error}", one.name);
            }
        }
    }

    /// In an earlier version, a row of the table could name the definition of another benchmark.
    #[test]
    fn each_definition_is_of_the_row_with_its_name_and_each_row_is_described() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files =
            fs::read_dir(root.join("definitions")).unwrap().map(|file| file.unwrap().path());
        let mut count = 0;
        for file in files {
            let name = file.file_stem().and_then(|name| name.to_str()).expect("a name");
            let row = named(name).unwrap_or_else(|| panic!("{name} is the name of no benchmark"));
            assert_eq!(fs::read_to_string(&file).unwrap(), row.definition, "{name}");
            count += 1;
        }
        assert_eq!(count, BENCHMARKS.len());
        let page = fs::read_to_string(root.join("../../docs/measuring.md")).unwrap();
        for one in BENCHMARKS {
            assert!(page.contains(&format!("trijet bench {}", one.name)), "{}", one.name);
        }
    }
}
