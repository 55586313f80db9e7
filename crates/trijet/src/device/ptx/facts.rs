//! The facts in a PTX text: its version, its architectures, and the launches that its entries
//! allow.
#![forbid(unsafe_code)]

use crate::device::launch_config::LaunchConfig;
use std::fmt;

/// The architectures on which a `.target` runs (PTX ISA, ".target").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// `sm_90`: this compute capability and all later compute capabilities.
    Later,
    /// `sm_100f`: this compute capability, and later compute capabilities with the same major
    /// number.
    Family,
    /// `sm_90a`: this compute capability only.
    Only,
}

/// The architecture of a `.target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The name in the text: `sm_90a`.
    pub(super) name: String,
    pub(super) compute: (u32, u32),
    pub(super) reach: Reach,
}

impl Target {
    /// Parses a name such as `sm_90a`. `None` for other words, which only the driver can judge.
    pub(super) fn read(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("sm_")?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let reach = match &rest[end..] {
            "" => Reach::Later,
            "f" => Reach::Family,
            "a" => Reach::Only,
            _ => return None,
        };
        let number: u32 = rest[..end].parse().ok()?;
        Some(Self { name: name.to_owned(), compute: (number / 10, number % 10), reach })
    }
}

/// The facts in a PTX text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Module {
    /// The version of PTX, major and minor.
    pub(super) version: Option<(u32, u32)>,
    /// The architectures of every `.target`.
    pub(super) targets: Vec<Target>,
    entries: Vec<Entry>,
}

impl Module {
    pub(super) fn new(
        version: Option<(u32, u32)>,
        targets: Vec<Target>,
        entries: Vec<Entry>,
    ) -> Self {
        Self { version, targets, entries }
    }

    /// The entries in the order of the text.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// The directives of an entry that restrict its launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Demands {
    /// `.reqntid`: the required sizes of a block in x, y and z, in threads.
    pub(super) block: Option<[u32; 3]>,
    /// `.maxntid`: sizes in x, y and z. Their product is the maximum number of threads of a block.
    pub(super) block_max: Option<[u32; 3]>,
    /// `.reqnctapercluster`: the required sizes of a cluster in x, y and z, in blocks.
    pub(super) cluster: Option<[u32; 3]>,
    /// `.explicitcluster`: whether a launch must set the sizes of its clusters.
    pub(super) gives_cluster: bool,
    /// `.maxclusterrank`: the maximum number of blocks of a cluster.
    pub(super) cluster_max: Option<u32>,
    /// `.blocksareclusters`: whether the sizes of a grid are in clusters and not in blocks.
    pub(super) grid_of_clusters: bool,
}

/// The reason to believe that a kernel waits for its predecessor before it uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitProof {
    /// The paths of the kernel's PTX are checked: every path waits before it uses memory.
    Ptx,
    /// The author of the kernel promised that the kernel waits in time. The paths are not checked.
    Promise,
}

/// The reason why a dependent launch of an entry could use memory too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFault<'a> {
    /// The entry has no wait.
    NoWait,
    /// A path has this instruction before the wait.
    EarlyUse(&'a str),
    /// A path ends without the wait.
    SkippedWait,
}

impl fmt::Display for WaitFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWait => f.write_str(
                "the PTX of the kernel has no `griddepcontrol.wait`, so a dependent launch would not wait for \
                 earlier work; add a wait to the kernel",
            ),
            Self::EarlyUse(used) => write!(
                f,
                "a path has `{used}` before `griddepcontrol.wait`; move each access to memory that other \
                 kernels write to a point after the wait"
            ),
            Self::SkippedWait => f.write_str(
                "a path ends without `griddepcontrol.wait`; let every thread wait before it returns",
            ),
        }
    }
}

/// An entry of a PTX text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) name: String,
    pub(super) demands: Demands,
    /// Whether the entry has a `griddepcontrol.wait`, either itself or in a function that it may
    /// call.
    pub(super) waits: bool,
    /// Whether the entry has a `griddepcontrol.launch_dependents`, either itself or in a function
    /// that it may call.
    pub(super) triggers: bool,
    /// In an entry that waits: the first instruction that uses memory on a path before the wait.
    pub(super) early_use: Option<String>,
    /// In an entry that waits: whether a path ends without a wait.
    pub(super) skips_wait: bool,
    /// The static shared memory of a block in bytes.
    pub(super) shared_bytes: u64,
}

fn product(sides: [u32; 3]) -> u64 {
    sides.iter().fold(1, |n, side| n.saturating_mul(u64::from(*side)))
}

fn sides([x, y, z]: [u32; 3]) -> String {
    format!("{x} x {y} x {z}")
}

impl Entry {
    /// The name of the entry.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether [`Entry::check`] refuses some launches.
    pub(crate) fn is_demanding(&self) -> bool {
        self.demands != Demands::default()
    }

    /// Faults by which a dependent launch of the entry could use memory before the earlier work is
    /// complete (law A34). Only a `griddepcontrol.wait` makes the results of that work visible to
    /// the kernel (law A35).
    pub(super) fn wait_faults(&self) -> impl Iterator<Item = WaitFault<'_>> {
        let none = (!self.waits).then_some(WaitFault::NoWait);
        let early = self.early_use.as_deref().map(WaitFault::EarlyUse);
        let skipped = self.skips_wait.then_some(WaitFault::SkippedWait);
        none.into_iter().chain(early).chain(skipped)
    }

    /// Refuses a dependent launch of an entry that has a [`WaitFault`]. A promise of the author
    /// covers faults of the paths, but not an entry without any wait.
    ///
    /// # Errors
    /// A text that names the fault.
    pub(crate) fn check_dependent(&self, proof: WaitProof) -> Result<(), String> {
        match (self.wait_faults().next(), proof) {
            (None, _)
            | (Some(WaitFault::EarlyUse(_) | WaitFault::SkippedWait), WaitProof::Promise) => Ok(()),
            (Some(fault @ WaitFault::NoWait), _) => Err(fault.to_string()),
            (Some(fault), WaitProof::Ptx) => Err(format!(
                "a dependent launch of the kernel could start too early: {fault}, or promise with \
                 `KernelSpec::trust_wait` that the kernel waits in time"
            )),
        }
    }

    /// Compares the configuration of a launch with the directives of the entry. The driver refuses
    /// the same configurations, but gives no reason (PTX ISA, "Performance-Tuning Directives" and
    /// "Cluster Dimension Directives").
    ///
    /// # Errors
    /// A text that names the directive, its value and the value of the launch.
    pub(crate) fn check(&self, config: &LaunchConfig) -> Result<(), String> {
        if let Some(block) = self.demands.block
            && block != config.block
        {
            let (asked, given) = (sides(block), sides(config.block));
            return Err(format!(
                "a block of {given}; `.reqntid` in the PTX of the kernel demands {asked}"
            ));
        }
        let threads = config.block_threads();
        if let Some(most) = self.demands.block_max.map(product)
            && threads > most
        {
            return Err(format!(
                "a block of {threads} threads; `.maxntid` in the PTX of the kernel allows {most}"
            ));
        }
        self.check_cluster(config)
    }

    fn check_cluster(&self, config: &LaunchConfig) -> Result<(), String> {
        // If the configuration sets no clusters, the driver uses the clusters that the PTX
        // requires.
        let given = (config.cluster != [1; 3]).then_some(config.cluster);
        match (self.demands.cluster, given) {
            (Some(asked), Some(given)) if asked != given => {
                return Err(format!(
                    "a cluster of {}; `.reqnctapercluster` in the PTX of the kernel demands {}",
                    sides(given),
                    sides(asked)
                ));
            }
            (None, None) if self.demands.gives_cluster => {
                return Err("no cluster; `.explicitcluster` in the PTX of the kernel demands one"
                    .to_owned());
            }
            (Some(asked), None) if !self.demands.grid_of_clusters => {
                for (axis, (side, grid)) in
                    ["x", "y", "z"].iter().zip(asked.iter().zip(config.grid))
                {
                    if !grid.is_multiple_of((*side).max(1)) {
                        return Err(format!(
                            "grid.{axis} is {grid}; `.reqnctapercluster` in the PTX of the kernel demands a \
                             multiple of {side}"
                        ));
                    }
                }
            }
            _ => {}
        }
        let blocks = config.cluster_blocks();
        if let Some(most) = self.demands.cluster_max
            && blocks > u64::from(most)
        {
            return Err(format!(
                "a cluster of {blocks} blocks; `.maxclusterrank` in the PTX of the kernel allows {most}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ptx::scan;

    fn entry(directives: &str, body: &str) -> Entry {
        scan(&format!(".visible .entry k()\n{directives}\n{{\n{body}\nret;\n}}")).entries()[0]
            .clone()
    }

    fn config() -> LaunchConfig {
        LaunchConfig::new([8, 4, 1], [128, 2, 1])
    }

    /// Hazard: the wait was compiled out, and the launch requests an early start.
    #[test]
    fn a_dependent_launch_needs_a_wait_in_the_kernel() {
        let why = entry("", "// griddepcontrol.wait;").check_dependent(WaitProof::Ptx).unwrap_err();
        assert!(why.contains("no `griddepcontrol.wait`"), "{why}");
        assert_eq!(entry("", "griddepcontrol.wait;").check_dependent(WaitProof::Ptx), Ok(()));
    }

    #[test]
    fn a_cluster_is_the_one_of_the_ptx() {
        let two = entry(".reqnctapercluster 2, 1", "");
        let told = |config: LaunchConfig| two.check(&config).unwrap_err();
        let other = "a cluster of 4 x 1 x 1; `.reqnctapercluster` in the PTX of the kernel demands 2 x 1 x 1";
        assert_eq!(told(config().cluster([4, 1, 1])), other);
        assert_eq!(two.check(&config().cluster([2, 1, 1])), Ok(()));
        assert_eq!(two.check(&config()), Ok(()), "the driver takes the cluster of the PTX");
        let odd = told(LaunchConfig::new([7, 1, 1], [32, 1, 1]));
        assert!(
            odd.starts_with(
                "grid.x is 7; `.reqnctapercluster` in the PTX of the kernel demands a multiple of 2"
            ),
            "{odd}"
        );
        let clusters = entry(".blocksareclusters .reqntid 32 .reqnctapercluster 2", "");
        assert_eq!(clusters.check(&LaunchConfig::new([7, 1, 1], [32, 1, 1])), Ok(()));
    }

    #[test]
    fn a_cluster_is_given_where_the_ptx_demands_one() {
        let any = entry(".explicitcluster", "");
        assert!(any.check(&config()).unwrap_err().contains("`.explicitcluster`"));
        assert_eq!(any.check(&config().cluster([2, 1, 1])), Ok(()));
        let both = entry(".explicitcluster .reqnctapercluster 2", "");
        assert_eq!(both.check(&config()), Ok(()));
    }

    #[test]
    fn a_cluster_has_at_most_as_many_blocks_as_the_ptx_says() {
        let four = entry(".maxclusterrank 4", "");
        let why = four.check(&config().cluster([4, 2, 1])).unwrap_err();
        assert_eq!(
            why,
            "a cluster of 8 blocks; `.maxclusterrank` in the PTX of the kernel allows 4"
        );
        assert_eq!(four.check(&config().cluster([2, 2, 1])), Ok(()));
    }

    #[test]
    fn a_block_is_the_one_of_the_ptx() {
        let exact = entry(".reqntid 128, 2", "");
        assert_eq!(exact.check(&config()), Ok(()));
        let why = exact.check(&LaunchConfig::new([8, 4, 1], [256, 1, 1])).unwrap_err();
        assert_eq!(
            why,
            "a block of 256 x 1 x 1; `.reqntid` in the PTX of the kernel demands 128 x 2 x 1"
        );
        // Only the product counts, not the sides.
        assert_eq!(entry(".maxntid 256", "").check(&config()), Ok(()));
        let why = entry(".maxntid 16, 8", "").check(&config()).unwrap_err();
        assert_eq!(why, "a block of 256 threads; `.maxntid` in the PTX of the kernel allows 128");
        assert!(!entry(".minnctapersm 2", "").is_demanding());
    }

    #[test]
    fn a_target_names_its_architecture_and_how_far_it_reaches() {
        let read = |name| Target::read(name).map(|target| (target.compute, target.reach));
        assert_eq!(read("sm_80"), Some(((8, 0), Reach::Later)));
        assert_eq!(read("sm_90a"), Some(((9, 0), Reach::Only)));
        assert_eq!(read("sm_103f"), Some(((10, 3), Reach::Family)));
        for other in ["sm_", "sm_90x", "sm_a", "compute_90", "sm_99999999999", "debug"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
