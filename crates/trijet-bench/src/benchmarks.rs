//! The benchmarks: the measurement of each, and how it is run.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::setting::Setting;
use crate::{
    allreduce, chains, check, devices, enqueue, files, gemm, gradients, growth, latency, layers,
    memory, overlap, pitfalls, simulate, soak, staging, tasks, training, tuner, workers,
};
use trijet::Result;
use trijet_tools::progress::Steps;

/// A benchmark.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Benchmark {
    /// The name.
    pub name: &'static str,
    /// The measurement, in words that follow "measures".
    pub measures: &'static str,
    /// Its definition with its parameters: a TOML file with comments.
    pub definition: &'static str,
    /// Whether it runs on the device that it is given. Other benchmarks open their own devices, or
    /// start commands that do.
    pub uses_device: bool,
    run: fn(&Setting<'_>, &mut Steps<'_>) -> Result<Results>,
}

impl Benchmark {
    /// Whether it creates large files. When [`Setting::cancel`] is cancelled, it ends with
    /// `Cancelled` and removes them; a process that a signal ends would leave them.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.name == "files"
    }

    /// Whether it is also a program for several processes that a launcher starts, each with a
    /// device.
    #[must_use]
    pub fn is_for_ranks(&self) -> bool {
        self.name == "allreduce"
    }

    /// Runs it. `steps` gets each step when it begins.
    ///
    /// # Errors
    /// `InvalidValue` for a wrong result; `Cancelled`; every error of the device.
    pub fn run(&self, setting: &Setting<'_>, steps: &mut Steps<'_>) -> Result<Results> {
        (self.run)(setting, steps)
    }
}

/// All benchmarks.
pub const BENCHMARKS: [Benchmark; 21] = [
    Benchmark {
        name: "overlap",
        measures: "upload, kernel and download of one array under every schedule, compared with the machine's limits",
        definition: include_str!("../definitions/overlap.toml"),
        uses_device: true,
        run: overlap::run,
    },
    Benchmark {
        name: "enqueue",
        measures: "the host time of a launch and of an upload: tracked, ordered by hand, traced, and as the bare call",
        definition: include_str!("../definitions/enqueue.toml"),
        uses_device: true,
        run: |setting, steps| enqueue::run(setting.device, steps),
    },
    Benchmark {
        name: "virtual",
        measures: "the modelled device: the real time of an operation, and of the search through every order",
        definition: include_str!("../definitions/virtual.toml"),
        uses_device: false,
        run: |_, steps| simulate::run(steps),
    },
    Benchmark {
        name: "check",
        measures: "the checker: records per second, on ledgers of one and of several streams",
        definition: include_str!("../definitions/check.toml"),
        uses_device: false,
        run: |_, steps| check::run(steps),
    },
    Benchmark {
        name: "pitfalls",
        measures: "pairs of programs, one with a mistake that people make and one without",
        definition: include_str!("../definitions/pitfalls.toml"),
        uses_device: true,
        run: |setting, steps| pitfalls::run(setting.device, steps),
    },
    Benchmark {
        name: "files",
        measures: "`trijet map` from file to file, compared with threads that only move the bytes",
        definition: include_str!("../definitions/files.toml"),
        uses_device: false,
        run: files::run,
    },
    Benchmark {
        name: "staging",
        measures: "uploads from a vector and from a mapped file, compared with the link and copies within the host",
        definition: include_str!("../definitions/staging.toml"),
        uses_device: true,
        run: staging::run,
    },
    Benchmark {
        name: "devices",
        measures: "one array over all devices of the host, compared with copies that wait for nothing",
        definition: include_str!("../definitions/devices.toml"),
        uses_device: false,
        run: devices::run,
    },
    Benchmark {
        name: "tuner",
        measures: "the choice of a prepared pipeline, compared with every way of a grid",
        definition: include_str!("../definitions/tuner.toml"),
        uses_device: true,
        run: tuner::run,
    },
    Benchmark {
        name: "latency",
        measures: "small requests during a bulk job: their percentiles, and the loss of the bulk job",
        definition: include_str!("../definitions/latency.toml"),
        uses_device: true,
        run: latency::run,
    },
    Benchmark {
        name: "chains",
        measures: "chains of short kernels: launched one by one, as a graph, and as dependent launches",
        definition: include_str!("../definitions/chains.toml"),
        uses_device: true,
        run: chains::run,
    },
    Benchmark {
        name: "gemm",
        measures: "products of bf16 matrices, large, small and in chains, compared with PyTorch",
        definition: include_str!("../definitions/gemm.toml"),
        uses_device: true,
        run: gemm::run,
    },
    Benchmark {
        name: "memory",
        measures: "an allocation and its free, and allocations of random sizes, compared with other allocators",
        definition: include_str!("../definitions/memory.toml"),
        uses_device: true,
        run: memory::run,
    },
    Benchmark {
        name: "growth",
        measures: "the cache of keys and values of a language model in buffers that grow",
        definition: include_str!("../definitions/growth.toml"),
        uses_device: true,
        run: growth::run,
    },
    Benchmark {
        name: "training",
        measures: "training steps of a small transformer in PyTorch over four allocators",
        definition: include_str!("../definitions/training.toml"),
        uses_device: false,
        run: training::run,
    },
    Benchmark {
        name: "soak",
        measures: "allocations of several threads for a long time, with a check that no byte has two owners",
        definition: include_str!("../definitions/soak.toml"),
        uses_device: true,
        run: soak::run,
    },
    Benchmark {
        name: "tasks",
        measures: "the cost of a task for the host, compared with bare events and CUDASTF",
        definition: include_str!("../definitions/tasks.toml"),
        uses_device: true,
        run: tasks::run,
    },
    Benchmark {
        name: "workers",
        measures: "tasks that the device schedules itself, under every policy, compared with schedulers by hand",
        definition: include_str!("../definitions/workers.toml"),
        uses_device: true,
        run: workers::run,
    },
    Benchmark {
        name: "allreduce",
        measures: "sums over all devices of the host, in a ring and by NCCL",
        definition: include_str!("../definitions/allreduce.toml"),
        uses_device: false,
        run: allreduce::run,
    },
    Benchmark {
        name: "gradients",
        measures: "a backward pass with the sums of its gradients under it, compared with PyTorch",
        definition: include_str!("../definitions/gradients.toml"),
        uses_device: false,
        run: gradients::run,
    },
    Benchmark {
        name: "layers",
        measures: "a model in two halves on two GPUs, compared with the whole model on one",
        definition: include_str!("../definitions/layers.toml"),
        uses_device: false,
        run: layers::run,
    },
];

/// The benchmark with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Benchmark> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name)
}
