//! Processes that work together: they join, agree, and learn of the loss of one of them.

mod collectives;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, SystemTime};
use trijet::comm::{Communicator, Exchange};
use trijet::kernels::{Max, Min, Reduction, Sum};
use trijet::ranks::Ranks;
use trijet::testing::Prng;
use trijet::training::{BucketPlan, GradientBuckets, Transport};
use trijet::{Bytes, Device, Error, ErrorKind, Result, Select, Stream, View, ViewMut};

/// Far longer than any call of these tests takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// A timeout that tests wait for. The ranks that do come have this long.
const SHORT: Duration = Duration::from_secs(5);
/// The environment variable that makes a process of this program a rank: rank, number of ranks,
/// address, timeout in seconds.
const RANK: &str = "TRIJET_TEST_RANK";
/// The environment variable that makes a process of this program a rank that leaves at once: rank
/// and address.
const LEAVES: &str = "TRIJET_TEST_LEAVES";
/// The number of ranks that leave together.
const LEAVERS: usize = 4;

/// An address where no process listens now. Each call gets another number of the host, so that no
/// other test gets the same address.
fn address() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
    let parts = [process / 250 % 250, process % 250, count % 250].map(|part| part + 1);
    let listener = TcpListener::bind(format!("127.{}.{}.{}:0", parts[0], parts[1], parts[2]));
    let listener = listener.expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

/// Runs ranks as threads, each with its number and a number of ranks.
fn joined<T: Send>(
    ranks: &[(usize, usize)],
    timeout: Duration,
    run: impl Fn(Result<Ranks>) -> T + Sync,
) -> Vec<T> {
    let (address, run) = (address(), &run);
    std::thread::scope(|scope| {
        let start = |&(rank, count): &(usize, usize)| {
            let address = address.clone();
            scope.spawn(move || run(Ranks::join(rank, count, &address, timeout)))
        };
        let threads: Vec<_> = ranks.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn all(count: usize) -> Vec<(usize, usize)> {
    (0..count).rev().map(|rank| (rank, count)).collect()
}

fn errors(ranks: &[(usize, usize)], timeout: Duration) -> Vec<Error> {
    joined(ranks, timeout, |ranks| ranks.expect_err("they do not join"))
}

#[test]
fn ranks_join_in_any_order_and_call_together() {
    for count in 1..=8 {
        let values = joined(&all(count), LONG, |ranks| -> Result<usize> {
            let ranks = ranks?;
            let own = [u8::try_from(ranks.rank()).expect("few") + 7; 1000];
            assert_eq!(ranks.broadcast(&own)?, [7; 1000]);
            for step in 0..50 {
                ranks.agree("step", step)?;
                ranks.barrier()?;
            }
            assert!(ranks.failure().is_none());
            Ok(ranks.rank())
        });
        let found: Vec<usize> = values.into_iter().map(|value| value.expect("well")).collect();
        assert_eq!(found, (0..count).rev().collect::<Vec<_>>());
    }
}

#[test]
fn a_disagreement_is_named_on_all_ranks_and_is_no_loss() {
    let told = joined(&all(3), LONG, |ranks| -> Result<String> {
        let ranks = ranks?;
        let rank = ranks.rank();
        let value = if rank == 2 { 9 } else { 4 };
        let error = ranks.agree("the batch size", value).expect_err("9 is not 4");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        let other = if rank == 1 { ranks.barrier() } else { ranks.agree("the batch size", 4) };
        let other = other.expect_err("these are two calls").to_string();
        assert!(other.contains("rank 1 makes call 1 `barrier`"), "{other}");
        ranks.barrier()?;
        Ok(error.to_string())
    });
    for told in told {
        let told = told.expect("they join");
        assert!(told.contains("`the batch size` is 9 on rank 2, and 4 on rank 0"), "{told}");
    }
}

#[test]
fn contradictions_are_named_on_all_ranks() {
    for (ranks, cause) in [
        ([(0, 3), (1, 3), (1, 3)], "rank 1 has joined twice"),
        ([(0, 3), (1, 3), (2, 4)], "was started with 4 ranks, but rank 0 with 3"),
    ] {
        for error in errors(&ranks, LONG) {
            assert!(error.to_string().contains(cause), "{error}");
        }
    }
    let kind = |rank, count, timeout| {
        let error = Ranks::join(rank, count, "127.0.0.1:1", timeout);
        error.expect_err("it is refused").kind()
    };
    assert_eq!(kind(2, 2, LONG), ErrorKind::InvalidValue);
    assert_eq!(kind(0, 0, LONG), ErrorKind::InvalidValue);
    assert_eq!(kind(0, 2, Duration::from_millis(10)), ErrorKind::InvalidValue);
}

/// Connects to rank 0 as soon as it listens, and sends something.
fn stranger(address: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = loop {
        if let Ok(stream) = TcpStream::connect(address) {
            break stream;
        }
        std::thread::yield_now();
    };
    // Rank 0 may have closed the connection before the write ends.
    drop(stream.write_all(bytes));
    stream
}

/// Waits until the other end closes a connection.
fn await_end(mut stream: TcpStream) {
    let mut answer = Vec::new();
    // Unread bytes make the end an error.
    drop(stream.read_to_end(&mut answer));
    assert!(answer.len() < 1000, "{} bytes for a stranger", answer.len());
}

/// Bytes that a probe, a scanner or an accident sends.
fn probes() -> Vec<Vec<u8>> {
    let noise: Vec<u8> =
        (0..20_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    vec![
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"\r\n".to_vec(),
        vec![0xff; 4],
        noise,
    ]
}

#[test]
fn strangers_at_the_port_are_dropped_and_the_ranks_join() {
    let address = address();
    std::thread::scope(|scope| {
        let join = |rank| Ranks::join(rank, 3, &address, LONG).and_then(|ranks| ranks.barrier());
        let zero = scope.spawn(move || join(0));
        for probe in probes() {
            await_end(stranger(&address, &probe));
        }
        // These send nothing, or the half of a word, and stay; or they leave.
        let mut silent: Vec<_> = (0..200).map(|_| stranger(&address, b"")).collect();
        silent.extend((0..20).map(|_| stranger(&address, b"trij")));
        (0..20).for_each(|_| drop(stranger(&address, b"tri")));
        let others = [1, 2].map(|rank| scope.spawn(move || join(rank)));
        for rank in [zero].into_iter().chain(others) {
            rank.join().expect("no panic").expect("they join");
        }
    });
}

#[test]
fn strangers_are_named_when_the_join_fails() {
    let address = address();
    std::thread::scope(|scope| {
        let zero = scope.spawn(|| Ranks::join(0, 2, &address, LONG));
        await_end(stranger(&address, b"GET / HTTP/1.1\r\n\r\n"));
        (0..9).for_each(|_| await_end(stranger(&address, b"\x1b[2J")));
        Ranks::join(1, 3, &address, LONG).expect_err("there are 2 ranks");
        let told = zero.join().expect("no panic").expect_err("there are not 3").to_string();
        assert!(told.contains("was started with 3 ranks, but rank 0 with 2; "), "{told}");
        assert!(told.contains("is not from a rank: it sent `GET / HT`"), "{told}");
        assert!(
            told.contains(r"it sent `\x1b[2J`") && told.ends_with("and 7 more such connections"),
            "{told}"
        );
    });
}

#[test]
fn a_foreign_listener_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::scope(|scope| {
        let one = scope.spawn(|| Ranks::join(1, 2, &address, LONG));
        let (mut stream, _) = listener.accept().expect("rank 1 connects");
        stream.write_all(b"220 mail.example ready\r\n").expect("rank 1 reads");
        let error = one.join().expect("no panic").expect_err("no rank 0");
        assert!(error.to_string().contains("is not rank 0: it sent `220 mail`"), "{error}");
    });
}

/// The bytes of a hello and of a proof.
const HELLO: usize = 32;
const PROOF: usize = 32;

/// Joins two ranks through a thread between them. Returns the first bytes of rank 1: its hello and
/// its proof.
fn recorded_join(token: &[u8]) -> Vec<u8> {
    let (address, between) = (address(), TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let way = between.local_addr().expect("it is bound").to_string();
    std::thread::scope(|scope| {
        let join = |rank, to: String| {
            Ranks::join_with_token(rank, 2, &to, token, LONG).and_then(|ranks| ranks.barrier())
        };
        let zero = scope.spawn({
            let address = address.clone();
            move || join(0, address)
        });
        let one = scope.spawn(move || join(1, way));
        let (mut inward, _) = between.accept().expect("rank 1 connects");
        let mut onward = stranger(&address, b"");
        let (mut back, mut to_one) =
            (onward.try_clone().expect("a copy"), inward.try_clone().expect("a copy"));
        scope.spawn(move || {
            // Either end may close first.
            drop(std::io::copy(&mut back, &mut to_one));
            drop(to_one.shutdown(Shutdown::Write));
        });
        let mut first = vec![0; HELLO + PROOF];
        for part in [0..HELLO, HELLO..HELLO + PROOF] {
            inward.read_exact(&mut first[part.clone()]).expect("rank 1 says it");
            onward.write_all(&first[part]).expect("rank 0 reads it");
        }
        drop(std::io::copy(&mut inward, &mut onward));
        drop(onward.shutdown(Shutdown::Write));
        for rank in [zero, one] {
            rank.join().expect("no panic").expect("they join");
        }
        first
    })
}

/// Rank 0 of two with a token, after `come` was at its port. Returns its error. In the end a rank
/// of the job contradicts it.
fn zero_alone(token: &[u8], come: impl FnOnce(&str)) -> String {
    let address = address();
    std::thread::scope(|scope| {
        let zero = scope.spawn(|| Ranks::join_with_token(0, 2, &address, token, LONG));
        come(&address);
        Ranks::join_with_token(1, 3, &address, token, LONG).expect_err("there are 2 ranks");
        let told = zero.join().expect("no panic").expect_err("there are not 3").to_string();
        assert!(told.contains("was started with 3 ranks, but rank 0 with 2"), "{told}");
        told
    })
}

#[test]
fn only_ranks_with_the_token_of_the_job_join() {
    let address = address();
    let join = |rank| {
        let ranks = Ranks::join_with_token(rank, 3, &address, b"a token", LONG);
        ranks.and_then(|ranks| ranks.barrier())
    };
    let join = &join;
    let outcome = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|rank| scope.spawn(move || join(rank))).collect();
        threads.into_iter().map(|one| one.join().expect("no panic")).collect::<Result<Vec<_>>>()
    });
    outcome.expect("they have one token");
    for [own, other] in [[b"a token".as_slice(), b"another"], [b"a token", b""], [b"", b"a token"]]
    {
        let told = zero_alone(own, |address| {
            let error = Ranks::join_with_token(1, 2, address, other, LONG);
            let told = error.expect_err("it is of another job").to_string();
            assert!(told.contains("TRIJET_JOB_TOKEN"), "{told}");
        });
        assert!(
            told.contains("claims to be rank 1, but does not have the token of this job"),
            "{told}"
        );
    }
}

/// Rank 0 asks each connection for another proof.
#[test]
fn what_a_rank_sent_is_no_proof_for_others() {
    let token = b"seventeen letters";
    let first = recorded_join(token);
    assert!(!first.windows(token.len()).any(|part| part == token), "the token is not sent");
    let told = zero_alone(token, |address| await_end(stranger(address, &first)));
    assert!(told.contains("does not have the token of this job"), "{told}");
}

/// Rank 0 trusts no length that a stranger sends.
#[test]
fn a_stranger_that_claims_large_frames_or_many_ranks_gets_nothing() {
    let address = address();
    std::thread::scope(|scope| {
        let join = |rank| Ranks::join(rank, 2, &address, LONG).and_then(|ranks| ranks.barrier());
        let zero = scope.spawn(move || join(0));
        let numbers =
            |bytes: [u8; 8]| [&b"trijet-2"[..], &bytes, &[7; 16], &[0xff; 100_000]].concat();
        for hello in [numbers([0xff; 8]), numbers([1, 0, 0, 0, 2, 0, 0, 0])] {
            await_end(stranger(&address, &hello));
        }
        join(1).expect("they join");
        zero.join().expect("no panic").expect("they join");
    });
    // A rank trusts no length either that a process in place of rank 0 sends.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::scope(|scope| {
        let one = scope.spawn(|| Ranks::join(1, 2, &address, LONG));
        let (mut stream, _) = listener.accept().expect("rank 1 connects");
        let answer = [&b"trijet-2"[..], &[7; 16], &[0xff; 100_000]].concat();
        drop(stream.write_all(&answer));
        let told = one.join().expect("no panic").expect_err("no rank 0").to_string();
        assert!(told.contains("it does not have the token of this rank"), "{told}");
    });
}

/// All of these wait for a timeout, so they wait at the same time.
#[test]
fn a_rank_that_others_wait_for_is_named() {
    std::thread::scope(|scope| {
        scope.spawn(ranks_that_do_not_join_are_named);
        scope.spawn(a_rank_that_is_late_is_named_on_all_ranks);
        scope.spawn(a_rank_that_does_not_come_to_a_collective_is_named);
        scope.spawn(a_frozen_process_is_named_by_all_others);
    });
}

fn ranks_that_do_not_join_are_named() {
    let few = || {
        for error in errors(&[(0, 4), (1, 4)], SHORT) {
            assert_eq!(error.kind(), ErrorKind::PeerLost);
            let told = error.to_string();
            assert!(told.contains("ranks 2, 3 of 4 have not joined within 5s"), "{told}");
        }
    };
    let alone = || {
        let error = errors(&[(1, 2)], SHORT).remove(0);
        assert!(error.to_string().contains("rank 0 of 2 was not found at"), "{error}");
    };
    // Both wait for the timeout.
    std::thread::scope(|scope| {
        scope.spawn(few);
        alone();
    });
}

/// Each rank in turn does not come to a call, but lives.
fn a_rank_that_is_late_is_named_on_all_ranks() {
    let test = |late: usize| {
        // The late one waits here until the others have their errors.
        let told_so = Barrier::new(3);
        let told = joined(&all(3), SHORT, |ranks| {
            let ranks = ranks.expect("they join");
            let called = (ranks.rank() != late).then(|| ranks.barrier());
            told_so.wait();
            // The news may still be on its way.
            while ranks.failure().is_none() {
                std::thread::yield_now();
            }
            let error = called.unwrap_or_else(|| ranks.barrier()).expect_err("one is late");
            assert_eq!(error.kind(), ErrorKind::PeerLost);
            assert_eq!(ranks.failure().expect("it stays").to_string(), error.to_string());
            error.to_string()
        });
        for told in told {
            let expected = format!("rank {late} of 3 did not call `barrier` within 5s");
            assert!(told.contains(&expected), "{told}");
        }
    };
    std::thread::scope(|scope| {
        for late in 0..3 {
            scope.spawn(move || test(late));
        }
    });
}

/// A rank that leaves is lost only when the others call it. The call before succeeds on all ranks,
/// although some ranks are already in the next call when others get the answer.
#[test]
fn a_rank_that_has_left_is_named_when_it_is_missed() {
    for gone in (0..3).cycle().take(90) {
        let outcome = joined(&all(3), LONG, |ranks| {
            let ranks = ranks.expect("they join");
            ranks.barrier().expect("all are there");
            (ranks.rank() != gone).then(|| ranks.barrier().expect_err("one has left").to_string())
        });
        for told in outcome.into_iter().flatten() {
            let expected = format!("rank {gone} of 3 has left before `barrier`");
            assert!(told.contains(&expected), "{told}");
        }
    }
}

/// A communicator of a rank on a host device.
fn communicator(ranks: Result<Ranks>) -> Result<(Device, Communicator)> {
    let device = Device::open(Select::Host(0))?;
    let communicator = Communicator::builder().rank(&device, &Arc::new(ranks?)).open()?;
    Ok((device, communicator))
}

#[test]
fn every_collective_gives_each_rank_what_it_must_have() {
    for count in 1..=5 {
        let outcome = joined(&all(count), LONG, |ranks| -> Result<()> {
            let (device, communicator) = communicator(ranks)?;
            for (seed, len) in (0..).zip([0, 1, 7, 64, 1000]) {
                collectives::all::<f32>(&communicator, std::slice::from_ref(&device), len, seed)?;
            }
            // More than a frame of a connection.
            collectives::all::<f32>(&communicator, &[device], 30_000, 9)?;
            communicator.close()
        });
        outcome.into_iter().for_each(|one| one.expect("well"));
    }
}

#[test]
fn minima_and_maxima_of_floats_do_not_depend_on_the_rank() {
    for count in 2..=3 {
        let outcome = joined(&all(count), LONG, |ranks| -> Result<()> {
            let (device, communicator) = communicator(ranks)?;
            collectives::extremes::follow_the_rule(&communicator, &[device])
        });
        outcome.into_iter().for_each(|one| one.expect("well"));
    }
}

#[test]
fn parts_of_ranks_are_communicators() {
    for seed in 0..6 {
        let outcome = joined(&all(4), LONG, |ranks| -> Result<()> {
            let rank = ranks.as_ref().map_or(0, Ranks::rank);
            let (device, communicator) = communicator(ranks)?;
            let number = u32::try_from((rank as u64 + seed) / 2 % 3).expect("few");
            let parts = communicator.split(&[number])?;
            collectives::all::<f32>(&parts[0], std::slice::from_ref(&device), 50, seed)?;
            collectives::all::<f32>(&communicator, &[device], 50, seed)
        });
        outcome.into_iter().for_each(|one| one.expect("well"));
    }
}

/// Communicators of the same ranks are independent: each thread has one, and the threads of a rank
/// run in any order.
#[test]
fn two_communicators_work_at_once() {
    let outcome = joined(&all(3), LONG, |ranks| -> Result<()> {
        let (device, ranks) = (Device::open(Select::Host(0))?, Arc::new(ranks?));
        let make = |_| Communicator::builder().rank(&device, &ranks).open();
        let communicators = (0..2).map(make).collect::<Result<Vec<_>>>()?;
        std::thread::scope(|scope| {
            let run = |(first, communicator): (u32, &Communicator)| -> Result<()> {
                let stream = device.stream()?;
                for step in first..first + 40 {
                    let mut data = stream.upload(&[step; 100])?;
                    communicator.all_reduce(&mut [data.view_mut()], Sum)?;
                    assert_eq!(stream.download(&data)?, [3 * step; 100]);
                }
                Ok(())
            };
            let start = |one| scope.spawn(move || run(one));
            let threads: Vec<_> = [1, 1000].into_iter().zip(&communicators).map(start).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })
    });
    outcome.into_iter().for_each(|one| one.expect("well"));
}

/// Ranks whose gradients become ready in different orders have the same buckets, and the same sums.
#[test]
fn gradients_of_ranks_are_summed_in_the_order_of_rank_0() {
    const LENS: [usize; 4] = [1000, 37, 4096, 1];
    let outcome = joined(&all(3), LONG, |ranks| -> Result<Vec<usize>> {
        let ranks = Arc::new(ranks?);
        let device = Device::open(Select::Host(0))?;
        let stream = device.stream()?;
        let mut gradients = GradientBuckets::<u32, _>::of_rank(&device, &ranks, &LENS, Sum)?;
        let own = u32::try_from(ranks.rank()).expect("few");
        let mut order = [2, 0, 3, 1];
        order.rotate_left(ranks.rank());
        let plans = [100, 5000].map(|bytes| BucketPlan {
            transport: Transport::Copies,
            first: Bytes(bytes),
            rest: Bytes(bytes),
        });
        let step = |gradients: &mut GradientBuckets<u32, Sum>| {
            gradients.begin()?;
            for layer in order {
                let value = (own + 1) * u32::try_from(layer + 1).expect("few");
                stream.fill(&mut gradients.gradient_mut(0, layer), value)?;
                gradients.ready(layer)?;
            }
            gradients.finish()?;
            for layer in order {
                let sums = stream.download(&gradients.gradient(0, layer))?;
                let sum = 6 * u32::try_from(layer + 1).expect("few");
                assert!(sums.iter().all(|found| *found == sum), "layer {layer}");
            }
            Ok(())
        };
        gradients.tune(&plans, step)?;
        step(&mut gradients)?;
        Ok(gradients.order().to_vec())
    });
    for order in outcome {
        assert_eq!(order.expect("well"), [2, 0, 3, 1]);
    }
}

/// Calls `run` on each rank, where it fails, and demands that all ranks get the same error.
fn fails(
    count: usize,
    timeout: Duration,
    cause: &str,
    run: fn(usize, &Device, &Communicator) -> Result<()>,
) {
    let told = joined(&all(count), timeout, |ranks| {
        let rank = ranks.as_ref().map_or(0, Ranks::rank);
        let (device, communicator) = communicator(ranks).expect("they join");
        let mut outcome = run(rank, &device, &communicator);
        // A rank that has not failed learns of it at its next calls.
        while outcome.is_ok() {
            let data = device.stream().and_then(|stream| stream.upload(&[0_u32]));
            let mut data = data.expect("a host device");
            outcome = communicator.all_reduce(&mut [data.view_mut()], Sum);
        }
        let error = outcome.expect_err("it has failed");
        assert_eq!(error.kind(), ErrorKind::PeerLost, "{error}");
        error.to_string()
    });
    for told in told {
        assert!(told.contains(cause), "{told}");
    }
}

#[test]
fn ranks_that_disagree_on_sizes_or_order_are_named() {
    fails(3, LONG, "collective 1 is `all_reduce` of", |rank, device, communicator| {
        let len = if rank == 1 { 5 } else { 4 };
        let mut data = device.stream()?.upload(&vec![0_u32; len])?;
        communicator.all_reduce(&mut [data.slice_mut(..4)], Sum)?;
        communicator.all_reduce(&mut [data.view_mut()], Sum)
    });
    fails(2, LONG, "on rank ", |rank, device, communicator| {
        let mut data = device.stream()?.upload(&[0_u32; 4])?;
        match rank {
            0 => communicator.all_reduce(&mut [data.view_mut()], Sum),
            _ => communicator.broadcast(&mut [data.view_mut()], 0),
        }
    });
    fails(2, LONG, "with root", |rank, device, communicator| {
        let mut data = device.stream()?.upload(&[0_u32; 4])?;
        communicator.broadcast(&mut [data.view_mut()], rank)
    });
    fails(
        2,
        LONG,
        "rank 1 sends messages of [3] elements to rank 0, which receives [4]",
        |rank, device, communicator| {
            let mut data = device.stream()?.upload(&[0_u32; 4])?;
            match rank {
                0 => communicator.exchange(Exchange::new().receive(data.view_mut(), 1)),
                _ => communicator.exchange(Exchange::new().send(data.slice(..3), 0)),
            }
        },
    );
}

/// The outcome of a call of each of two ranks.
fn outcomes(run: impl Fn(usize, &Stream, &Communicator) -> Result<()> + Sync) -> Vec<Result<()>> {
    joined(&[(0, 2), (1, 2)], LONG, |ranks| {
        let rank = ranks.as_ref().map_or(0, Ranks::rank);
        let (device, communicator) = communicator(ranks)?;
        run(rank, &device.stream()?, &communicator)
    })
}

type Run = fn(usize, &Stream, &Communicator) -> Result<()>;

/// Calls that differ between two ranks, and the texts that the error must have about each.
fn differing_calls() -> [(Run, [&'static str; 2]); 8] {
    [
        (
            |rank, s, all| {
                let mut data = s.upload(&[1.0_f32 + rank as f32; 4])?;
                match rank {
                    0 => all.all_reduce(&mut [data.view_mut()], Max),
                    _ => all.all_reduce(&mut [data.view_mut()], Min),
                }
            },
            [
                "`all_reduce` of 4 elements of f32 by Max",
                "`all_reduce` of 4 elements of f32 by Min",
            ],
        ),
        (
            |rank, s, all| match rank {
                0 => all.all_reduce(&mut [s.upload(&[1_u32; 4])?.view_mut()], Sum),
                _ => all.all_reduce(&mut [s.upload(&[1_i32; 4])?.view_mut()], Sum),
            },
            ["4 elements of u32 by Sum", "4 elements of i32 by Sum"],
        ),
        (
            |rank, s, all| match rank {
                0 => all.broadcast(&mut [s.upload(&[1_u32; 4])?.view_mut()], 0),
                _ => all.broadcast(&mut [s.upload(&[1.0_f32; 4])?.view_mut()], 0),
            },
            ["4 elements of u32 with root 0", "4 elements of f32 with root 0"],
        ),
        (
            |rank, s, all| all.broadcast(&mut [s.upload(&[1_u32; 4])?.view_mut()], rank),
            ["with root 0", "with root 1"],
        ),
        (
            |rank, s, all| {
                let data = s.upload(&[1_u32; 4])?;
                let mut into = s.alloc::<u32>(8)?;
                match rank {
                    0 => all.all_gather(&[data.view()], &mut [into.view_mut()]),
                    _ => all.all_to_all(&[data.view()], &mut [into.slice_mut(..4)]),
                }
            },
            ["`all_gather` of 4 elements of u32", "`all_to_all` of 4 elements of u32"],
        ),
        (
            |rank, s, all| {
                let (data, mut into) = (s.upload(&[1_u32; 4])?, s.alloc::<u32>(2)?);
                match rank {
                    0 => all.reduce_scatter(&[data.view()], &mut [into.view_mut()], Min),
                    _ => all.reduce_scatter(&[data.view()], &mut [into.view_mut()], Sum),
                }
            },
            ["by Min", "by Sum"],
        ),
        (
            |rank, s, all| match rank {
                0 => all.split(&[0]).map(drop),
                _ => all.all_reduce(&mut [s.upload(&[1_u32; 4])?.view_mut()], Sum),
            },
            ["`split`", "`all_reduce` of 4 elements of u32 by Sum"],
        ),
        (
            |rank, s, all| match rank {
                0 => all.exchange(Exchange::new().send(s.upload(&[1_u32; 4])?.view(), 1)),
                _ => all.exchange(Exchange::new().receive(s.alloc::<f32>(4)?.view_mut(), 0)),
            },
            ["`exchange` of u32", "`exchange` of f32"],
        ),
    ]
}

/// No rank takes data for a result if another one makes another call: this very call is an error,
/// and the error names both calls with their ranks.
#[test]
fn a_call_that_differs_between_ranks_is_an_error_of_this_call_on_both() {
    for (run, [zero, one]) in differing_calls() {
        for outcome in outcomes(run) {
            let told = outcome.expect_err("the ranks differ").to_string();
            let names = |call: &str, rank| told.contains(&format!("{call} on rank {rank}"));
            assert!(names(zero, 0) && names(one, 1), "{told}");
        }
    }
}

/// Equal totals are not enough: the gradients of one layer would be added to the gradients of
/// another one.
#[test]
fn ranks_whose_gradients_differ_are_told_at_the_start() {
    let cases: [[&[usize]; 2]; 4] =
        [[&[2, 3], &[3, 2]], [&[1, 4], &[3, 2]], [&[5], &[2, 3]], [&[4], &[0]]];
    let told = [
        ["gradient 0 has 2 elements on rank 0", "3 on rank 1"],
        ["gradient 0 has 1 elements on rank 0", "3 on rank 1"],
        ["1 gradients on rank 0", "2 on rank 1"],
        ["gradient 0 has 4 elements on rank 0", "0 on rank 1"],
    ];
    for (lens, parts) in cases.into_iter().zip(told) {
        let outcome = joined(&all(2), LONG, |ranks| -> Result<Error> {
            let (device, ranks) = (Device::open(Select::Host(0))?, Arc::new(ranks?));
            let lens = lens[ranks.rank()];
            let gradients = GradientBuckets::<f32, _>::of_rank(&device, &ranks, lens, Sum);
            let error = gradients.expect_err("the models differ");
            // The group stays usable.
            ranks.barrier().map(|()| error)
        });
        for error in outcome {
            let error = error.expect("no rank is lost");
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
            let told = error.to_string();
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
    }
    let outcome = joined(&all(2), LONG, |ranks| -> Result<String> {
        let (device, ranks) = (Device::open(Select::Host(0))?, Arc::new(ranks?));
        let error = match ranks.rank() {
            0 => GradientBuckets::<f32, _>::of_rank(&device, &ranks, &[3], Sum).err(),
            _ => GradientBuckets::<f32, _>::of_rank(&device, &ranks, &[3], Max).err(),
        };
        Ok(error.expect("a sum and a maximum").to_string())
    });
    for told in outcome {
        let told = told.expect("no rank is lost");
        assert!(
            told.contains("f32 by Sum on rank 0") && told.contains("f32 by Max on rank 1"),
            "{told}"
        );
    }
}

/// Keeps the total. It panics for three elements.
#[derive(Debug, Clone, Copy)]
struct Total;

impl Reduction<u32> for Total {
    const IDENTITY: u32 = 0;

    fn combine(_: &Stream, part: View<'_, u32>, _: ViewMut<'_, u32>) -> Result<()> {
        assert_ne!(part.len(), 3, "on purpose");
        Ok(())
    }
}

/// The messages of this rank are missing. Otherwise the messages of its next call would be mistaken
/// for them.
#[test]
fn a_rank_that_panics_in_a_collective_ends_the_group() {
    let told = joined(&all(2), LONG, |ranks| {
        let rank = ranks.as_ref().map_or(0, Ranks::rank);
        let (device, communicator) = communicator(ranks).expect("they join");
        let mut data = device.stream().and_then(|s| s.upload(&[7_u32; 5])).expect("room");
        // Segment 0 of 5 elements has 3 elements, and rank 1 combines them.
        let mut reduce = || communicator.all_reduce(&mut [data.view_mut()], Total);
        let first = catch_unwind(AssertUnwindSafe(&mut reduce));
        assert_eq!(first.is_err(), rank == 1);
        let error = first.unwrap_or_else(|_| reduce()).expect_err("rank 1 has panicked");
        assert_eq!(error.kind(), ErrorKind::PeerLost);
        error.to_string()
    });
    for told in told {
        assert!(told.contains("rank 1 of 2 did not complete `all_reduce`"), "{told}");
    }
}

fn a_rank_that_does_not_come_to_a_collective_is_named() {
    // Rank 2 waits here until the others have their errors.
    static TOLD: Barrier = Barrier::new(3);
    fails(
        3,
        SHORT,
        "rank 2 of 3 did not call collective 0, `all_reduce`, within 5s",
        |rank, device, communicator| {
            let mut data = device.stream()?.upload(&[0_u32; 4])?;
            let mut outcome = Ok(());
            while rank != 2 && outcome.is_ok() {
                outcome = communicator.all_reduce(&mut [data.view_mut()], Sum);
            }
            TOLD.wait();
            // The news may still be on its way.
            while communicator.failure().is_none() {
                std::thread::yield_now();
            }
            outcome?;
            communicator.all_reduce(&mut [data.view_mut()], Sum)
        },
    );
}

#[test]
fn a_rank_that_leaves_before_a_collective_is_named() {
    for gone in (0..3).cycle().take(30) {
        let told = joined(&all(3), LONG, |ranks| {
            let rank = ranks.as_ref().map_or(0, Ranks::rank);
            let (device, communicator) = communicator(ranks).expect("they join");
            let mut data = device.stream().and_then(|s| s.upload(&[1_u32; 4])).expect("room");
            communicator.all_reduce(&mut [data.view_mut()], Sum).expect("all are there");
            let outcome =
                (rank != gone).then(|| communicator.all_reduce(&mut [data.view_mut()], Sum));
            outcome.map(|outcome| outcome.expect_err("one has left").to_string())
        });
        for told in told.into_iter().flatten() {
            // The rank drops its communicator and leaves, and rank 0 learns of one after the other.
            let named = told.contains(&format!("rank {gone} of 3 has"));
            assert!(named && told.contains("before collective 1"), "{told}");
        }
    }
}

/// This is no test: it is the rank that the processes of the next tests run.
#[test]
fn a_process_that_is_a_rank() {
    let Ok(text) = std::env::var(RANK) else { return };
    let parts: Vec<&str> = text.split(' ').collect();
    let [rank, count, address, seconds] = parts[..] else { panic!("{text}") };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let timeout = Duration::from_secs(number(seconds) as u64);
    let ranks = Ranks::join(number(rank), number(count), address, timeout).expect("they join");
    let outcome = steps(ranks);
    let error = outcome.expect_err("a rank is stopped");
    println!("{:?}: {error}", error.kind());
}

/// This is no test: it is a rank whose process ends as soon as it has left its communicator.
#[test]
fn a_process_that_leaves() {
    let Ok(text) = std::env::var(LEAVES) else { return };
    let (rank, address) = text.split_once(' ').expect("a rank and an address");
    let rank = rank.parse().expect("a number");
    let ranks = Arc::new(Ranks::join(rank, LEAVERS, address, LONG).expect("they join"));
    let device = Device::open(Select::Host(0)).expect("a host device");
    let communicator = Communicator::builder().rank(&device, &ranks).open().expect("it opens");
    communicator.close().expect("all ranks leave together");
    drop(ranks);
    std::process::exit(0);
}

/// Rank 0 compares the calls of all ranks. It once told itself first, so its process could end
/// before it had told the others.
#[test]
fn ranks_that_leave_together_are_all_told_before_rank_0_ends() {
    for round in 0..8 {
        let address = address();
        let start = |rank: usize| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "a_process_that_leaves", "--nocapture"])
                .env(LEAVES, format!("{rank} {address}"))
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("a process")
        };
        let all: Vec<Child> = (0..LEAVERS).map(start).collect();
        for (rank, child) in all.into_iter().enumerate() {
            let ended = child.wait_with_output().expect("it ends");
            let told = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "round {round}, rank {rank}: {told}");
        }
    }
}

/// Values that agree, and sums that are right, until a rank is stopped.
fn steps(ranks: Ranks) -> Result<()> {
    let (device, ranks) = (Device::open(Select::Host(0))?, Arc::new(ranks));
    let communicator = Communicator::builder().rank(&device, &ranks).open()?;
    let stream = device.stream()?;
    let number = |value: usize| u32::try_from(value).expect("few");
    let (own, count) = (number(ranks.rank()), number(ranks.count()));
    for step in 0_u32.. {
        println!("step {step}");
        ranks.agree("step", step.into())?;
        let mut data = stream.upload(&[own + step; 300])?;
        communicator.all_reduce(&mut [data.view_mut()], Sum)?;
        let sum = (0..count).map(|rank| rank + step).sum::<u32>();
        assert_eq!(stream.download(&data)?, [sum; 300], "step {step}");
    }
    Ok(())
}

struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop((self.child.kill(), self.child.wait()));
    }
}

fn processes(count: usize, seconds: u64) -> Vec<Process> {
    let address = address();
    let start = |rank| {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "a_process_that_is_a_rank", "--nocapture"])
            .env(RANK, format!("{rank} {count} {address} {seconds}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Process { child, output }
    };
    (0..count).map(start).collect()
}

/// Reads the output of a process until a line has the text.
fn read_until(process: &mut Process, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        let read = process.output.read_line(&mut line).expect("it prints text");
        assert_ne!(read, 0, "the process ended before `{text}`");
    }
}

/// Stops a process when it has printed some steps, and demands that each other one names it.
fn stop(count: usize, victim: usize, steps: u64, signal: &str, seconds: u64, cause: &str) {
    let mut all = processes(count, seconds);
    let mut stopped = all.remove(victim);
    // The output is read, so that no process waits for a reader.
    let readers: Vec<_> = all
        .into_iter()
        .map(|mut process| {
            std::thread::spawn(move || {
                let mut text = String::new();
                process.output.read_to_string(&mut text).expect("it prints text");
                text
            })
        })
        .collect();
    read_until(&mut stopped, &format!("step {steps}\n"));
    let id = stopped.child.id().to_string();
    let status = Command::new("kill").args([signal, &id]).status().expect("`kill` runs");
    assert!(status.success());
    for reader in readers {
        let text = reader.join().expect("no panic");
        let told = format!("PeerLost: ranks: rank {victim} of {count} {cause}");
        // Beside a frozen rank, another one may still wait for it in the step before.
        let others = text.split_once("PeerLost: ranks: ranks ").filter(|_| cause.is_empty());
        let named = others.and_then(|(_, rest)| rest.split_once(&format!(" of {count} ")));
        let victim_word = victim.to_string();
        let is_among =
            named.is_some_and(|(list, _)| list.split(", ").any(|one| one == victim_word));
        assert!(text.contains(&told) || is_among, "victim {victim} after {steps} steps: {text}");
    }
}

#[test]
fn a_killed_process_is_named_by_all_others() {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let seed = u64::from(since.subsec_nanos());
    println!("seed {seed}");
    let draw = Mutex::new(Prng::new(seed));
    let one = || {
        let mut draw = draw.lock().expect("no thread panicked while it held this lock");
        let count = 2 + usize::try_from(draw.below(4)).expect("few");
        let victim = usize::try_from(draw.below(count as u64)).expect("few");
        (count, victim, draw.below(100))
    };
    // Most of the time of each is the start of its processes.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let (count, victim, steps) = one();
                    stop(count, victim, steps, "-KILL", 120, "has ended");
                }
            });
        }
    });
}

fn a_frozen_process_is_named_by_all_others() {
    // The processes have as long to join as the others wait for the frozen one.
    std::thread::scope(|scope| {
        for victim in 0..3 {
            scope.spawn(move || stop(3, victim, 20, "-STOP", 10, ""));
        }
    });
}
