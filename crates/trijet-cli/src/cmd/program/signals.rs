//! The program: the signals that it gets, and its end.
//!
//! A signal that another process sends to this process is forwarded to the program. A signal of the
//! terminal is not forwarded, because the terminal sends it to both processes.
#![forbid(unsafe_code)]

use super::error::failed;
use super::folder::Folder;
use crate::cmd::print_stderr;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::low_level::pipe;
use signal_hook::low_level::siginfo::Cause;
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use trijet::Result;

/// The signals that are forwarded.
const SENT_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];
/// The signals that end the wait for processes in the background.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The signals that this program receives.
pub(super) struct Signals(SignalsInfo<WithOrigin>);

impl Signals {
    /// Starts to receive signals. The program must be started after this call. Otherwise the signal
    /// of the program's end could be missed.
    pub(super) fn receive() -> Result<Self> {
        let all = SENT_ON.iter().copied().chain([SIGCHLD]);
        SignalsInfo::new(all).map(Self).map_err(|error| failed("receive signals", &error))
    }

    /// Waits for the end of the program, and forwards signals to it.
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
}

/// Waits until no process of the run is left, or until a signal ends the wait.
pub(super) fn until_all_ended(folder: &Folder) -> Result<()> {
    let mut running = folder.running();
    if running.is_empty() {
        return Ok(());
    }
    let failed = |error| failed("wait for processes in the background", &error);
    let (asked, told) = UnixStream::pair().map_err(failed)?;
    for signal in ENDING {
        pipe::register(signal, told.try_clone().map_err(failed)?).map_err(failed)?;
    }
    print_stderr(format_args!(
        "trijet {}: waiting for processes in the background: {}; press Ctrl-C to see what was \
         recorded until then",
        folder.injected.verb(),
        running.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    ));
    while !running.is_empty() {
        let mut ends = Vec::new();
        for process in running.iter().filter_map(|one| Pid::from_raw(one.number)) {
            match pidfd_open(process, PidfdFlags::empty()) {
                Ok(end) => ends.push(end),
                // The process has ended since the list was read, and is not in the next list.
                Err(Errno::SRCH) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        let mut waited: Vec<_> = ends.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
        waited.push(PollFd::new(&asked, PollFlags::IN));
        if waited.len() > 1 {
            match poll(&mut waited, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        if waited.last().is_some_and(|asked| !asked.revents().is_empty()) {
            break;
        }
        running = folder.running();
    }
    Ok(())
}

fn send_on(origin: &Origin, program: &Child) {
    if origin.signal == SIGCHLD || origin.cause == Cause::Kernel {
        return;
    }
    let process = i32::try_from(program.id()).ok().and_then(Pid::from_raw);
    if let (Some(process), Some(signal)) = (process, Signal::from_named_raw(origin.signal)) {
        // The program may have ended before this call. The next round then reads its status.
        let _sent = kill_process(process, signal);
    }
}
