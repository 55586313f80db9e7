//! The hardware queues of the CUDA driver, on which it deals the streams of a process: 8, unless a
//! variable of the environment says more. The command asks for all 32 where it has more streams than
//! 8, and only there, since the driver then takes half a second longer to start (`cold-start.csv`).
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use trijet::DeviceInfo;

const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
const MOST: &str = "32";
const USUAL: usize = 8;

/// Starts this program again with the variable if it uses more streams than there are queues, unless
/// the variable is set. The driver reads it when it is initialised, and to set a variable of the own
/// process would be unsafe. Where the program cannot be started again, it goes on with the queues that
/// the driver has; `trijet devices` shows them.
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
    // Only an error comes back.
    let _error = command.args(arguments).env(VARIABLE, MOST).exec();
}

/// The number of hardware queues in words, as every command shows it.
pub(crate) fn hardware_queues(info: &DeviceInfo) -> String {
    match info.hardware_queues {
        Some(queues) => format!("hardware queues of its streams: {queues}"),
        None => "hardware queues of its streams: unknown".to_owned(),
    }
}

/// Whether so many streams need more queues than the driver makes by itself, and the user has not said
/// how many there are.
fn asks(streams: usize, variable: Option<&OsStr>) -> bool {
    streams > USUAL && variable.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All queues were once asked for in every run, which then began half a second later.
    #[test]
    fn more_queues_are_asked_for_only_where_they_are_used_and_not_set() {
        for (streams, variable, asked) in
            [(0, None, false), (8, None, false), (9, None, true), (9, Some("8"), false)]
        {
            assert_eq!(asks(streams, variable.map(OsStr::new)), asked, "{streams}, {variable:?}");
        }
    }
}
