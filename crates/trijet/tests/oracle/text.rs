//! Programs as text that is printed and parsed: one line for each step.

use crate::program::{
    Part, Phase, Place, Program, SIGNALS_MAX, Sources, Step, StreamKind, StreamSpec,
};
use std::fmt::{self, Display};
use trijet::sim::Verb;

const KINDS: [(StreamKind, &str); 4] = [
    (StreamKind::Legacy, "legacy"),
    (StreamKind::PerThread, "per-thread"),
    (StreamKind::Blocking, "blocking"),
    (StreamKind::NonBlocking, "non-blocking"),
];

const SOURCES: [(Sources, &str); 3] = [
    (Sources::InStreamOrder, "in-order"),
    (Sources::DuringCall, "during-call"),
    (Sources::AnyTime, "any-time"),
];

/// Verbs of the driver that can be refused.
pub(crate) const VERBS: [(Verb, &str); 11] = [
    (Verb::StreamCreate, "stream-create"),
    (Verb::EventCreate, "event-create"),
    (Verb::EventRecord, "event-record"),
    (Verb::StreamWait, "stream-wait"),
    (Verb::Query, "query"),
    (Verb::Synchronize, "synchronize"),
    (Verb::HostFn, "host-fn"),
    (Verb::Alloc, "alloc"),
    (Verb::Copy, "copy"),
    (Verb::Fill, "fill"),
    (Verb::Launch, "launch"),
];

fn name<T: Copy + PartialEq>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(named, _)| *named == value).expect("every value has a name").1
}

impl Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}[{}..{}]", self.buffer, self.range.start, self.range.end)
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy { stream, from, to } => write!(f, "copy {from} to {to} on s{stream}"),
            Self::Batch { stream, sources, copies } => {
                write!(f, "batch {} on s{stream}", name(&SOURCES, *sources))?;
                copies.iter().try_for_each(|(from, to)| write!(f, " {from} to {to}"))
            }
            Self::Mix { stream, salt, x, y } => {
                write!(f, "mix {salt} of {x} into {y} on s{stream}")
            }
            Self::Fill { stream, to, value } => write!(f, "fill {to} with {value} on s{stream}"),
            Self::CopyNow { device, from, to } => write!(f, "copy-now {from} to {to} on d{device}"),
            Self::FillNow { device, to, value } => {
                write!(f, "fill-now {to} with {value} on d{device}")
            }
            Self::Alloc { buffer, stream, len, value } => {
                write!(f, "alloc b{buffer} {len} on s{stream} filled {value}")
            }
            Self::AllocHost { buffer, place, len, seed } => {
                let place = if *place == Place::Pinned { "pinned" } else { "pageable" };
                write!(f, "host b{buffer} {len} {place} seed {seed}")
            }
            Self::Drop { buffer } => write!(f, "drop b{buffer}"),
            Self::Split { buffer, at, into } => write!(f, "split b{buffer} at {at} into b{into}"),
            Self::Write { buffer, seed } => write!(f, "write b{buffer} seed {seed}"),
            Self::Read { buffer } => write!(f, "read b{buffer}"),
            Self::HostFn { stream } => write!(f, "host-fn on s{stream}"),
            Self::Record { event, stream } => write!(f, "record e{event} on s{stream}"),
            Self::Wait { event, stream } => write!(f, "wait e{event} on s{stream}"),
            Self::SyncEvent { event } => write!(f, "sync e{event}"),
            Self::QueryEvent { event } => write!(f, "query e{event}"),
            Self::Sync { stream } => write!(f, "sync s{stream}"),
            Self::Query { stream } => write!(f, "query s{stream}"),
            Self::SyncDevice { device } => write!(f, "sync d{device}"),
            Self::Replace { stream } => write!(f, "replace s{stream}"),
            Self::Ticket { ticket, stream } => write!(f, "ticket t{ticket} of s{stream}"),
            Self::Await { ticket } => write!(f, "await t{ticket}"),
            Self::Future { future, stream } => write!(f, "future f{future} of s{stream}"),
            Self::Poll { future } => write!(f, "poll f{future}"),
            Self::Set { signal } => write!(f, "set g{signal}"),
            Self::HostSet { signal, stream } => write!(f, "host-set g{signal} on s{stream}"),
            Self::Take { signal } => write!(f, "take g{signal}"),
            Self::Give { buffer, number } => write!(f, "give b{buffer} as h{number}"),
            Self::Receive { buffer, number } => write!(f, "receive b{buffer} as h{number}"),
            Self::Renew { keeps: true } => write!(f, "renew keeping streams"),
            Self::Renew { keeps: false } => write!(f, "renew dropping streams"),
            Self::Churn { kind, device, to, value } => {
                let kind = name(&KINDS, *kind);
                write!(f, "churn {kind} on d{device} fill {to} with {value}")
            }
            Self::ByHand { buffer } => write!(f, "by-hand b{buffer}"),
        }
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "devices {}", self.devices)?;
        for (number, spec) in self.streams.iter().enumerate() {
            writeln!(f, "stream s{number} {} on d{}", name(&KINDS, spec.kind), spec.device)?;
        }
        for (number, device) in self.events.iter().enumerate() {
            writeln!(f, "event e{number} on d{device}")?;
        }
        for (verb, nth) in &self.refusals {
            writeln!(f, "refuse {} {nth}", name(&VERBS, *verb))?;
        }
        for phase in &self.phases {
            writeln!(f, "phase")?;
            for script in &phase.scripts {
                writeln!(f, "thread")?;
                script.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
            }
        }
        Ok(())
    }
}

/// A number after its letter, as in `s3`.
fn number(word: &str, letter: &str) -> Option<usize> {
    word.strip_prefix(letter)?.parse().ok()
}

fn part(word: &str) -> Option<Part> {
    let (buffer, range) = word.strip_suffix(']')?.split_once('[')?;
    let (start, end) = range.split_once("..")?;
    let range = start.parse().ok()?..end.parse().ok()?;
    Some(Part { buffer: number(buffer, "b")?, range })
}

fn copies(words: &[&str]) -> Option<Vec<(Part, Part)>> {
    let pairs = words.chunks(3).map(|chunk| match chunk {
        [from, "to", to] => Some((part(from)?, part(to)?)),
        _ => None,
    });
    pairs.collect()
}

fn enqueued(words: &[&str]) -> Option<Step> {
    let s = |word: &str| number(word, "s");
    Some(match words {
        ["copy", from, "to", to, "on", on] => {
            Step::Copy { stream: s(on)?, from: part(from)?, to: part(to)? }
        }
        ["batch", sources, "on", on, rest @ ..] => {
            let sources = SOURCES.iter().find(|(_, name)| name == sources)?.0;
            Step::Batch { stream: s(on)?, sources, copies: copies(rest)? }
        }
        ["mix", salt, "of", x, "into", y, "on", on] => {
            Step::Mix { stream: s(on)?, salt: salt.parse().ok()?, x: part(x)?, y: part(y)? }
        }
        ["fill", to, "with", value, "on", on] => {
            Step::Fill { stream: s(on)?, to: part(to)?, value: value.parse().ok()? }
        }
        ["copy-now", from, "to", to, "on", on] => {
            Step::CopyNow { device: number(on, "d")?, from: part(from)?, to: part(to)? }
        }
        ["fill-now", to, "with", value, "on", on] => {
            Step::FillNow { device: number(on, "d")?, to: part(to)?, value: value.parse().ok()? }
        }
        ["host-fn", "on", on] => Step::HostFn { stream: s(on)? },
        ["record", event, "on", on] => Step::Record { event: number(event, "e")?, stream: s(on)? },
        ["wait", event, "on", on] => Step::Wait { event: number(event, "e")?, stream: s(on)? },
        ["replace", on] => Step::Replace { stream: s(on)? },
        ["ticket", ticket, "of", of] => {
            Step::Ticket { ticket: number(ticket, "t")?, stream: s(of)? }
        }
        ["future", future, "of", of] => {
            Step::Future { future: number(future, "f")?, stream: s(of)? }
        }
        ["host-set", signal, "on", on] => {
            Step::HostSet { signal: number(signal, "g")?, stream: s(on)? }
        }
        _ => return None,
    })
}

fn by_host(words: &[&str]) -> Option<Step> {
    let b = |word: &str| number(word, "b");
    Some(match words {
        ["alloc", buffer, len, "on", on, "filled", value] => Step::Alloc {
            buffer: b(buffer)?,
            stream: number(on, "s")?,
            len: len.parse().ok()?,
            value: value.parse().ok()?,
        },
        ["host", buffer, len, place, "seed", seed] => {
            let place = match *place {
                "pinned" => Place::Pinned,
                "pageable" => Place::Pageable,
                _ => return None,
            };
            let (len, seed) = (len.parse().ok()?, seed.parse().ok()?);
            Step::AllocHost { buffer: b(buffer)?, place, len, seed }
        }
        ["drop", buffer] => Step::Drop { buffer: b(buffer)? },
        ["split", buffer, "at", at, "into", into] => {
            Step::Split { buffer: b(buffer)?, at: at.parse().ok()?, into: b(into)? }
        }
        ["write", buffer, "seed", seed] => {
            Step::Write { buffer: b(buffer)?, seed: seed.parse().ok()? }
        }
        ["read", buffer] => Step::Read { buffer: b(buffer)? },
        ["sync", what] => match (number(what, "e"), number(what, "s"), number(what, "d")) {
            (Some(event), _, _) => Step::SyncEvent { event },
            (_, Some(stream), _) => Step::Sync { stream },
            (_, _, device) => Step::SyncDevice { device: device? },
        },
        ["query", what] => match number(what, "e") {
            Some(event) => Step::QueryEvent { event },
            None => Step::Query { stream: number(what, "s")? },
        },
        ["await", ticket] => Step::Await { ticket: number(ticket, "t")? },
        ["poll", future] => Step::Poll { future: number(future, "f")? },
        ["set", signal] => Step::Set { signal: number(signal, "g")? },
        ["take", signal] => Step::Take { signal: number(signal, "g")? },
        ["give", buffer, "as", as_] => Step::Give { buffer: b(buffer)?, number: number(as_, "h")? },
        ["receive", buffer, "as", as_] => {
            Step::Receive { buffer: b(buffer)?, number: number(as_, "h")? }
        }
        ["by-hand", buffer] => Step::ByHand { buffer: b(buffer)? },
        ["renew", "keeping", "streams"] => Step::Renew { keeps: true },
        ["renew", "dropping", "streams"] => Step::Renew { keeps: false },
        ["churn", kind, "on", on, "fill", to, "with", value] => Step::Churn {
            kind: KINDS.iter().find(|(_, name)| name == kind)?.0,
            device: number(on, "d")?,
            to: part(to)?,
            value: value.parse().ok()?,
        },
        _ => return None,
    })
}

fn line(program: &mut Program, words: &[&str]) -> Option<()> {
    match words {
        ["devices", count] => program.devices = count.parse().ok()?,
        ["stream", named, kind, "on", on] => {
            (number(named, "s")? == program.streams.len()).then_some(())?;
            let kind = KINDS.iter().find(|(_, name)| name == kind)?.0;
            program.streams.push(StreamSpec { kind, device: number(on, "d")? });
        }
        ["event", named, "on", on] => {
            (number(named, "e")? == program.events.len()).then_some(())?;
            program.events.push(number(on, "d")?);
        }
        ["refuse", verb, nth] => {
            let verb = VERBS.iter().find(|(_, name)| name == verb)?.0;
            program.refusals.push((verb, nth.parse().ok().filter(|nth| *nth > 0)?));
        }
        ["phase"] => program.phases.push(Phase::default()),
        ["thread"] => program.phases.last_mut()?.scripts.push(Vec::new()),
        _ => {
            let step = enqueued(words).or_else(|| by_host(words))?;
            program.phases.last_mut()?.scripts.last_mut()?.push(step);
        }
    }
    Some(())
}

/// Parses the text that `Display` writes. Empty lines, and text after a `#`, are ignored.
pub(crate) fn parse(text: &str) -> Result<Program, String> {
    let mut program = Program::default();
    for (number, whole) in text.lines().enumerate() {
        let code = whole.split('#').next().unwrap_or(whole);
        let words: Vec<&str> = code.split_whitespace().collect();
        if !words.is_empty() {
            let at = || format!("line {}: `{}`", number + 1, whole.trim());
            line(&mut program, &words).ok_or_else(at)?;
        }
    }
    if !(1..=8).contains(&program.devices) {
        return Err("a program has 1 to 8 devices".to_owned());
    }
    let devices = program.streams.iter().map(|spec| spec.device).chain(program.events.clone());
    if devices.max().is_some_and(|device| device >= program.devices) {
        return Err("a stream or an event names a device that does not exist".to_owned());
    }
    if program.steps().filter_map(Step::signal).any(|signal| signal >= SIGNALS_MAX) {
        return Err("a signal has a number that is too large".to_owned());
    }
    if program.keep_valid() {
        return Err(format!("some steps are invalid; without them:\n{program}"));
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::draw::draw;

    #[test]
    fn a_program_is_read_back_as_it_was_written() {
        for seed in 0..500 {
            let program = draw(seed);
            let text = program.to_string();
            let read = parse(&text).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert_eq!(read, program, "seed {seed}: {text}");
        }
    }

    #[test]
    fn an_invalid_step_is_refused() {
        let frame =
            "devices 1\nstream s0 blocking on d0\nphase\nthread\nalloc b0 4 on s0 filled 1\n";
        assert!(parse(frame).is_ok());
        let wrong = [
            "read b0",
            "fill b1[0..1] with 1 on s0",
            "fill b0[0..5] with 1 on s0",
            "fill b0[0..4] with 1 on s1",
            "wait e0 on s0",
            "split b0 at 4 into b1",
            "fill b0[0..4] with 1 on",
        ];
        for step in wrong {
            assert!(parse(&format!("{frame}{step}")).is_err(), "{step}");
        }
    }

    #[test]
    fn one_thread_cannot_change_what_another_uses() {
        let frame = "devices 1\nstream s0 blocking on d0\nphase\nthread\nhost b0 4 pinned seed 1\n";
        let together = |first: &str, second: &str| {
            parse(&format!("{frame}phase\nthread\n{first}\nthread\n{second}\n"))
        };
        assert!(together("read b0", "read b0").is_ok());
        assert!(together("write b0 seed 1", "read b0").is_err());
        assert!(together("read b0", "drop b0").is_err());
        assert!(together("sync s0", "replace s0").is_err());
    }
}
