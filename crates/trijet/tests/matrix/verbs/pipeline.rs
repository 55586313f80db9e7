//! Pipelines, prepared ones, staged ones, calibrations, and explorations.

use super::super::held::{Held, LEN, WRITTEN};
use super::super::rows as row;
use super::verb::{Verb, call};
use std::ops::ControlFlow;
use trijet::explore::{Strategy, explore, replay};
use trijet::kernels::AFFINE_U8;
use trijet::pipeline::{Calibration, Prepared, Replay, rows_of};
use trijet::sim::{HostConfig, Order};
use trijet::staged::Staged;
use trijet::{Bytes, Device, Error, ErrorKind, PinnedBuffer, Pipeline, Result};

/// A pipeline that adds 5 to each byte.
fn pipeline<'a>(held: &Held, target: &'a mut Vec<u8>) -> Pipeline<'a> {
    Pipeline::on(&held.device)
        .source(rows_of(vec![2_u8; LEN], 8))
        .stage::<u8, u8>(|s, x, y| s.launch(&AFFINE_U8, (1.0, 5.0, x, y)))
        .sink(target)
        .chunk(Bytes(16))
        .depth(2)
}

/// A prepared pipeline that only one thread at a time uses.
struct AnyThread<'a>(Prepared<'a, u8, u8>);

// SAFETY: its stage is a function without a state.
unsafe impl Send for AnyThread<'_> {}

impl AnyThread<'_> {
    fn run(&mut self, x: &PinnedBuffer<u8>, y: &mut PinnedBuffer<u8>) -> Result<()> {
        self.0.run(x, y)
    }
}

/// Runs staged items until the sink ends the run, or to the end.
fn staged(held: &Held, until: bool) -> Result<()> {
    let mut staged = Staged::on(&held.device);
    let item = staged.item();
    let x = staged.stage("upload", item, |s, item: &u8| s.upload(&[*item; LEN]));
    let y = staged.host_stage("wait", item, |_, item: &u8| Ok(*item));
    let both = staged.stage("download", (x, y), |s, (x, _)| s.download(x));
    let (items, mut sums) = ((0..4).map(Ok), 0);
    let mut sink = |bytes: &Vec<u8>| {
        sums += usize::from(bytes[LEN - 1]);
        Ok(())
    };
    if until {
        let sink = |bytes: &Vec<u8>| sink(bytes).map(|()| ControlFlow::Continue(()));
        staged.run_until(items, both, sink)?;
    } else {
        staged.run(items, both, sink)?;
    }
    assert_eq!(sums, 6);
    Ok(())
}

fn program(devices: &[Device]) -> std::result::Result<u8, ErrorKind> {
    let run = || -> Result<u8> {
        let s = devices[0].stream()?;
        let x = s.upload(&[WRITTEN])?;
        Ok(s.download(&x)?[0])
    };
    run().map_err(|error| error.kind())
}

/// The value of the program, or its error.
fn value(found: std::result::Result<u8, ErrorKind>) -> Result<()> {
    assert!(found.is_err() || found == Ok(WRITTEN));
    found.map(drop).map_err(|kind| Error::new(kind, "explore", "the program failed"))
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("Pipeline::run", row::OWN_STREAMS, |_| {
        call(|h, _| {
            let mut bytes = Vec::new();
            pipeline(h, &mut bytes).run()?;
            assert_eq!(bytes, [7; LEN]);
            Ok(())
        })
    }),
    Verb::new("Pipeline::needs", row::LOCAL, |_| {
        call(|h, _| pipeline(h, &mut Vec::new()).needs().map(drop))
    }),
    Verb::new("Pipeline::plan", row::LOCAL, |_| {
        call(|h, _| pipeline(h, &mut Vec::new()).plan().map(drop))
    }),
    Verb::new("Pipeline::prepare", row::OWN_STREAMS, |h| {
        let (x, mut y) = (h.device.pinned::<u8>(LEN)?, h.device.pinned::<u8>(LEN)?);
        call(move |h, _| {
            let pipeline = Pipeline::on(&h.device).chunk(Bytes(16)).depth(2);
            let stage = pipeline.stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y));
            stage.prepare(&x, &mut y, 8).map(drop)
        })
    }),
    Verb::new("Prepared::run", row::OWN_STREAMS, |h| {
        let (mut x, mut y) = (h.device.pinned::<u8>(LEN)?, h.device.pinned::<u8>(LEN)?);
        x.write()?.fill(WRITTEN);
        let pipeline = Pipeline::on(&h.device).chunk(Bytes(16)).depth(2).replay(Replay::Fixed);
        let stage = pipeline.stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y));
        let mut prepared = AnyThread(stage.prepare(&x, &mut y, 8)?);
        call(move |_, _| {
            prepared.run(&x, &mut y)?;
            assert_eq!(y.read()?[..], [WRITTEN; LEN]);
            Ok(())
        })
    }),
    Verb::new("Calibration::measure", row::OWN_STREAMS, |_| {
        call(|h, _| Calibration::measure(&h.device, Bytes(1 << 20)).map(drop))
    }),
    Verb::new("Staged::run", row::OWN_STREAMS, |_| call(|h, _| staged(h, false))),
    Verb::new("Staged::run_until", row::OWN_STREAMS, |_| call(|h, _| staged(h, true))),
    Verb::new("explore::explore", row::EXPLORES, |_| {
        call(|_, _| {
            let strategy = Strategy::Exhaustive { runs_max: 2 };
            let found = explore(&HostConfig::default(), strategy, program)?;
            value(found.outcomes[0].value)
        })
    }),
    Verb::new("explore::replay", row::EXPLORES, |_| {
        call(|_, _| value(replay(&HostConfig::default(), &Order::Greedy, program)?))
    }),
];
