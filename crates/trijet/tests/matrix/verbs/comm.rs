//! Communicators, buckets of gradients, pipelines of layers, and ranks.

use super::super::held::{Held, LEN};
use super::super::rows as row;
use super::verb::{Call, Verb, call};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use trijet::comm::{Communicator, Exchange};
use trijet::kernels::Sum;
use trijet::ranks::{LauncherRank, Ranks};
use trijet::training::{BucketPlan, GradientBuckets, LayerPipeline, MicroBatchOrder};
use trijet::{Buffer, Result};

/// A communicator of all devices, with two buffers on each of them.
struct Group {
    communicator: Communicator,
    from: Vec<Buffer<u32>>,
    into: Vec<Buffer<u32>>,
}

fn group(held: &Held) -> Result<Group> {
    let communicator = Communicator::builder().devices(&held.devices).open()?;
    let buffers = |value: u32, len| -> Result<Vec<Buffer<u32>>> {
        let upload = |device: &trijet::Device| device.stream()?.upload(&vec![value; len]);
        held.devices.iter().map(upload).collect()
    };
    let count = held.devices.len();
    Ok(Group { communicator, from: buffers(1, LEN)?, into: buffers(0, LEN * count)? })
}

fn with(held: &Held, run: impl FnOnce(&mut Group) -> Result<()> + Send + 'static) -> Result<Call> {
    let mut group = group(held)?;
    call(move |_, _| run(&mut group))
}

/// The views of all buffers, or of the given part of each.
macro_rules! views {
    ($buffers:expr) => {
        $buffers.iter().map(|one| one.view()).collect::<Vec<_>>()
    };
    (mut $buffers:expr, $len:expr) => {
        $buffers.iter_mut().map(|one| one.slice_mut(..$len)).collect::<Vec<_>>()
    };
}

type Buckets = GradientBuckets<f32, Sum>;

fn buckets(held: &Held) -> Result<Buckets> {
    let mut buckets = GradientBuckets::new(&held.devices, &[LEN, LEN], Sum)?;
    for device in 0..held.devices.len() {
        for gradient in 0..2 {
            held.devices[device]
                .stream()?
                .fill(&mut buckets.gradient_mut(device, gradient), 1.0)?;
        }
    }
    Ok(buckets)
}

fn in_buckets(
    held: &Held,
    run: impl FnOnce(&mut Buckets, &mut Held) -> Result<()> + Send + 'static,
) -> Result<Call> {
    let mut buckets = buckets(held)?;
    call(move |h, _| run(&mut buckets, h))
}

fn step(buckets: &mut Buckets) -> Result<()> {
    buckets.ready(1)?;
    buckets.ready(0)?;
    buckets.finish()
}

/// A port without a listener.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// The ranks of a group with one rank.
fn ranks() -> Result<Arc<Ranks>> {
    let address = format!("127.0.0.1:{}", port());
    Ranks::join(0, 1, &address, Duration::from_secs(60)).map(Arc::new)
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("CommunicatorBuilder::open", row::DEVICE, |_| {
        call(|h, _| Communicator::builder().devices(&h.devices).open().map(drop))
    }),
    Verb::new("CommunicatorBuilder::open, with NCCL", row::NCCL, |_| {
        call(|h, _| Communicator::builder().devices(&h.devices).nccl().open().map(drop))
    })
    .on_host(),
    Verb::new("Communicator::split", row::DEVICE, |h| {
        with(h, |g| g.communicator.split(&vec![0; g.from.len()]).map(drop))
    }),
    Verb::new("Communicator::close", row::DEVICE, |h| {
        let Group { communicator, .. } = group(h)?;
        call(move |_, _| communicator.close())
    }),
    Verb::new("Communicator::recorded", row::DEVICE, |h| {
        let Group { communicator, .. } = group(h)?;
        call(move |h, _| h.device.record(|g| communicator.recorded(g).map(drop)).map(drop))
    }),
    Verb::new("Communicator::failure", row::LOCAL, |h| {
        with(h, |g| {
            assert!(g.communicator.failure().is_none());
            Ok(())
        })
    }),
    Verb::new("Communicator::all_reduce", row::OWN_STREAMS, |h| {
        with(h, |g| g.communicator.all_reduce(&mut views!(mut g.from, LEN), Sum))
    })
    .on_host(),
    Verb::new("Communicator::broadcast", row::OWN_STREAMS, |h| {
        with(h, |g| g.communicator.broadcast(&mut views!(mut g.from, LEN), 0))
    })
    .on_host(),
    Verb::new("Communicator::reduce", row::OWN_STREAMS, |h| {
        with(h, |g| {
            let into = g.into[0].slice_mut(..LEN);
            g.communicator.reduce(&views!(g.from), Some(into), Sum, 0)
        })
    }),
    Verb::new("Communicator::all_gather", row::OWN_STREAMS, |h| {
        with(h, |g| {
            let len = LEN * g.from.len();
            g.communicator.all_gather(&views!(g.from), &mut views!(mut g.into, len))
        })
    }),
    Verb::new("Communicator::reduce_scatter", row::OWN_STREAMS, |h| {
        with(h, |g| {
            let len = LEN / g.from.len();
            g.communicator.reduce_scatter(&views!(g.from), &mut views!(mut g.into, len), Sum)
        })
    }),
    Verb::new("Communicator::all_to_all", row::OWN_STREAMS, |h| {
        with(h, |g| g.communicator.all_to_all(&views!(g.from), &mut views!(mut g.into, LEN)))
    }),
    Verb::new("Communicator::exchange", row::OWN_STREAMS, |h| {
        with(h, |g| {
            let last = g.from.len() - 1;
            let into = g.into[last].slice_mut(..LEN);
            let messages = Exchange::new().send(g.from[0].view(), last).receive(into, 0);
            g.communicator.exchange(messages)
        })
    }),
    Verb::new("GradientBuckets::new", row::OWN_STREAMS, |_| call(|h, _| buckets(h).map(drop)))
        .on_host(),
    Verb::new("GradientBuckets::set_plan", row::OWN_STREAMS, |h| {
        in_buckets(h, |buckets, _| {
            let plans = BucketPlan::candidates();
            let is_other = |plan: &&BucketPlan| **plan != buckets.plan();
            buckets.set_plan(*plans.iter().find(is_other).expect("another one"))
        })
    })
    .on_host(),
    Verb::new("GradientBuckets::ready", row::OWN_STREAMS, |h| {
        in_buckets(h, |buckets, _| {
            buckets.ready(1)?;
            buckets.ready(0)
        })
    })
    .on_host(),
    Verb::new("GradientBuckets::finish", row::OWN_STREAMS, |h| {
        in_buckets(h, |buckets, _| step(buckets))
    })
    .on_host(),
    Verb::new("GradientBuckets::begin", row::LOCAL, |h| {
        let mut buckets = buckets(h)?;
        step(&mut buckets)?;
        call(move |_, _| buckets.begin())
    })
    .on_host(),
    Verb::new("GradientBuckets::record", row::DEVICE, |h| {
        in_buckets(h, |buckets, h| {
            buckets.begin()?;
            h.device.record(|g| buckets.record(g, step)).map(drop)
        })
    })
    .on_host(),
    Verb::new("GradientBuckets::tune", row::OWN_STREAMS_WAIT, |h| {
        in_buckets(h, |buckets, _| {
            let plans = BucketPlan::candidates();
            buckets.tune(&plans[..1], step).map(drop)
        })
    }),
    Verb::new("LayerPipeline::new", row::OWN_STREAMS, |_| {
        call(|h, _| {
            let lens = vec![LEN; h.devices.len() - 1];
            LayerPipeline::<f32>::new(&h.devices, &lens, MicroBatchOrder::Forward, 2).map(drop)
        })
    })
    .on_host(),
    Verb::new("LayerPipeline::run", row::OWN_STREAMS, |h| {
        let lens = vec![LEN; h.devices.len() - 1];
        let mut layers = LayerPipeline::<f32>::new(&h.devices, &lens, MicroBatchOrder::Forward, 2)?;
        call(move |_, _| {
            layers.run(|work| match work.output {
                Some(mut output) => work.stream.fill(&mut output, 1.0),
                None => Ok(()),
            })
        })
    })
    .on_host(),
    Verb::new("Ranks::join", row::JOINS, |_| call(|_, _| ranks().map(drop))),
    Verb::new("Ranks::join_with_token", row::JOINS, |_| {
        let address = format!("127.0.0.1:{}", port());
        call(move |_, _| {
            let limit = Duration::from_secs(60);
            Ranks::join_with_token(0, 1, &address, b"the job", limit).map(drop)
        })
    }),
    Verb::new("LauncherRank::join", row::JOINS, |_| {
        let port = port();
        call(move |_, _| {
            let variables = [
                ("RANK", "0".to_owned()),
                ("LOCAL_RANK", "0".to_owned()),
                ("WORLD_SIZE", "2".to_owned()),
                ("MASTER_ADDR", "127.0.0.1".to_owned()),
                // The processes of a torchrun job meet at the port after `MASTER_PORT`.
                ("MASTER_PORT", (port - 1).to_string()),
            ];
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.clone())
            };
            let launch = LauncherRank::of(value)?.expect("a job of two");
            let limit = Duration::from_secs(60);
            // This thread ends with the process if rank 0 is refused.
            let other = std::thread::spawn(move || {
                Ranks::join(1, 2, &format!("127.0.0.1:{port}"), limit).map(drop)
            });
            launch.join(limit)?;
            other.join().expect("it does not panic")
        })
    }),
    Verb::new("Ranks::barrier", row::RANKS, |_| {
        let ranks = ranks()?;
        call(move |_, _| ranks.barrier())
    }),
    Verb::new("Ranks::broadcast", row::RANKS, |_| {
        let ranks = ranks()?;
        call(move |_, _| ranks.broadcast(&[1]).map(drop))
    }),
    Verb::new("Ranks::gather", row::RANKS, |_| {
        let ranks = ranks()?;
        call(move |_, _| ranks.gather(&[1]).map(drop))
    }),
    Verb::new("Ranks::agree", row::RANKS, |_| {
        let ranks = ranks()?;
        call(move |_, _| ranks.agree("a number", 1))
    }),
    Verb::new("Ranks::failure", row::LOCAL, |_| {
        let ranks = ranks()?;
        call(move |_, _| {
            let _failure = ranks.failure();
            Ok(())
        })
    }),
    Verb::new("Ranks::drop", row::LOCAL, |_| {
        let ranks = ranks()?;
        call(move |_, _| {
            drop(ranks);
            Ok(())
        })
    }),
    Verb::new("CommunicatorBuilder::open, for a rank", row::DEVICE, |_| {
        let ranks = ranks()?;
        call(move |h, _| Communicator::builder().rank(&h.device, &ranks).open().map(drop))
    }),
    Verb::new("CommunicatorBuilder::open, for a rank with NCCL", row::NCCL, |_| {
        let ranks = ranks()?;
        call(move |h, _| Communicator::builder().rank(&h.device, &ranks).nccl().open().map(drop))
    })
    .on_host(),
    Verb::new("Communicator::drop", row::LOCAL, |h| {
        let group = group(h)?;
        call(move |_, _| {
            drop(group);
            Ok(())
        })
    }),
    Verb::new("GradientBuckets::of_rank", row::OWN_STREAMS, |_| {
        let ranks = ranks()?;
        call(move |h, _| Buckets::of_rank(&h.device, &ranks, &[LEN], Sum).map(drop))
    })
    .on_host(),
];
