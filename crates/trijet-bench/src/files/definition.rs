//! The definition of the benchmark: `definitions/files.toml`.
#![forbid(unsafe_code)]

use crate::peer::Peer;
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    pub(super) piece_bytes: u64,
    pub(super) threads: Vec<usize>,
    pub(super) plain_kept: usize,
    pub(super) slow_every: usize,
    pub(super) limit_s: u64,
    pub(super) command: Vec<String>,
    pub(super) variants: Vec<Variant>,
    pub(super) over_existing: Vec<String>,
    pub(super) jobs: Vec<Job>,
    pub(super) places: Places,
    pub(super) sizes: Sizes,
    #[serde(default)]
    pub(super) peers: Vec<Peer>,
}

/// A way to run the command: a name and options.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) options: Vec<String>,
    pub(super) end: End,
}

/// The state of the output when a program ends. Either the output is written, so that other
/// processes can read it, or it is also synchronized with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum End {
    Written,
    Synced,
}

/// An operation on the stack, the cases in which it runs, and the digest of its result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    pub(super) op: Op,
    pub(super) cases: Vec<Case>,
    pub(super) expected: Digests,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Op {
    Affine { scale: f32, offset: f32 },
    Median,
}

impl Op {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Affine { .. } => "affine",
            Self::Median => "median",
        }
    }

    /// The options of `trijet map`.
    pub(super) fn options(self) -> Vec<String> {
        match self {
            Self::Affine { scale, offset } => {
                ["--op", "affine", "--scale", &scale.to_string(), "--offset", &offset.to_string()]
                    .map(str::to_owned)
                    .to_vec()
            }
            Self::Median => ["--op", "median", "--radius", "1"].map(str::to_owned).to_vec(),
        }
    }

    /// The last arguments of the command of a peer. These arguments describe the operation.
    pub(super) fn rule(self) -> Vec<String> {
        match self {
            Self::Affine { scale, offset } => {
                vec!["affine".to_owned(), scale.to_string(), offset.to_string()]
            }
            Self::Median => vec!["median".to_owned()],
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) place: Kind,
    pub(super) output: Output,
}

impl Case {
    pub(super) fn name(self) -> String {
        let place = match self.place {
            Kind::Tmpfs => "tmpfs",
            Kind::Disk => "disk",
        };
        let output = match self.output {
            Output::New => "new output",
            Output::Existing => "over existing pages",
        };
        format!("{place}, {output}")
    }
}

/// The kind of a file system: a file system in memory, or any other file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Tmpfs,
    Disk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Output {
    New,
    Existing,
}

/// The digests of the result for the size on a GPU and for the size on a host device.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Digests {
    pub(super) gpu: String,
    pub(super) host: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Places {
    pub(super) tmpfs: Vec<PathBuf>,
    pub(super) disk: Vec<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sizes {
    pub(super) gpu: Size,
    pub(super) host: Size,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    pub(super) pages: u64,
    pub(super) height: u64,
    pub(super) width: u64,
    pub(super) repeats: usize,
}
