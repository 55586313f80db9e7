//! The hardware queues of the CUDA driver. The driver assigns the streams of a process to 8 queues,
//! unless an environment variable sets another number. With 32 queues, the driver takes half a
//! second longer to start (`cold-start.csv`). The command therefore requests 32 queues only if it
//! uses more than 8 streams.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use trijet::DeviceInfo;

const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
const MOST: &str = "32";
const USUAL: usize = 8;

/// Starts this program again with [`VARIABLE`] set, if the program uses more than 8 streams and the
/// user has not set the variable. This process does not set its own variable, because that would be
/// unsafe code. If the program cannot be started again, this process continues with 8 queues.
/// `trijet devices` shows the number of queues.
pub(crate) fn ask_for(streams: usize) {
    if !asks(streams, env::var_os(VARIABLE).as_deref()) {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // The call returns only if it fails.
    let _error = command.args(arguments).env(VARIABLE, MOST).exec();
}

/// The number of hardware queues in words, as every command shows it.
pub(crate) fn hardware_queues(info: &DeviceInfo) -> String {
    match info.hardware_queues {
        Some(queues) => format!("hardware queues of its streams: {queues}"),
        None => "hardware queues of its streams: unknown".to_owned(),
    }
}

/// Whether `streams` exceeds the default number of queues, and `variable`, the user's value of
/// [`VARIABLE`], is not set.
fn asks(streams: usize, variable: Option<&OsStr>) -> bool {
    streams > USUAL && variable.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In an earlier version, every run requested 32 queues, and therefore started half a second
    /// later.
    #[test]
    fn more_queues_are_asked_for_only_where_they_are_used_and_not_set() {
        for (streams, variable, asked) in
            [(0, None, false), (8, None, false), (9, None, true), (9, Some("8"), false)]
        {
            assert_eq!(asks(streams, variable.map(OsStr::new)), asked, "{streams}, {variable:?}");
        }
    }
}
