//! The hardware queues of the CUDA driver, to which it assigns the streams of a process: 8, unless
//! an environment variable sets another number. The command requests all 32 only if it has more
//! than 8 streams, because the driver then takes half a second longer to start (`cold-start.csv`).
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use trijet::DeviceInfo;

const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
const MOST: &str = "32";
const USUAL: usize = 8;

/// Starts this program again with the variable if it uses more streams than there are queues,
/// unless the variable is set. The driver reads the variable when it is initialised, and it would
/// be unsafe to set a variable of the running process. If the program cannot be started again, it
/// continues with the queues that the driver has; `trijet devices` shows them.
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
    // The call returns only with an error.
    let _error = command.args(arguments).env(VARIABLE, MOST).exec();
}

/// The number of hardware queues in words, as every command shows it.
pub(crate) fn hardware_queues(info: &DeviceInfo) -> String {
    match info.hardware_queues {
        Some(queues) => format!("hardware queues of its streams: {queues}"),
        None => "hardware queues of its streams: unknown".to_owned(),
    }
}

/// Whether this many streams need more queues than the driver makes by default, and the user has
/// not set the number of queues.
fn asks(streams: usize, variable: Option<&OsStr>) -> bool {
    streams > USUAL && variable.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In every run, all queues were once requested. The runs then started half a second later.
    #[test]
    fn more_queues_are_asked_for_only_where_they_are_used_and_not_set() {
        for (streams, variable, asked) in
            [(0, None, false), (8, None, false), (9, None, true), (9, Some("8"), false)]
        {
            assert_eq!(asks(streams, variable.map(OsStr::new)), asked, "{streams}, {variable:?}");
        }
    }
}
