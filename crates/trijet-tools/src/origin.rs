//! The origin of a measurement: the commit of the sources, and the version of the driver.
#![forbid(unsafe_code)]

/// The commit of the sources, which `build.rs` has found. `unknown` if there is none.
pub const COMMIT: &str = match option_env!("TRIJET_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The version of the NVIDIA kernel module. It is the first word in `/proc/driver/nvidia/version`
/// that has only digits and dots. `None` if there is no such word.
#[must_use]
pub fn kernel_driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version = |word: &&str| {
        word.split('.').count() >= 2 && word.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    text.split_whitespace().find(is_version).map(str::to_owned)
}
