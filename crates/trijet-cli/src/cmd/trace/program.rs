//! The traced program: its start, the signals that it gets, and its end.
//!
//! A signal that another process sends to this one is sent on to the program. A signal of the terminal
//! is not, because the terminal sends it to both.
#![forbid(unsafe_code)]

use super::failed;
use super::folder::Folder;
use crate::cmd::print_stderr;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::low_level::siginfo::Cause;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use trijet::Result;

/// The signals that are sent on.
const SENT_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];
/// The time between two looks for processes in the background.
const PAUSE: Duration = Duration::from_millis(100);

/// The signals that this program receives.
pub(super) struct Signals(SignalsInfo<WithOrigin>);

impl Signals {
    /// Receives signals from here on. The program must be started afterwards, so that its end is not
    /// missed.
    pub(super) fn receive() -> Result<Self> {
        let all = SENT_ON.iter().copied().chain([SIGCHLD]);
        SignalsInfo::new(all).map(Self).map_err(|error| failed("receive signals", &error))
    }

    /// Waits for the end of the program, and sends signals on to it.
    pub(super) fn until_end(&mut self, program: &mut Child) -> Result<ExitStatus> {
        loop {
            let ended = program.try_wait();
            if let Some(status) = ended.map_err(|error| failed("wait for the program", &error))? {
                return Ok(status);
            }
            for origin in self.0.wait() {
                send_on(&origin, program);
            }
        }
    }

    /// Whether a signal asked this program to end since the last call.
    fn asked_to_end(&mut self) -> bool {
        let ends = |origin: Origin| [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&origin.signal);
        // Every pending signal is taken.
        self.0.pending().filter(|origin| ends(origin.clone())).count() > 0
    }

    /// Waits until no process of the run is left, or until a signal ends the wait.
    pub(super) fn until_all_ended(&mut self, folder: &Folder) {
        let mut told = false;
        loop {
            let running = folder.running();
            if running.is_empty() {
                return;
            }
            if !told {
                told = true;
                print_stderr(format_args!(
                    "trijet trace: waiting for processes in the background: {}; press Ctrl-C to \
                     see what was traced until then",
                    running.join(", ")
                ));
            }
            if self.asked_to_end() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Starts the program.
pub(super) fn start(mut command: Command) -> std::io::Result<Child> {
    command.spawn()
}

fn send_on(origin: &Origin, program: &Child) {
    if origin.signal == SIGCHLD || origin.cause == Cause::Kernel {
        return;
    }
    let process = i32::try_from(program.id()).ok().and_then(Pid::from_raw);
    if let (Some(process), Some(signal)) = (process, Signal::from_named_raw(origin.signal)) {
        // The program may have ended meanwhile; its status is taken in the next round.
        let _sent = kill_process(process, signal);
    }
}
