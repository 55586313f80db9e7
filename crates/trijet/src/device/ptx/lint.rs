//! The rules for PTX.
//!
//! A text that the driver certainly refuses is refused here too, with the value and the limit. A
//! text that is right in some programs and a race in others gets a remark: see [`PtxRule`].
#![forbid(unsafe_code)]

use super::facts::{Module, Reach, Target, WaitFault};
use super::scan::scan;
use crate::device::driver::DeviceInfo;
use std::fmt;

/// Maximum number of bytes of static shared memory of a block (CUDA C++ Programming Guide, "Shared
/// Memory" of the compute capabilities).
const STATIC_SHARED_BYTES_MAX: u64 = 48 * 1024;

/// The first version of CUDA with an assembler that allows a block more static shared memory than
/// [`STATIC_SHARED_BYTES_MAX`]. The assembler does so only if it assembles for one architecture
/// alone (ptxas 13.0.88 does for sm_90a and sm_100a; ptxas 12.9 does not).
const LARGER_SINCE: i32 = 13_000;
/// The first compute capability with targets for one architecture alone (PTX ISA, ".target").
const ALONE_SINCE: (u32, u32) = (9, 0);

/// Versions of CUDA, in the numbers of the driver, each with the version of PTX that came with it
/// (PTX ISA, "Release Notes", table of the release history).
const PTX_OF_CUDA: [(i32, (u32, u32)); 20] = [
    (11_000, (7, 0)),
    (11_010, (7, 1)),
    (11_020, (7, 2)),
    (11_030, (7, 3)),
    (11_040, (7, 4)),
    (11_050, (7, 5)),
    (11_060, (7, 6)),
    (11_070, (7, 7)),
    (11_080, (7, 8)),
    (12_000, (8, 0)),
    (12_010, (8, 1)),
    (12_020, (8, 2)),
    (12_030, (8, 3)),
    (12_040, (8, 4)),
    (12_050, (8, 5)),
    (12_070, (8, 6)),
    (12_080, (8, 7)),
    (12_090, (8, 8)),
    (13_000, (9, 0)),
    (13_010, (9, 1)),
];

/// A rule for PTX. The first sentence of each rule states what must be true.
///
/// ```
/// use trijet::kernels::{PtxRule, lint};
/// let ptx = ".version 8.0
/// .target sm_90
/// .address_size 64
/// .visible .entry step() {
///     griddepcontrol.launch_dependents;
///     ret;
/// }";
/// let found = lint(ptx);
/// assert_eq!(found[0].rule, PtxRule::TriggerWithoutWait);
/// assert!(!found[0].is_refused, "the first kernel of a chain need not wait");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PtxRule {
    /// The device runs the `.target`. Refused: `sm_100` on a device of compute capability 9.0, and
    /// `sm_90a` on any device other than 9.0. Needs a GPU.
    Target,
    /// The driver reads the `.version`. Refused: PTX 9.0 on a driver for CUDA 12.4. Needs a GPU.
    /// With a driver that is newer than this library, every version passes.
    Version,
    /// The static shared memory of a block has at most 48 KiB. More has to be dynamic, see
    /// [`KernelSpec::shared_bytes_max`](crate::kernels::KernelSpec::shared_bytes_max). A larger
    /// size is refused, with one exception: a driver of CUDA 13.0 or later allows more if it
    /// assembles the text for one architecture alone. Where this may be the case, the result is a
    /// remark.
    StaticShared,
    /// An entry that lets its dependents start (`griddepcontrol.launch_dependents`) waits for its
    /// own predecessor (`griddepcontrol.wait`). A violation is a remark, because an entry needs no
    /// wait in an ordinary launch. A dependent launch of the entry is refused.
    TriggerWithoutWait,
    /// No thread of an entry that waits uses memory before its wait (`griddepcontrol.wait`). Uses
    /// are loads, stores, atomics, copies and textures of global memory, and of addresses whose
    /// memory the text does not name. Every path along the branches and calls of the text counts,
    /// whatever the conditions of the branches are. A dependent launch of the entry is refused,
    /// unless its author [promises](crate::kernels::KernelSpec::trust_wait) that it waits in time.
    /// The text itself is loaded, because ordinary launches need no wait.
    EarlyUse,
    /// No path of an entry that waits ends without the wait, as
    /// [`Kernel::declare`](crate::Kernel::declare) demands. The same launches are refused as for
    /// [`PtxRule::EarlyUse`].
    SkippedWait,
}

impl fmt::Display for PtxRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Target => "PTX/TARGET",
            Self::Version => "PTX/VERSION",
            Self::StaticShared => "PTX/STATIC-SHARED",
            Self::TriggerWithoutWait => "PDL/TRIGGER-WITHOUT-WAIT",
            Self::EarlyUse => "PDL/EARLY-USE",
            Self::SkippedWait => "PDL/SKIPPED-WAIT",
        })
    }
}

/// A violation of a rule for PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxFinding {
    /// The rule.
    pub rule: PtxRule,
    /// The name of the entry that violates the rule; `None` if the whole text violates the rule.
    pub entry: Option<String>,
    /// A text with the value and the limit.
    pub message: String,
    /// Whether the text is refused when one of its kernels is loaded. If not, the finding is a
    /// remark.
    pub is_refused: bool,
}

impl fmt::Display for PtxFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule)?;
        if let Some(entry) = &self.entry {
            write!(f, "`{entry}`: ")?;
        }
        f.write_str(&self.message)
    }
}

/// All violations of [the rules](PtxRule) in a PTX text that can be found without a device. Loading
/// a kernel fails if a violation is [refused](PtxFinding::is_refused), or if the device does not
/// run the text. A host device refuses the same violations.
///
/// The text is scanned and not compiled: the driver may still refuse it for other reasons.
///
/// ```
/// use trijet::kernels::{PtxRule, lint};
/// let ptx = |bytes| format!(
///     ".version 8.0
///     .target sm_80
///     .address_size 64
///     .visible .entry sum() {{ .shared .align 4 .b8 tile[{bytes}]; ret; }}"
/// );
/// assert!(lint(&ptx(49152)).is_empty());
/// let found = &lint(&ptx(49156))[0];
/// assert_eq!(found.rule, PtxRule::StaticShared);
/// let text = "PTX/STATIC-SHARED: `sum`: 49156 bytes of static shared memory; \
///     at most 49152 are allowed";
/// assert!(found.to_string().starts_with(text), "{found}");
/// assert!(found.is_refused);
/// ```
#[must_use]
pub fn lint(ptx: &str) -> Vec<PtxFinding> {
    findings(&scan(ptx), None)
}

/// The first finding for which a device refuses a module.
pub(crate) fn refusal(module: &Module, device: &DeviceInfo) -> Option<PtxFinding> {
    findings(module, Some(device)).into_iter().find(|found| found.is_refused)
}

fn findings(module: &Module, device: Option<&DeviceInfo>) -> Vec<PtxFinding> {
    // A host device runs no PTX, and has no version of CUDA.
    let gpu = device.filter(|device| device.compute.0 > 0);
    let mut all = Vec::new();
    if let Some(gpu) = gpu {
        all.extend(module.targets.iter().find_map(|target| target_beyond(target, gpu.compute)));
        all.extend(module.version.and_then(|version| version_beyond(version, gpu.driver_version)));
    }
    let limited = is_limited(module, gpu);
    for entry in module.entries() {
        let mut add = |rule, is_refused, message| {
            let entry = Some(entry.name.clone());
            all.push(PtxFinding { rule, entry, message, is_refused });
        };
        if entry.shared_bytes > STATIC_SHARED_BYTES_MAX {
            let message = format!(
                "{} bytes of static shared memory; at most {STATIC_SHARED_BYTES_MAX} are allowed, and \
                 more has to be dynamic",
                entry.shared_bytes
            );
            add(PtxRule::StaticShared, limited, message);
        }
        for fault in entry.wait_faults() {
            let rule = match fault {
                WaitFault::NoWait if entry.triggers => PtxRule::TriggerWithoutWait,
                // An entry with neither a wait nor a trigger has no part in dependent launches.
                WaitFault::NoWait => continue,
                WaitFault::EarlyUse(_) => PtxRule::EarlyUse,
                WaitFault::SkippedWait => PtxRule::SkippedWait,
            };
            add(rule, false, fault.to_string());
        }
    }
    all
}

/// Whether the limit of static shared memory is enforced: by the driver of `gpu`, or by every
/// driver if there is no `gpu`.
fn is_limited(module: &Module, gpu: Option<&DeviceInfo>) -> bool {
    match gpu {
        Some(gpu) => gpu.driver_version < LARGER_SINCE || gpu.compute < ALONE_SINCE,
        None => module.targets.iter().all(|target| target.reach != Reach::Only),
    }
}

fn refused(rule: PtxRule, message: String) -> PtxFinding {
    PtxFinding { rule, entry: None, message, is_refused: true }
}

/// The finding for a device that cannot run PTX for `target`. PTX for an architecture runs on this
/// architecture and on all later architectures. PTX for a family (`sm_100f`) runs on this
/// architecture and on the later architectures of the family. PTX with the suffix `a` (`sm_90a`)
/// runs only on this architecture (PTX ISA, ".target").
fn target_beyond(target: &Target, device: (u32, u32)) -> Option<PtxFinding> {
    // CUDA 13.0 has renamed sm_101 to sm_110.
    const RENAMED: [(u32, u32); 2] = [(10, 1), (11, 0)];
    let (wanted, is_renamed) = (target.compute, RENAMED.contains(&target.compute));
    let ((major, minor), (of_major, of_minor)) = (wanted, device);
    let (runs, needs) = match target.reach {
        Reach::Later => (wanted <= device, format!("{major}.{minor} or later")),
        Reach::Only => (wanted == device, format!("{major}.{minor} and no other")),
        Reach::Family => (
            major == of_major && minor <= of_minor,
            format!("{major}.{minor} or a later {major}.x"),
        ),
    };
    if runs || (is_renamed && RENAMED.contains(&device)) {
        return None;
    }
    let message = format!(
        "`.target {}` needs compute capability {needs}, and the device has {of_major}.{of_minor}",
        target.name
    );
    Some(refused(PtxRule::Target, message))
}

fn version_beyond(version: (u32, u32), driver: i32) -> Option<PtxFinding> {
    let newest = PTX_OF_CUDA.last().is_none_or(|(cuda, _)| driver > *cuda);
    if newest {
        return None;
    }
    // A version of CUDA that is not in the table reads the PTX of the latest earlier version.
    let (_, most) = PTX_OF_CUDA.iter().rev().find(|(cuda, _)| *cuda <= driver)?;
    if version <= *most {
        return None;
    }
    let since = PTX_OF_CUDA.iter().find(|(_, ptx)| version <= *ptx);
    let since = since.map_or_else(
        || "a newer driver".to_owned(),
        |(cuda, _)| format!("a driver for CUDA {}", cuda_version(*cuda)),
    );
    let message = format!(
        "`.version {}.{}` needs {since}; the installed driver is for CUDA {} and reads PTX {}.{} \
         at most",
        version.0,
        version.1,
        cuda_version(driver),
        most.0,
        most.1
    );
    Some(refused(PtxRule::Version, message))
}

fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Bytes;
    use crate::device::driver::Clock;

    fn device(compute: (u32, u32), driver_version: i32) -> DeviceInfo {
        DeviceInfo {
            name: String::new(),
            compute,
            multiprocessors: 1,
            copy_engines: 1,
            hardware_queues: None,
            memory: Bytes(1),
            priorities: (0, 0),
            block_threads_max: 1024,
            shared_bytes: 48 << 10,
            shared_bytes_optin: 227 << 10,
            multiprocessor_threads_max: 2048,
            multiprocessor_blocks_max: 32,
            multiprocessor_shared_bytes: 228 << 10,
            multiprocessor_registers: Some(1 << 16),
            warp_threads: 32,
            cluster_blocks_max: 8,
            l2: None,
            memory_bus_bits: None,
            memory_clock_khz: None,
            memory_bytes_per_s: None,
            driver_version,
            integrated: false,
            clock: Clock::Device,
        }
    }

    fn entry(name: &str, body: &str) -> String {
        format!(".visible .entry {name}(\n\t.param .u64 p\n)\n{{\n{body}\n\tret;\n}}\n")
    }

    fn flagged(ptx: &str) -> Vec<String> {
        lint(ptx).into_iter().filter_map(|found| found.entry).collect()
    }

    fn told(ptx: &str, device: &DeviceInfo) -> Option<String> {
        refusal(&scan(ptx), device).map(|found| found.to_string())
    }

    #[test]
    fn a_trigger_needs_a_wait_in_the_same_entry() {
        let trigger = "\tgriddepcontrol.launch_dependents;";
        let wait = "\tgriddepcontrol.wait;";
        let split = entry("a", trigger) + &entry("b", wait);
        assert_eq!(flagged(&split), ["a"]);
        assert_eq!(lint(&split)[0].rule, PtxRule::TriggerWithoutWait);
        let together = entry("a", &format!("{trigger}\n{wait}")) + &entry("b", wait);
        assert_eq!(flagged(&together), [""; 0]);
    }

    #[test]
    fn a_use_of_memory_comes_after_the_wait() {
        let load = "\tld.global.nc.u32 %r1, [%rd1];";
        let wait = "\tgriddepcontrol.wait;";
        let early = entry("a", &format!("{load}\n{wait}"));
        assert_eq!(flagged(&early), ["a"]);
        let text = "PDL/EARLY-USE: `a`: a path has `ld.global.nc.u32` before `griddepcontrol.wait`";
        assert!(lint(&early)[0].to_string().starts_with(text), "{}", lint(&early)[0]);
        assert_eq!(flagged(&entry("a", &format!("{wait}\n{load}"))), [""; 0]);
        assert_eq!(flagged(&(entry("a", load) + &entry("b", wait))), [""; 0]);
        let plain = entry("a", &format!("\tld.global.u32 %r1, [%rd1];\n{wait}"));
        assert_eq!(flagged(&plain), ["a"]);
        assert_eq!(flagged(&entry("a", &format!("ld.shared.u32 %r1, [%r2];\n{wait}"))), [""; 0]);
    }

    #[test]
    fn every_path_waits_before_it_ends() {
        let found = lint(&entry("a", "@%p1 ret;\ngriddepcontrol.wait;"));
        let text = "PDL/SKIPPED-WAIT: `a`: a path ends without `griddepcontrol.wait`";
        assert!(found[0].to_string().starts_with(text), "{found:?}");
        assert!(!found[0].is_refused);
        assert_eq!(flagged(&entry("a", "griddepcontrol.wait;\n@%p1 ret;")), [""; 0]);
    }

    /// The kernels of the library follow the rules, except the matrix product. There one warp
    /// waits, and barriers make the loads of the other warps follow the wait.
    #[test]
    fn the_dependent_kernels_of_the_library_wait_on_every_path() {
        assert_eq!(lint(include_str!("../../kernels/dependent/dependent.ptx")), []);
        let rules: Vec<PtxRule> = lint(include_str!("../../kernels/gemm/gemm.ptx"))
            .into_iter()
            .map(|found| found.rule)
            .collect();
        let ordered = [PtxRule::EarlyUse, PtxRule::SkippedWait];
        assert!(!rules.is_empty() && rules.iter().all(|rule| ordered.contains(rule)), "{rules:?}");
    }

    /// The first kernel of a chain need not wait, and weights may be read before a wait.
    #[test]
    fn what_is_right_in_some_programs_is_loaded() {
        let first = entry("a", "griddepcontrol.launch_dependents;");
        let early = entry("b", "ld.global.nc.u32 %r1, [%rd1]; griddepcontrol.wait;");
        let both = first + &early;
        assert_eq!(
            lint(&both).iter().map(|found| found.is_refused).collect::<Vec<_>>(),
            [false; 2]
        );
        for device in [device((9, 0), 12_040), device((0, 0), 0)] {
            assert_eq!(told(&both, &device), None);
        }
    }

    #[test]
    fn static_shared_memory_is_summed_per_entry() {
        let half = "\t.shared .align 8 .b8 tile[24576];";
        let other = "\t.shared .align 4 .u32 rest[6144];";
        assert_eq!(flagged(&entry("a", &format!("{half}\n{other}"))), [""; 0]);
        let more = "\t.shared .u32 one;";
        let over = entry("a", &format!("{half}\n{other}\n{more}"));
        assert!(lint(&over)[0].message.starts_with("49156 bytes"), "{:?}", lint(&over));
        assert_eq!(flagged(&(entry("a", half) + &entry("b", half) + &entry("c", half))), [""; 0]);
    }

    #[test]
    fn a_module_variable_counts_where_it_is_used() {
        let module = ".shared .align 16 .b8 big[65536];\n.extern .shared .b8 dynamic[];\n";
        let using = entry("a", "\tmov.u64 %rd1, big;");
        let other = entry("b", "\tmov.u64 %rd1, bigger;\n\tmov.u64 %rd2, dynamic;");
        assert_eq!(flagged(&format!("{module}{using}{other}")), ["a"]);
    }

    /// The assembler of CUDA 13.0 allows more static shared memory if it assembles for one
    /// architecture alone.
    #[test]
    fn too_much_shared_memory_is_refused_where_every_driver_would() {
        let over = |target| format!(".target {target}\n{}", entry("a", ".shared .b8 x[49153];"));
        let refused = |target, device: Option<DeviceInfo>| match device {
            Some(device) => told(&over(target), &device).is_some(),
            None => lint(&over(target))[0].is_refused,
        };
        assert!(refused("sm_90", None) && refused("sm_100f", None));
        assert!(!refused("sm_90a", None));
        assert!(refused("sm_90a", Some(device((9, 0), 12_090))));
        assert!(refused("sm_80", Some(device((8, 9), 13_000))));
        assert!(!refused("sm_90", Some(device((9, 0), 13_000))));
        let host = || Some(device((0, 0), 0));
        assert!(refused("sm_90", host()) && !refused("sm_90a", host()));
    }

    #[test]
    fn a_target_runs_on_later_devices_of_its_reach() {
        let on = |target: &str, compute| {
            told(&format!(".version 8.0\n.target {target}\n"), &device(compute, 99_000))
        };
        for (target, compute) in [
            ("sm_80", (8, 0)),
            ("sm_80", (9, 0)),
            ("sm_90", (10, 3)),
            ("sm_90a", (9, 0)),
            ("sm_100f", (10, 0)),
            ("sm_100f", (10, 3)),
            ("sm_101a", (11, 0)),
            ("sm_90x", (8, 0)),
            ("sm_999", (0, 0)),
        ] {
            assert_eq!(on(target, compute), None, "{target} on {compute:?}");
        }
        let later = "PTX/TARGET: `.target sm_100` needs compute capability 10.0 or later, and the device has 9.0";
        assert_eq!(on("sm_100", (9, 0)).as_deref(), Some(later));
        let only = on("sm_90a, debug", (10, 0)).expect("another architecture");
        assert!(
            only.contains("`.target sm_90a` needs compute capability 9.0 and no other"),
            "{only}"
        );
        for (target, compute) in
            [("sm_90", (8, 9)), ("sm_100f", (11, 0)), ("sm_103f", (10, 0)), ("sm_90a", (8, 6))]
        {
            assert!(on(target, compute).is_some(), "{target} on {compute:?}");
        }
        let two = ".target sm_80\n.target sm_100\n";
        assert!(told(two, &device((9, 0), 13_000)).is_some(), "the highest one counts");
    }

    #[test]
    fn a_driver_reads_the_ptx_of_its_cuda_and_older() {
        let on =
            |version: &str, driver| told(&format!(".version {version}\n"), &device((9, 0), driver));
        for (version, driver) in [
            ("8.0", 12_000),
            ("8.3", 12_030),
            ("8.4", 12_040),
            ("8.5", 12_060),
            ("8.7", 12_080),
            ("8.8", 12_090),
            ("9.0", 13_000),
            ("1.4", 12_000),
            ("99.0", 99_000),
            ("99.0", 0),
            ("8", 11_000),
        ] {
            assert_eq!(on(version, driver), None, "{version} on {driver}");
        }
        let text = "PTX/VERSION: `.version 9.0` needs a driver for CUDA 13.0; the installed driver \
                    is for CUDA 12.4 and reads PTX 8.4 at most";
        assert_eq!(on("9.0", 12_040).as_deref(), Some(text));
        for (version, driver) in
            [("8.1", 12_000), ("8.6", 12_060), ("99.0", 13_010), ("8.10", 12_090)]
        {
            assert!(on(version, driver).is_some(), "{version} on {driver}");
        }
    }

    #[test]
    fn a_host_device_has_no_version_and_no_architecture() {
        let text = ".version 99.0\n.target sm_999a\n";
        assert_eq!(told(text, &device((0, 0), 0)), None);
    }

    #[test]
    fn the_kernels_of_the_library_have_no_finding() {
        for ptx in [
            include_str!("../conform/kernels.ptx"),
            include_str!("../../kernels/affine/affine.ptx"),
            include_str!("../../kernels/axpy/axpy.ptx"),
            include_str!("../../kernels/fill/fill.ptx"),
            include_str!("../../kernels/median/median.ptx"),
            include_str!("../../kernels/mix/mix.ptx"),
            include_str!("../../kernels/work/work.ptx"),
        ] {
            assert_eq!(lint(ptx), []);
            let module = scan(ptx);
            assert!(!module.entries().is_empty());
            assert_eq!(refusal(&module, &device((8, 0), 12_000)), None);
        }
    }

    #[test]
    fn kernels_for_a_later_device_are_refused_by_an_older_one() {
        for ptx in [
            include_str!("../../kernels/cluster/cluster.ptx"),
            include_str!("../../kernels/dependent/dependent.ptx"),
            include_str!("../../kernels/warp_specialized/warp_specialized.ptx"),
        ] {
            assert_eq!(lint(ptx), []);
            for later in [(9, 0), (10, 0), (12, 0)] {
                assert_eq!(told(ptx, &device(later, 12_000)), None, "{later:?}");
            }
            let why = "PTX/TARGET: `.target sm_90` needs compute capability 9.0 or later, and the device has 8.9";
            assert_eq!(told(ptx, &device((8, 9), 13_000)).as_deref(), Some(why));
        }
    }
}
