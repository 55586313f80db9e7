//! The verbs of streams, events, host functions and devices.
//!
//! `hold` makes a stream wait until `release`. On a real clock, `hold` enqueues a host function
//! that waits for a latch. On a modelled clock, no thread could open the latch while the host
//! function waits. So there `hold` enqueues a kernel that lasts for one second of modelled time.
#![forbid(unsafe_code)]

use super::latch::{Latch, PATIENCE};
use super::machine::{Answer, Failure, Machine, Object, VerbResult};
use super::text::{Words, option};
use super::tools;
use crate::base::id::DeviceId;
use crate::device::driver::{
    Action, Clock, EventHandle, HostFn, PollProgress, Readiness, StreamHandle, StreamKind, Timing,
};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of polls of an event, for a driver whose time passes only during polls.
const POLLS_MAX: u32 = 1_000_000;

fn readiness(answer: Readiness) -> Answer {
    Ok(match answer {
        Readiness::Ready => "ready",
        Readiness::NotReady => "not-ready",
    }
    .to_owned())
}

impl Machine<'_> {
    pub(super) fn stream_named(
        &self,
        words: &mut Words<'_>,
    ) -> VerbResult<(StreamHandle, DeviceId)> {
        match self.named(words.word()?)? {
            Object::Stream(stream, device) => Ok((stream, device)),
            _ => Err(Failure::Unclear),
        }
    }

    fn event_named(&self, words: &mut Words<'_>) -> VerbResult<EventHandle> {
        match self.named(words.word()?)? {
            Object::Event(event) => Ok(event),
            _ => Err(Failure::Unclear),
        }
    }

    /// `device D`: whether the device exists.
    pub(super) fn device(&self, words: &mut Words<'_>) -> Answer {
        self.driver.device_info(DeviceId(words.small()?))?;
        Ok(String::new())
    }

    /// `memory-info D`: whether the free memory is at most the total.
    pub(super) fn memory_info(&self, words: &mut Words<'_>) -> Answer {
        let (free, total) = self.driver.memory_info(DeviceId(words.small()?))?;
        Ok(if free <= total { "free<=total" } else { "free>total" }.to_owned())
    }

    /// `sync-device D`
    pub(super) fn sync_device(&self, words: &mut Words<'_>) -> Answer {
        self.driver.synchronize(DeviceId(words.small()?))?;
        Ok(String::new())
    }

    /// `stream NAME [blocking] [priority N] [on D]`
    pub(super) fn stream(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, options) = (words.word()?, words.rest());
        let device = self.device_of(&options)?;
        let blocking = options.contains(&"blocking");
        let kind = if blocking { StreamKind::Blocking } else { StreamKind::NonBlocking };
        let priority = match option(&options, "priority") {
            Some(word) => word.parse().map_err(|_| Failure::Unclear)?,
            None => 0,
        };
        let stream = self.driver.stream_create(device, kind, priority)?;
        self.bind(name, Object::Stream(stream, device))
    }

    /// `legacy NAME [on D]`
    pub(super) fn legacy(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, options) = (words.word()?, words.rest());
        let device = self.device_of(&options)?;
        let stream = self.driver.stream_legacy(device)?;
        self.lend(name, Object::Stream(stream, device))
    }

    /// `per-thread NAME [on D]`
    pub(super) fn per_thread(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, options) = (words.word()?, words.rest());
        let device = self.device_of(&options)?;
        let stream = self.driver.stream_per_thread(device)?;
        self.lend(name, Object::Stream(stream, device))
    }

    /// Binds a name to an object that the driver owns.
    pub(super) fn lend(&mut self, name: &str, object: Object) -> Answer {
        let answer = self.bind(name, object);
        self.permanent.insert(name.to_owned());
        answer
    }

    /// `event NAME [untimed] [on D]`
    pub(super) fn event(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, options) = (words.word()?, words.rest());
        let device = self.device_of(&options)?;
        let timing = if options.contains(&"untimed") { Timing::Off } else { Timing::On };
        let event = self.driver.event_create(device, timing)?;
        self.bind(name, Object::Event(event))
    }

    /// `destroy NAME`: a stream, an event or a pool.
    pub(super) fn destroy(&mut self, words: &mut Words<'_>) -> Answer {
        let name = words.word()?;
        match self.named(name)? {
            Object::Stream(stream, _) => self.driver.stream_destroy(stream)?,
            Object::Event(event) => self.driver.event_destroy(event)?,
            Object::Pool(pool) => self.driver.pool_destroy(pool)?,
            _ => return Err(Failure::Unclear),
        }
        self.objects.remove(name);
        Ok(String::new())
    }

    /// `sync NAME`: a stream or an event.
    pub(super) fn sync(&self, words: &mut Words<'_>) -> Answer {
        match self.named(words.word()?)? {
            Object::Stream(stream, _) => self.driver.stream_synchronize(stream)?,
            Object::Event(event) => self.driver.event_synchronize(event)?,
            _ => return Err(Failure::Unclear),
        }
        Ok(String::new())
    }

    /// `query NAME`: a stream or an event.
    pub(super) fn query(&self, words: &mut Words<'_>) -> Answer {
        readiness(match self.named(words.word()?)? {
            Object::Stream(stream, _) => self.driver.stream_query(stream)?,
            Object::Event(event) => self.driver.event_query(event)?,
            _ => return Err(Failure::Unclear),
        })
    }

    /// `poll EVENT`: polls once.
    pub(super) fn poll(&self, words: &mut Words<'_>) -> Answer {
        readiness(match self.driver.event_poll(self.event_named(words)?)? {
            PollProgress::Ready => Readiness::Ready,
            PollProgress::Later | PollProgress::Again => Readiness::NotReady,
        })
    }

    /// `until EVENT`: polls until the event is ready.
    pub(super) fn until(&self, words: &mut Words<'_>) -> Answer {
        let event = self.event_named(words)?;
        let started = Instant::now();
        for _ in 0..POLLS_MAX {
            match self.driver.event_poll(event)? {
                PollProgress::Ready => return readiness(Readiness::Ready),
                PollProgress::Later if started.elapsed() > PATIENCE => break,
                PollProgress::Later => std::thread::yield_now(),
                PollProgress::Again => {}
            }
        }
        readiness(self.driver.event_query(event)?)
    }

    /// `record EVENT STREAM`
    pub(super) fn record(&self, words: &mut Words<'_>) -> Answer {
        let event = self.event_named(words)?;
        self.driver.event_record(event, self.stream_named(words)?.0)?;
        Ok(String::new())
    }

    /// `wait STREAM EVENT`
    pub(super) fn wait(&self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        self.driver.stream_wait(stream, self.event_named(words)?)?;
        Ok(String::new())
    }

    /// `elapsed FROM TO`. The time is not printed.
    pub(super) fn elapsed(&self, words: &mut Words<'_>) -> Answer {
        let from = self.event_named(words)?;
        self.driver.event_elapsed(from, self.event_named(words)?)?;
        Ok(String::new())
    }

    /// `hold STREAM`
    pub(super) fn hold(&mut self, words: &mut Words<'_>) -> Answer {
        let (stream, device) = self.stream_named(words)?;
        if self.clock == Clock::Model {
            let function = self.tools(device)?.hold;
            tools::enqueue_hold(self.driver, stream, function)?;
        } else {
            let (latch, wait) = Latch::closed();
            let run: HostFn = Arc::new(wait);
            self.driver.submit(stream, &Action::HostFn { run: &run, touches: &[] })?;
            self.latches.push(latch);
        }
        Ok(String::new())
    }

    /// `release`: lets every held stream continue.
    pub(super) fn release(&mut self) -> Answer {
        self.latches.clear();
        Ok(String::new())
    }

    /// `say STREAM WORD`: enqueues a host function that adds the word to the log.
    pub(super) fn say(&self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        let (log, word) = (self.log.clone(), words.word()?.to_owned());
        let run: HostFn = Arc::new(move || log.say(word.clone()));
        self.driver.submit(stream, &Action::HostFn { run: &run, touches: &[] })?;
        Ok(String::new())
    }
}
