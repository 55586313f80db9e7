//! The origin of a measurement: the commit of the sources, and the driver.
#![forbid(unsafe_code)]

/// The commit of the sources, as `build.rs` found it.
pub const COMMIT: &str = match option_env!("TRIJET_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The version of the NVIDIA kernel module: the first word with only digits and dots in
/// `/proc/driver/nvidia/version`.
#[must_use]
pub fn kernel_driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version = |word: &&str| {
        word.split('.').count() >= 2 && word.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    text.split_whitespace().find(is_version).map(str::to_owned)
}
