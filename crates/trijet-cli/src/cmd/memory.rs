//! The memory of the host that a run may use: the limit of `--memory`, or most of the available memory.
#![forbid(unsafe_code)]

use std::fs;
use trijet::{Bytes, Error, ErrorKind, Result};

/// The most memory of a run beside its chunks, for mapped parts of the output, stacks and decoded
/// images. At most a quarter of a limit is kept for it.
const BESIDE: Bytes = Bytes(512 << 20);

/// The memory for the chunks of a run: the limit less the memory that this process has already, or
/// three quarters of the available memory. `None` if the system does not tell how much is available.
///
/// # Errors
/// `InvalidValue` for a limit that leaves nothing.
pub(super) fn for_chunks(limit: Option<Bytes>) -> Result<Option<Bytes>> {
    let Some(limit) = limit else {
        return Ok(available().map(|bytes| Bytes(bytes.0 / 4 * 3)));
    };
    let used = resident().unwrap_or(Bytes(0));
    match limit.0.checked_sub(used.0 + beside_chunks(limit).0) {
        Some(left) if left > 0 => Ok(Some(Bytes(left))),
        _ => {
            let cause = format!(
                "--memory {limit} leaves nothing for chunks: the program itself has {used} already"
            );
            Err(Error::new(ErrorKind::InvalidValue, "map", cause))
        }
    }
}

/// The memory of a run with this limit that is kept for other things than its chunks.
pub(super) fn beside_chunks(limit: Bytes) -> Bytes {
    Bytes(BESIDE.0.min(limit.0 / 4))
}

/// The physical memory of this process.
fn resident() -> Option<Bytes> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The memory that processes can have without swapping, in the system and in the control group of
/// this process.
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
    fn a_limit_leaves_less_than_itself_or_is_refused() {
        let left = for_chunks(Some(Bytes(8 << 30))).unwrap().unwrap();
        assert!(left < Bytes((8 << 30) - BESIDE.0) && left > Bytes(6 << 30), "{left}");
        let error = for_chunks(Some(Bytes(1 << 20))).unwrap_err();
        assert!(error.to_string().contains("--memory 1 MiB leaves nothing"), "{error}");
        assert!(for_chunks(None).unwrap().is_some_and(|bytes| bytes.0 > 0));
    }
}
