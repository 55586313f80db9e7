//! Faulty programs and the same programs without the fault. They run on a host device, with memory
//! that the program orders. The library writes the ledgers.

use trijet::Uses;
use trijet::check::{CheckOptions, Conflict, FindingClass, Verdict, check, check_with};
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::testing::{self, MIX};
use trijet::trace::Op;
use trijet::{Buffer, Device, Result, Select, Stream, StreamOptions};

/// Devices with a checker that reads their calls while they are made.
pub(crate) fn devices(count: u32) -> Vec<Device> {
    let executor = Executor::Virtual(Order::Seeded(7));
    let config = HostConfig::new().executor(executor).devices(count);
    let opened = Device::builder().host(config).check(CheckOptions::default()).open_all();
    opened.expect("the machine starts a few threads")
}

/// Demands that the checker of the device has the same findings as a check of the ledger.
#[track_caller]
fn agrees(device: &Device, ops: &[Op]) {
    let classes = |verdict: &Verdict| verdict.findings.iter().map(|f| f.class).collect::<Vec<_>>();
    let (along, kept) = (device.verdict().expect("it is checked"), check(ops));
    assert_eq!(classes(&along), classes(&kept), "{along}\n{kept}");
}

/// A filled, manual buffer of the stream's device.
pub(crate) fn by_hand(stream: &Stream, len: usize) -> Result<Buffer<u64>> {
    let mut buffer = stream.alloc::<u64>(len)?;
    stream.fill_bytes(&mut buffer, 1)?;
    stream.synchronize()?;
    // SAFETY: the bytes are plain words, and the tests read the ledger only, so torn words do no
    // harm. No test keeps the buffer beyond a synchronisation.
    unsafe { buffer.order_manually() };
    Ok(buffer)
}

/// The ledger of `program` on two streams of a device.
pub(crate) fn recorded(program: impl FnOnce(&Device, &Stream, &Stream) -> Result<()>) -> Vec<Op> {
    let device = &devices(1)[0];
    let run = || {
        let (a, b) = (device.stream()?, device.stream()?);
        device.start_trace(&a)?;
        program(device, &a, &b)?;
        device.synchronize()?;
        device.take_trace().map(|trace| trace.ops)
    };
    let ops = run().expect("no call fails");
    agrees(device, &ops);
    ops
}

#[track_caller]
pub(crate) fn found(ops: &[Op]) -> (Vec<FindingClass>, Verdict) {
    let verdict = check(ops);
    (verdict.findings.iter().map(|finding| finding.class).collect(), verdict)
}

/// Cases 01 and 04 and their cure: a producer, a consumer, and an event that is recorded before the
/// producer or after it.
#[test]
fn an_event_orders_two_streams_when_it_is_recorded_between() {
    let program = |record_at: Option<u32>| {
        recorded(|device, a, b| {
            let (source, mut x, mut y) = (by_hand(a, 64)?, by_hand(a, 64)?, by_hand(b, 64)?);
            let event = device.event()?;
            if record_at == Some(0) {
                event.record(a)?;
            }
            a.launch(&MIX, (1, &source, &mut x))?;
            if record_at == Some(1) {
                event.record(a)?;
            }
            b.wait(&event)?;
            b.launch(&MIX, (2, &x, &mut y))?;
            device.synchronize()
        })
    };
    let race = [FindingClass::Race(Conflict::Raw)];
    // Case 05: a wait for an event without a record.
    assert_eq!(found(&program(None)).0, [race[0], FindingClass::WaitUnrecorded]);
    let (classes, verdict) = found(&program(Some(0)));
    assert_eq!(classes, race);
    assert!(verdict.findings[0].known.contains("BEFORE"), "{verdict}");
    assert!(verdict.findings[0].witness.is_some_and(|w| w.kept != w.swapped), "{verdict}");
    assert_eq!(found(&program(Some(1))).0, []);
}

/// Case 02: the library inserts the wait. Without automatic ordering, the wait is missing.
#[test]
fn an_upload_waits_for_the_readers_of_what_it_overwrites() {
    let program = |manual: bool| {
        recorded(|device, a, b| {
            let mut h = device.pinned::<u64>(64)?;
            h.write()?.fill(3);
            let mut y = by_hand(a, 64)?;
            let mut x = if manual { by_hand(a, 64)? } else { a.alloc::<u64>(64)? };
            a.fill_bytes(&mut x, 1)?;
            a.launch(&MIX, (1, &x, &mut y))?;
            b.copy(&h, &mut x)?;
            device.synchronize()
        })
    };
    // The fill and the upload race as well: the last read does not hide the write before it.
    let expected = [FindingClass::Race(Conflict::Waw), FindingClass::Race(Conflict::War)];
    assert_eq!(found(&program(true)).0, expected);
    assert_eq!(found(&program(false)).0, []);
}

/// Cases 13 and 14.
#[test]
fn the_legacy_stream_waits_for_blocking_streams_only() {
    let program = |blocking: bool| {
        recorded(|device, a, _| {
            let first = if blocking {
                device.stream_with(StreamOptions::new().blocking())?
            } else {
                device.stream()?
            };
            let legacy = device.legacy_stream()?;
            let (mut x, mut y) = (by_hand(a, 64)?, by_hand(a, 64)?);
            first.fill_bytes(&mut x, 9)?;
            legacy.launch(&MIX, (1, &x, &mut y))?;
            device.synchronize()
        })
    };
    assert_eq!(found(&program(true)).0, []);
    let (classes, verdict) = found(&program(false));
    assert_eq!(classes, [FindingClass::Race(Conflict::Raw)]);
    assert!(verdict.findings[0].known.contains("non-blocking"), "{verdict}");
}

/// Cases 20 and 22.
#[test]
fn memory_is_written_before_it_is_read_and_freed_in_the_end() {
    let program = |fill: bool, keep: bool| {
        let ops = recorded(|_, a, _| {
            let (mut x, mut y) = (a.alloc::<u64>(64)?, a.alloc::<u64>(64)?);
            a.fill_bytes(&mut y, 1)?;
            if fill {
                a.fill_bytes(&mut x, 1)?;
            }
            a.launch(&MIX, (1, &x, &mut y))?;
            if keep {
                std::mem::forget(x);
            }
            Ok(())
        });
        let options = CheckOptions::new().to_the_end();
        let verdict = check_with(&ops, options);
        verdict.findings.iter().map(|finding| finding.class).collect::<Vec<_>>()
    };
    assert_eq!(program(true, false), []);
    assert_eq!(program(false, false), [FindingClass::ReadUninit]);
    assert_eq!(program(true, true), [FindingClass::Leak]);
}

/// Case 48.
#[test]
fn a_consumer_on_another_device_waits_for_the_copy() -> Result<()> {
    for ordered in [false, true] {
        let devices = devices(2);
        let (a, c) = (devices[0].stream()?, devices[1].stream()?);
        devices[0].start_trace(&a)?;
        let (source, mut far) = (by_hand(&a, 64)?, by_hand(&c, 64)?);
        let mut y = by_hand(&c, 64)?;
        a.copy(&source, &mut far)?;
        if ordered {
            let event = devices[0].event()?;
            event.record(&a)?;
            c.wait(&event)?;
        }
        c.launch(&MIX, (1, &far, &mut y))?;
        devices.iter().try_for_each(Device::synchronize)?;
        drop((source, far, y));
        devices.iter().try_for_each(Device::synchronize)?;
        let classes = found(&devices[0].take_trace()?.ops).0;
        let race = [FindingClass::Race(Conflict::Raw)];
        assert_eq!(classes, if ordered { &[][..] } else { &race[..] });
    }
    Ok(())
}

/// Case 43 and its cure: a graph writes what a kernel of another stream reads.
#[test]
fn a_launch_of_a_graph_races_by_the_names_of_its_operations() {
    let program = |ordered: bool| {
        recorded(|device, a, b| {
            let (x, mut d, mut y) = (by_hand(a, 64)?, by_hand(a, 64)?, by_hand(a, 64)?);
            let mut graph = device.record(|g| {
                g.argument(&x)?;
                g.argument(&d)?;
                g.stream()?.launch(&MIX, (1, &x, &mut d))
            })?;
            let event = device.event()?;
            a.launch_graph(&mut graph, Uses::new().read(x.view()).write(d.view_mut()))?;
            if ordered {
                event.record(a)?;
                b.wait(&event)?;
            }
            b.launch(&MIX, (2, &d, &mut y))
        })
    };
    let (classes, verdict) = found(&program(false));
    assert_eq!(classes, [FindingClass::Race(Conflict::Raw)], "{verdict}");
    assert!(verdict.to_string().contains("`graph 1: mix"), "{verdict}");
    assert_eq!(found(&program(true)).0, []);
}

/// The finding names the pair of a wait that `drop_wait` left out, and its cure.
#[test]
fn a_wait_that_was_left_out_is_named() {
    let ops = recorded(|device, a, b| {
        let (mut x, mut y) = (a.alloc::<u64>(64)?, b.alloc::<u64>(64)?);
        a.fill_bytes(&mut x, 1)?;
        b.fill_bytes(&mut y, 2)?;
        testing::drop_wait(device, 1);
        b.launch(&MIX, (1, &x, &mut y))?;
        device.synchronize()
    });
    let (classes, verdict) = found(&ops);
    // The launch races with the allocation too, because the wait stood for both.
    assert_eq!(classes.first(), Some(&FindingClass::Race(Conflict::Raw)), "{verdict}");
    let finding = &verdict.findings[0];
    assert_eq!(finding.second.label, "mix_u64");
    assert_eq!(finding.first.as_ref().map(|first| &*first.label), Some("fill"));
    assert!(finding.fix.starts_with("record an event on `stream "), "{verdict}");
}

/// A new event may have the handle of a dropped event. The new event does not cover the record of
/// the dropped one.
#[test]
fn an_event_is_not_taken_for_the_one_that_had_its_handle() {
    let ops = recorded(|device, a, b| {
        let (source, mut x, mut y) = (by_hand(a, 64)?, by_hand(a, 64)?, by_hand(b, 64)?);
        a.launch(&MIX, (1, &source, &mut x))?;
        for _ in 0..50 {
            device.event()?.record(a)?;
        }
        b.wait(&device.event()?)?;
        b.launch(&MIX, (2, &x, &mut y))?;
        device.synchronize()
    });
    assert_eq!(found(&ops).0, [FindingClass::Race(Conflict::Raw), FindingClass::WaitUnrecorded]);
}

/// Case 31: the call is refused, and the finding names the source line of the host function.
#[test]
fn a_call_inside_a_host_function_is_found() {
    let program = |calls: bool| {
        recorded(|device, a, _| {
            let inside = device.clone();
            a.host_fn(move || {
                if calls {
                    assert!(inside.stream().is_err());
                }
            })?;
            device.synchronize()
        })
    };
    assert_eq!(found(&program(false)).0, []);
    let (classes, verdict) = found(&program(true));
    assert_eq!(classes, [FindingClass::ApiCall]);
    let text = verdict.to_string();
    assert!(text.contains("`stream create`") && text.contains("live.rs"), "{text}");
    assert!(text.contains("was called inside a host function"), "{text}");
}

/// Case 56.
#[test]
fn the_loss_of_a_context_is_part_of_the_record() {
    let fault = Fault { verb: Verb::Launch, nth: 2, kind: FaultKind::Faults };
    let executor = Executor::Virtual(Order::Seeded(7));
    let config = HostConfig::new().executor(executor).faults(vec![fault]);
    let opened = Device::builder().host(config).check(CheckOptions::default()).open();
    let device = opened.expect("the machine starts a few threads");
    let run = || {
        let stream = device.stream()?;
        let (mut x, mut y) = (stream.alloc::<u64>(64)?, stream.alloc::<u64>(64)?);
        stream.fill_bytes(&mut x, 1)?;
        for salt in 0..4 {
            stream.launch(&MIX, (salt, &x, &mut y))?;
        }
        stream.synchronize()
    };
    let error = run().expect_err("the second kernel faults");
    let verdict = device.verdict().expect("it is checked");
    let sticky = verdict.findings.iter().find(|finding| finding.class == FindingClass::Sticky);
    let said = sticky.unwrap_or_else(|| panic!("{verdict}")).second.label.clone();
    assert_eq!(said, error.to_string());
}

/// Each driver has a checker of its own. The devices of a driver share it, so the checker sees the
/// calls of all these devices.
#[test]
fn devices_that_are_checked_at_the_same_time_share_a_checker() -> Result<()> {
    let open = || Device::builder().select(Select::Host(0)).check(CheckOptions::default()).open();
    let (one, two) = (open()?, open()?);
    let before = two.verdict().expect("it is checked").accesses;
    one.stream()?.alloc::<u8>(64)?;
    assert!(two.verdict().expect("it is checked").accesses > before);
    drop(one);
    assert!(two.verdict().is_some(), "the checker lives as long as any of its devices");

    let other = CheckOptions::new().to_the_end();
    let refused = Device::builder().select(Select::Host(0)).check(other).open();
    let said = refused.expect_err("other options").to_string();
    assert!(
        said.contains("checked with other options") && said.contains("DeviceBuilder::host"),
        "{said}"
    );
    Ok(())
}

/// Findings about one part of a program are not reported again for the next part.
#[test]
fn a_checked_device_can_be_given_back_and_opened_again() -> Result<()> {
    let host = || Device::host(HostConfig::default());
    let _kept = host()?;
    let open = || Device::builder().select(Select::Host(1)).check(CheckOptions::default()).open();
    for round in 0..3 {
        let device = open()?;
        let stream = device.stream()?;
        let x = stream.alloc::<u8>(64)?;
        let mut landing = device.pinned::<u8>(64)?;
        stream.copy(&x, &mut landing)?;
        device.synchronize()?;
        let verdict = device.verdict().expect("it is checked");
        let of_reads =
            verdict.findings.iter().filter(|found| found.class == FindingClass::ReadUninit);
        assert!(of_reads.count() >= 1, "round {round}: {verdict}");
    }
    Ok(())
}
