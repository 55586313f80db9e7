//! Streams, events, tickets, futures, and captures by other libraries.

use super::super::held::{Held, WRITTEN};
use super::super::rows as row;
use super::verb::{Call, Verb, block_on, call};
use trijet::testing::{Capture, CaptureMode};
use trijet::{Result, Stream, Uses};

fn in_capture(held: &mut Held, run: fn(&Capture<'_>, &Stream) -> Result<()>) -> Result<Call> {
    let [t, other] = [held.of_program()?, held.of_program()?];
    call(move |_, _| {
        let capture = Capture::begin(&t, CaptureMode::ThreadLocal)?;
        run(&capture, &other)
    })
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("Stream::synchronize", row::WAITS, |_| call(|_, s| s.synchronize())),
    Verb::new("Stream::query", row::WAITS, |_| call(|_, s| s.query().map(drop))),
    Verb::new("Stream::close", row::DEVICE, |h| {
        let t = h.device.stream()?;
        call(move |_, _| t.close())
    }),
    Verb::new("Stream::named", row::LOCAL, |h| {
        let t = h.device.stream()?;
        call(move |_, _| {
            drop(t.named("a name"));
            Ok(())
        })
    }),
    Verb::new("Stream::host_fn", row::NO_NODE, |_| call(|_, s| s.host_fn(|| ()))),
    Verb::new("Stream::host_fn_with", row::NO_NODE, |_| {
        call(|h, s| s.host_fn_with(&mut h.h, |_| ()))
    }),
    Verb::new("Stream::ticket", row::POINT, |_| call(|_, s| s.ticket().map(drop))),
    Verb::new("Ticket::wait", row::DEVICE, |h| {
        let ticket = h.other.ticket()?;
        call(move |_, _| ticket.wait())
    }),
    Verb::new("Ticket::query", row::DEVICE, |h| {
        let ticket = h.other.ticket()?;
        call(move |_, _| ticket.query().map(drop))
    }),
    Verb::new("Ticket::ready", row::DEVICE, |h| {
        let ticket = h.other.ticket()?;
        call(move |_, _| block_on(ticket.ready()))
    }),
    Verb::new("Stream::ready", row::POINT, |_| call(|_, s| block_on(s.ready()))),
    Verb::new("Ready::poll", row::DEVICE, |h| {
        let ready = h.other.ready();
        call(move |_, _| block_on(ready))
    }),
    Verb::new("Stream::wait", row::WAITS, |h| {
        let event = h.device.event()?;
        event.record(&h.other)?;
        call(move |_, s| s.wait(&event))
    }),
    Verb::new("Event::record", row::WAITS, |h| {
        let event = h.device.event()?;
        call(move |_, s| event.record(s))
    }),
    Verb::new("Event::synchronize", row::DEVICE, |h| {
        let event = h.device.event()?;
        event.record(&h.other)?;
        call(move |_, _| event.synchronize())
    }),
    Verb::new("Event::query", row::DEVICE, |h| {
        let event = h.device.event()?;
        event.record(&h.other)?;
        call(move |_, _| event.query().map(drop))
    }),
    Verb::new("Event::ready", row::DEVICE, |h| {
        let event = h.device.event()?;
        event.record(&h.other)?;
        call(move |_, _| block_on(event.ready()))
    }),
    Verb::new("Event::named", row::LOCAL, |h| {
        let event = h.device.event()?;
        call(move |_, _| {
            drop(event.named("a name"));
            Ok(())
        })
    }),
    Verb::new("Event::as_raw", row::LOCAL, |h| {
        let event = h.device.event()?;
        call(move |_, _| {
            let _raw = event.as_raw();
            Ok(())
        })
    }),
    Verb::new("TimedEvent::record", row::WAITS, |h| {
        let event = h.device.timed_event()?;
        call(move |_, s| event.record(s))
    }),
    Verb::new("TimedEvent::synchronize", row::DEVICE, |h| {
        let event = h.device.timed_event()?;
        event.record(&h.other)?;
        call(move |_, _| event.synchronize())
    }),
    Verb::new("TimedEvent::query", row::DEVICE, |h| {
        let event = h.device.timed_event()?;
        event.record(&h.other)?;
        call(move |_, _| event.query().map(drop))
    }),
    Verb::new("TimedEvent::ready", row::DEVICE, |h| {
        let event = h.device.timed_event()?;
        event.record(&h.other)?;
        call(move |_, _| block_on(event.ready()))
    }),
    Verb::new("TimedEvent::named", row::LOCAL, |h| {
        let event = h.device.timed_event()?;
        call(move |_, _| {
            drop(event.named("a name"));
            Ok(())
        })
    }),
    Verb::new("TimedEvent::elapsed_since", row::DEVICE, |h| {
        let [from, to] = [h.device.timed_event()?, h.device.timed_event()?];
        from.record(&h.other)?;
        to.record(&h.other)?;
        to.synchronize()?;
        call(move |_, _| to.elapsed_since(&from).map(drop))
    }),
    Verb::new("Stream::as_raw", row::LOCAL, |_| {
        call(|_, s| {
            let _raw = s.as_raw();
            Ok(())
        })
    }),
    Verb::new("Device::stream_from_raw", row::OBJECT, |h| {
        let theirs = h.device.stream()?;
        call(move |h, _| {
            // SAFETY: the stream outlives the handle, which is dropped at once.
            unsafe { h.device.stream_from_raw(theirs.as_raw(), ()) }.map(drop)
        })
    }),
    Verb::new("Device::is_captured_raw", row::OBJECT, |h| {
        let theirs = h.of_program()?;
        call(move |h, _| {
            // SAFETY: the call has the stream, so it is alive until then.
            unsafe { h.device.is_captured_raw(theirs.as_raw()) }.map(drop)
        })
    }),
    Verb::new("Stream::wait_raw", row::WAITS, |h| {
        let event = h.device.event()?;
        event.record(&h.other)?;
        call(move |_, s| {
            // SAFETY: the call has the event, so it is alive until then.
            unsafe { s.wait_raw(event.as_raw()) }
        })
    }),
    Verb::new("Stream::foreign", row::FOREIGN, |_| {
        call(|h, s| {
            // SAFETY: the function enqueues nothing, so nothing uses the memory.
            unsafe { s.foreign("nothing", Uses::new().read(&h.x), |_| Ok(())) }
        })
    }),
    Verb::new("Stream::follow_device", row::FOLLOWS, |_| {
        call(|h, s| s.follow_device(Uses::new().read(&h.x)))
    }),
    Verb::new("Capture::begin", row::OBJECT, |h| {
        let t = h.of_program()?;
        call(move |_, _| Capture::begin(&t, CaptureMode::ThreadLocal).map(drop))
    }),
    Verb::new("Capture::fork", row::DEVICE, |h| {
        in_capture(h, |capture, other| capture.fork(other))
    }),
    Verb::new("Capture::join", row::DEVICE, |h| {
        in_capture(h, |capture, other| {
            capture.fork(other)?;
            capture.join(other)
        })
    }),
    Verb::new("Capture::end", row::DEVICE, |h| {
        let t = h.of_program()?;
        call(move |_, _| Capture::begin(&t, CaptureMode::ThreadLocal)?.end().map(drop))
    }),
    Verb::new("Capture::drop", row::OBJECT, |h| in_capture(h, |_, _| Ok(()))),
    Verb::new("Captured::drop", row::LOCAL, |h| {
        let t = h.of_program()?;
        let captured = Capture::begin(&t, CaptureMode::ThreadLocal)?.end()?;
        call(move |_, _| {
            drop(captured);
            Ok(())
        })
    }),
    Verb::new("Captured::launch", row::NO_NODE, |h| {
        let t = h.of_program()?;
        let capture = Capture::begin(&t, CaptureMode::ThreadLocal)?;
        t.fill_bytes(&mut h.x, WRITTEN)?;
        let captured = capture.end()?;
        call(move |_, s| {
            // SAFETY: `x` outlives the graph, and the stream is waited for before its next use.
            unsafe { captured.launch(s) }?;
            s.synchronize()
        })
    })
    .x(),
];
