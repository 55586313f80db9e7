//! Training steps in PyTorch, with the heap of the library and with PyTorch's own allocators. The
//! programs take turns, and their losses must have the same bits.
#![forbid(unsafe_code)]

use crate::peer::{Outcome, Peer, Scripts};
use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use serde::Deserialize;
use std::cell::RefCell;
use std::path::Path;
use trijet::{Error, ErrorKind, Result};
use trijet_tools::progress::Steps;

/// The file name of the library with the allocator. The library lies in the folder of the command.
const LIBRARY: &str = "libtrijet_alloc.so";
/// The name of the figure with the digest of the losses of a program.
const DIGEST: &str = "losses";

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    #[serde(default)]
    allocators: Vec<Peer>,
}

/// The results of the programs that have run.
#[derive(Debug, Default)]
struct Shown {
    /// The digest of the losses of the first program that ran, and the name of that program.
    digest: Option<(f64, String)>,
    note: String,
}

impl Shown {
    /// Compares the losses of a program with the losses of the first program. Returns the other
    /// figures of this program.
    fn compare(&mut self, name: &str, outcome: Outcome) -> Result<Vec<Value>> {
        let wrong = |cause| Err(Error::new(ErrorKind::InvalidValue, "bench training", cause));
        let (digests, figures): (Vec<Value>, Vec<Value>) =
            outcome.values.into_iter().partition(|value| value.what == DIGEST);
        let [digest] = &digests[..] else {
            return wrong(format!("{name} printed {} digests of its losses, not 1", digests.len()));
        };
        match &self.digest {
            Some((first, of)) if *first != digest.value => {
                return wrong(format!("the losses of {name} differ from the losses of {of}"));
            }
            Some(_) => {}
            None => self.digest = Some((digest.value, name.to_owned())),
        }
        self.note = outcome.note;
        Ok(figures)
    }
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` if the losses of two programs differ; every error of the device and of a program.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let mut results = Results::of_device(setting.device);
    if definition.allocators.is_empty() {
        results.note("training", "not run: PyTorch allocates device memory on a GPU only");
        return Ok(results);
    }
    steps.expect(1);
    steps.begin("training in turn");
    let library = setting.folder.join(LIBRARY);
    let (scripts, shown) = (Scripts::new()?, RefCell::<Shown>::default());
    let mut sides = Vec::new();
    for peer in &definition.allocators {
        if let Some(why) = missing(peer, &library) {
            results.note(peer.name.clone(), why);
            continue;
        }
        let words = [scripts.words(), ("library", vec![library.display().to_string()])];
        let shown = &shown;
        sides.push(Side::new(peer.name.clone(), move || {
            let outcome = peer.run(&words)?;
            shown.borrow_mut().compare(&peer.name, outcome)
        }));
    }
    if sides.is_empty() {
        return Ok(results);
    }
    let count = sides.len();
    record(setting, &mut sides, definition.samples, str::to_owned, &mut results)?;
    drop(sides);
    let note = shown.into_inner().note;
    results
        .note("verified", format!("the losses of {count} allocators have the same bits; {note}"));
    Ok(results)
}

/// The reason why a program cannot run here.
fn missing(peer: &Peer, library: &Path) -> Option<String> {
    if peer.names("{library}") && !library.exists() {
        return Some(format!(
            "not run: {LIBRARY} is not in the folder of the command; `cargo xtask bundle` puts it there"
        ));
    }
    peer.missing()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;
    use crate::setting::checked_device;
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    /// Measures shell programs, each given by its name and the text that it prints. Returns the
    /// rows.
    fn measured(programs: &[(&str, &str)]) -> Result<String> {
        let quoted = |text: &str| format!("{text:?}");
        let allocators: String = programs
            .iter()
            .map(|(name, script)| {
                format!(
                    "[[allocators]]\nname = {}\nprobe = [\"true\"]\ncommand = [\"sh\", \"-c\", {}]\nlimit_s = 60\n",
                    quoted(name),
                    quoted(script)
                )
            })
            .collect();
        let definition: Definition = parse(&format!("samples = 2\n{allocators}"))?;
        let device = checked_device(Order::Greedy)?;
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        Ok(run(&setting, &definition, &mut Steps::new(&mut show))?.to_string())
    }

    const SAME: &str = "printf 'each step\\tms\\t2\\nlosses\\tdigest\\t77\\n'";

    #[test]
    fn programs_with_the_same_losses_have_rows_and_the_digest_has_none() -> Result<()> {
        let printed = measured(&[("one", SAME), ("two", SAME), ("three", "echo {library}")])?;
        for row in
            ["one: each step,ms,2.000,", "two: each step,ms,2.000,", "not run: libtrijet_alloc.so"]
        {
            assert!(printed.contains(row), "{row}: {printed}");
        }
        assert!(printed.contains("the losses of 2 allocators have the same bits"), "{printed}");
        assert!(!printed.contains("digest"), "{printed}");
        Ok(())
    }

    #[test]
    fn other_losses_and_missing_ones_are_refused() {
        let other = "printf 'each step\\tms\\t2\\nlosses\\tdigest\\t78\\n'";
        let error = measured(&[("one", SAME), ("two", other)]).expect_err("one bit differs");
        assert!(error.to_string().contains("two differ from the losses of one"), "{error}");
        let none = "printf 'each step\\tms\\t2\\n'";
        let error = measured(&[("one", none)]).expect_err("no digest");
        assert!(error.to_string().contains("0 digests"), "{error}");
    }

    #[test]
    fn a_host_device_has_a_row_that_says_why() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let mut show = |_: Step<'_>| ();
        let none = Definition { samples: 1, allocators: Vec::new() };
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &none, &mut Steps::new(&mut show))?.to_string();
        assert!(printed.contains("not run: PyTorch"), "{printed}");
        Ok(())
    }
}
