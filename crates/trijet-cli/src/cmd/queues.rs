//! The hardware queues of the CUDA driver, on which it deals the streams of a process: 8, unless a
//! variable of the environment says more. The command asks for all 32.
#![forbid(unsafe_code)]

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
const MOST: &str = "32";

/// Starts this program again with the variable, unless it is set. The driver reads it when it is
/// initialised, and to set a variable of the own process would be unsafe. Where the program cannot be
/// started again, it goes on with the queues that the driver has; `trijet devices` shows them.
pub(crate) fn ask_for_all() {
    if env::var_os(VARIABLE).is_some() {
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
