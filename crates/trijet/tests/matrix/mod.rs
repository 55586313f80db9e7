//! Every public verb that reaches the driver or takes a lock, in every context that a program can
//! call it from.
//!
//! `verbs` is the table. A row of the table has a verb, the way to call it, and its answers. A cell
//! is one verb in one context. Each cell gets new handles. The call must give the answer of its
//! row, and have its effect or none. Afterwards the device must work if the laws promise that. The
//! cells of a context run in a separate process. A cell that hangs or ends its process is one
//! failure with a name, and the cells after it run in another process.

mod cell;
mod context;
mod contexts;
mod fork;
mod held;
mod outcome;
mod rows;
mod verbs;

use context::{ALL, Context, ON_CUDA};
pub(crate) use held::Open;

use outcome::FAULT;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Two variables: the device and the context of the cells that a process runs, and the index of its
/// first cell.
const DEVICE: &str = "TRIJET_MATRIX_DEVICE";
const CONTEXT: &str = "TRIJET_MATRIX_CONTEXT";
const FIRST: &str = "TRIJET_MATRIX_FIRST";

/// A cell that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// If this many cells of a context have ended their process or hung, the other cells are not tried.
const DEATHS_MAX: usize = 4;

/// The start of the line that a process prints before each cell, and the line at its end.
const BEGIN: &str = "@begin ";
const END: &str = "@end";

/// How a process that runs cells has ended.
enum Ended {
    /// The process has run all cells.
    Done,
    /// The process ended in this cell, or hung there.
    In(usize, &'static str),
}

/// Runs the cells of a context from `first` on in a process, the ignored test `cells` of this
/// program.
fn process(
    (cells, open): (&str, Open),
    context: Context,
    first: usize,
    faults: &mut Vec<String>,
) -> Ended {
    let this = std::env::current_exe().expect("the path of this program");
    let mut child = Command::new(this)
        .args(["--exact", cells, "--ignored", "--nocapture"])
        .env(DEVICE, open.name())
        .env(CONTEXT, context.name())
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program starts again");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let (lines, received) = channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    let (mut at, mut ended) = (first, Ended::In(first, "ended its process"));
    loop {
        match received.recv_timeout(PATIENCE) {
            // The test harness may have printed text on the same line before.
            Ok(line) => {
                if let Some((_, number)) = line.split_once(BEGIN) {
                    at = number.parse().expect("the number of a cell");
                    ended = Ended::In(at, "ended its process");
                } else if let Some((_, fault)) = line.split_once(FAULT) {
                    faults.push(format!("{}, {fault}", context.name()));
                } else if line.contains(END) {
                    ended = Ended::Done;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                ended = Ended::In(at, "hangs");
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // A process that has ended cannot be killed. This error is expected.
    drop(child.kill());
    child.wait().expect("a child of this process");
    reader.join().expect("the reader does not panic");
    ended
}

/// The failures of all cells of a context.
fn faults_in(cells: (&str, Open), context: Context) -> Vec<String> {
    let verbs = verbs::all();
    let (mut faults, mut first, mut deaths) = (Vec::new(), 0, 0);
    while let Ended::In(at, how) = process(cells, context, first, &mut faults) {
        faults.push(format!("{}, {}: {how}", context.name(), verbs[at].name));
        first = at + 1;
        deaths += 1;
        if deaths == DEATHS_MAX && first < verbs.len() {
            faults.push(format!("{}: the cells after this one did not run", context.name()));
            break;
        }
        if first == verbs.len() {
            break;
        }
    }
    faults
}

/// Demands the right answer of each verb in each context of these devices. `cells` is the path of
/// the ignored test of this program that calls [`run_cells`].
pub(crate) fn demand(cells: &str, open: Open) {
    let contexts = match open {
        Open::Host => &ALL[..],
        Open::Cuda => &ON_CUDA,
    };
    let faults: Vec<String> = std::thread::scope(|scope| {
        let spawned: Vec<_> = contexts
            .iter()
            .map(|&context| scope.spawn(move || faults_in((cells, open), context)))
            .collect();
        spawned.into_iter().flat_map(|one| one.join().expect("it does not panic")).collect()
    });
    assert!(faults.is_empty(), "{} cells:\n{}", faults.len(), faults.join("\n"));
}

/// Runs the cells that the parent of this process asks for.
pub(crate) fn run_cells() {
    let Ok(context) = std::env::var(CONTEXT) else { return };
    let context = Context::named(&context);
    let open = Open::named(&std::env::var(DEVICE).expect("the name of a device"));
    let first: usize = std::env::var(FIRST).map_or(0, |first| first.parse().expect("a number"));
    // Panics are answers here, and some contexts panic.
    std::panic::set_hook(Box::new(|_| ()));
    for (number, verb) in verbs::all().iter().enumerate().skip(first) {
        if verb.is_of_host && open == Open::Cuda {
            continue;
        }
        println!("{BEGIN}{number}");
        if let Err(fault) = cell::cell(open, context, verb) {
            println!("{FAULT}{}: {}", verb.name, fault.replace('\n', " "));
        }
    }
    println!("{END}");
}
