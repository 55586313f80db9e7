//! The host memory that a run may use: the limit of `--memory`, or most of the available memory.
#![forbid(unsafe_code)]

use std::fs;
use trijet::{Bytes, Error, ErrorKind, Result};

/// Maximum memory that a run needs in addition to its chunks: for mapped parts of the output, for
/// the stacks of threads and for decoded images. At most a quarter of a limit is reserved for these
/// uses.
const BESIDE: Bytes = Bytes(512 << 20);

/// The memory of the program is rounded up to a multiple of this number of bytes. Without a GPU,
/// the program needs less than this number.
const STEP: Bytes = Bytes(16 << 20);
/// Minimum memory for the chunks of a run.
const CHUNKS_MIN: Bytes = Bytes(1 << 20);

/// The memory for the chunks of a run. With a limit, it is the limit minus the memory that this
/// process uses already and minus [`beside_chunks`]. Without a limit, it is three quarters of the
/// available memory. `None` if the system does not tell how much is available.
///
/// # Errors
/// `InvalidValue` for a limit that leaves no memory for chunks.
pub fn for_chunks(limit: Option<Bytes>) -> Result<Option<Bytes>> {
    let Some(limit) = limit else {
        return Ok(available().map(|bytes| Bytes(bytes.0 / 4 * 3)));
    };
    let used = of_program();
    let least = least(used);
    if limit < least {
        let cause = format!(
            "--memory {limit} leaves no memory for chunks, because the program itself uses {used}; \
             use at least --memory {least}"
        );
        return Err(Error::new(ErrorKind::InvalidValue, "map", cause));
    }
    Ok(Some(Bytes(limit.0 - used.0 - beside_chunks(limit).0)))
}

/// The memory of the program itself, rounded up to a multiple of [`STEP`], because this memory
/// varies a little from run to run.
fn of_program() -> Bytes {
    Bytes(resident().unwrap_or_default().0.next_multiple_of(STEP.0))
}

/// The smallest limit that works if the program itself uses `used` bytes. A quarter of the limit,
/// but at most [`BESIDE`], is reserved, and chunks get at least [`CHUNKS_MIN`].
fn least(used: Bytes) -> Bytes {
    let needed = used.0.saturating_add(CHUNKS_MIN.0);
    let with_quarter = needed.saturating_add((needed / 3).min(BESIDE.0));
    Bytes(with_quarter.next_multiple_of(1 << 20))
}

/// The part of this limit that is reserved for memory other than chunks.
#[must_use]
pub fn beside_chunks(limit: Bytes) -> Bytes {
    Bytes(BESIDE.0.min(limit.0 / 4))
}

/// The physical memory of this process.
fn resident() -> Option<Bytes> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The memory that this process can allocate without swapping. It is the smaller of two numbers:
/// the available memory of the system, and the free part of the memory limit of the process's
/// control group. `None` if both are unknown.
fn available() -> Option<Bytes> {
    let system = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:");
    let group = |name: &str| {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let left = group("memory.max").zip(group("memory.current"));
    let left = left.map(|(most, now)| Bytes(most.saturating_sub(now)));
    [system, left].into_iter().flatten().min()
}

/// The value of a line such as `VmRSS:    1234 kB`.
fn kilobytes(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    number.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read() {
        let text = "MemTotal:       24685072 kB\nMemAvailable:   22 kB\nBroken: x kB\nNone: 5\n";
        assert_eq!(kilobytes(text, "MemAvailable:"), Some(Bytes(22 << 10)));
        assert_eq!(kilobytes(text, "MemFree:"), None);
        assert_eq!(kilobytes(text, "Broken:"), None);
        assert_eq!(kilobytes(text, "None:"), None);
    }

    #[test]
    fn the_least_limit_leaves_a_chunk_beside_what_is_kept() {
        for used in [0, 32, 64, 320, 4096, 1 << 20].map(|mib: u64| Bytes(mib << 20)) {
            let least = least(used);
            let left = least.0.checked_sub(used.0 + beside_chunks(least).0);
            assert!(left >= Some(CHUNKS_MIN.0), "{used}: {least} leaves {left:?}");
        }
    }

    #[test]
    fn a_limit_leaves_less_than_itself_or_is_refused() {
        let left = for_chunks(Some(Bytes(8 << 30))).unwrap().unwrap();
        assert!(left < Bytes((8 << 30) - BESIDE.0) && left > Bytes(6 << 30), "{left}");
        let error = for_chunks(Some(Bytes(1 << 20))).unwrap_err();
        assert!(error.to_string().contains("--memory 1 MiB leaves no memory"), "{error}");
        let least = least(of_program());
        assert!(error.to_string().contains(&format!("use at least --memory {least}")), "{error}");
        assert!(for_chunks(Some(least)).unwrap() >= Some(CHUNKS_MIN));
        for_chunks(Some(Bytes(least.0 - 1))).unwrap_err();
        assert!(for_chunks(None).unwrap().is_some_and(|bytes| bytes.0 > 0));
    }
}
