//! The child of a fork.

use super::held::Held;
use super::outcome::{FAULT, Got, Ran, made};
use super::verbs::verb::Call;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    /// Ends the process by a signal after this many seconds.
    fn alarm(seconds: u32) -> u32;
    fn _exit(code: i32) -> !;
}

/// The number of the signal of the alarm.
const HANGS: i32 = 14;

/// Makes the call in a child process, and drops everything there.
pub(super) fn child(
    mut held: Held,
    call: Call,
    demand: impl Fn(&Got) -> Result<(), String>,
) -> Result<Ran, String> {
    let stream = held.device.stream().map_err(|error| error.to_string())?;
    // SAFETY: the child makes one call of the library, drops, prints and ends. The system keeps its
    // allocator fit for use in a child, and only this thread prints.
    let process = unsafe { fork() };
    if process == 0 {
        // SAFETY: a timer of the child, which nothing else of it uses.
        unsafe { alarm(30) };
        let got = made(call, &mut held, &stream);
        drop((stream, held));
        let code = match demand(&got) {
            Ok(()) => 0,
            Err(fault) => {
                println!("{}in the child: {fault}", FAULT);
                1
            }
        };
        // SAFETY: the child has nothing to flush: its output is a whole line.
        unsafe { _exit(code) };
    }
    let mut status = 0;
    // SAFETY: the place has room for one number, and the process is the child from above or -1.
    let ended = unsafe { waitpid(process, &raw mut status, 0) };
    assert!(process > 0 && ended == process, "the system forks, and waits");
    match (status & 0x7f, status >> 8) {
        (0, 0) => {}
        (0, _) => return Err("the child has another answer".to_owned()),
        (HANGS, _) => return Err("the child hangs".to_owned()),
        (signal, _) => return Err(format!("signal {signal} ends the child")),
    }
    // The parent still has to drop the call.
    drop(call);
    Ok(Ran { got: Got::Answer(Ok(())), held })
}
