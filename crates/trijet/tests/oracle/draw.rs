//! Draws programs. Every verb has a weight, and a seed always gives the same program.

use crate::program::{
    Part, Phase, Place, Program, SIGNALS_MAX, Shape, Sources, Step, StreamKind, StreamSpec, apply,
};
use crate::switches::Switch::{Churn, Futures, HandOvers, Refusals, Signals, Threads};
use crate::switches::on;
use crate::text::VERBS;
use std::collections::BTreeMap;
use trijet::testing::Prng;

/// With more buffers, programs would be long and conflicts rare.
const BUFFERS_MAX: usize = 10;
const WORDS_MIN: usize = 8;
const WORDS_MAX: usize = 160;
const TICKETS: u64 = 3;

/// The buffers and streams that a script may use in its phase.
struct Rights {
    /// The buffers that the script may change.
    own: Vec<usize>,
    /// The buffers that the script may only read.
    shared: Vec<usize>,
    /// The streams that the script may replace.
    streams: Vec<usize>,
    /// Whether other scripts run in the same phase.
    has_others: bool,
}

impl Rights {
    fn readable(&self) -> Vec<usize> {
        self.own.iter().chain(&self.shared).copied().collect()
    }
}

struct Draw {
    prng: Prng,
    program: Program,
    shapes: BTreeMap<usize, Shape>,
    next_buffer: usize,
    /// Buffers that scripts of the phase have given away and no script has received, each with the
    /// number of its hand-over.
    mail: Vec<(usize, usize)>,
    /// The number of hand-overs in the phase.
    given: usize,
    /// Signals that are set, in the order of drawing. With these signals, scripts can alternate
    /// their steps.
    set: Vec<usize>,
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.prng.below(bound as u64)).expect("below a usize")
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.prng.below(count) == 0
    }

    fn byte(&mut self) -> u8 {
        self.prng.next_u64().to_le_bytes()[7]
    }

    fn pick(&mut self, from: &[usize]) -> Option<usize> {
        let number = self.below(from.len());
        from.get(number).copied()
    }

    fn pick_where(&mut self, from: &[usize], fits: impl Fn(Shape) -> bool) -> Option<usize> {
        let fitting: Vec<usize> =
            from.iter().copied().filter(|buffer| fits(self.shapes[buffer])).collect();
        self.pick(&fitting)
    }

    fn len(&mut self) -> usize {
        WORDS_MIN + self.below(WORDS_MAX - WORDS_MIN + 1)
    }

    /// A part of `len` words, at a drawn position in the buffer.
    fn part(&mut self, buffer: usize, len: usize) -> Part {
        let start = self.below(self.shapes[&buffer].len - len + 1);
        Part { buffer, range: start..start + len }
    }

    /// Parts of two buffers, with equal lengths. Often the part is the whole shorter buffer.
    fn pair(
        &mut self,
        rights: &Rights,
        fits: impl Fn(Shape) -> bool + Copy,
    ) -> Option<(Part, Part)> {
        let to = self.pick_where(&rights.own, fits)?;
        let others: Vec<usize> = rights.readable().into_iter().filter(|b| *b != to).collect();
        let from = self.pick_where(&others, fits)?;
        let most = self.shapes[&from].len.min(self.shapes[&to].len);
        let len = if self.one_in(2) { most } else { 1 + self.below(most) };
        Some((self.part(from, len), self.part(to, len)))
    }

    fn stream_spec(&mut self) -> StreamSpec {
        let kind = match self.below(8) {
            0 => StreamKind::Legacy,
            1 => StreamKind::PerThread,
            2 | 3 => StreamKind::Blocking,
            _ => StreamKind::NonBlocking,
        };
        StreamSpec { kind, device: self.below(self.program.devices) }
    }

    fn some_stream(&mut self) -> usize {
        self.below(self.program.streams.len())
    }

    fn some_device(&mut self) -> usize {
        self.below(self.program.devices)
    }

    fn fresh(&mut self) -> Option<usize> {
        (self.shapes.len() < BUFFERS_MAX).then(|| {
            self.next_buffer += 1;
            self.next_buffer - 1
        })
    }

    /// The number of a new buffer: an unused number, or the number of a buffer that the new one
    /// replaces.
    fn made_anew(&mut self, rights: &Rights) -> Option<usize> {
        let given_up = if self.one_in(2) { self.pick(&rights.own) } else { None };
        given_up.or_else(|| self.fresh())
    }

    fn copies(&mut self, rights: &Rights) -> Option<Step> {
        let stream = self.some_stream();
        let sources = [Sources::InStreamOrder, Sources::DuringCall, Sources::AnyTime];
        let sources = sources[self.below(3)];
        let mut copies: Vec<(Part, Part)> = Vec::new();
        for _ in 0..2 + self.below(3) {
            let Some((from, to)) = self.pair(rights, |_| true) else { continue };
            let clashes = copies.iter().any(|(f, t)| {
                t.buffer == to.buffer || t.buffer == from.buffer || f.buffer == to.buffer
            });
            if !clashes {
                copies.push((from, to));
            }
        }
        let way = |(from, to): &(Part, Part)| {
            let device = |part: &Part| match self.shapes[&part.buffer].place {
                Place::Device(device) => Some(device),
                Place::Pinned | Place::Pageable => None,
            };
            (device(from), device(to))
        };
        let first = copies.first().map(way)?;
        copies.retain(|copy| way(copy) == first);
        // The driver refuses a batch in the legacy stream.
        let is_legacy = self.program.streams[stream].kind == StreamKind::Legacy;
        (!is_legacy).then_some(Step::Batch { stream, sources, copies })
    }

    /// A verb that computes something.
    fn working(&mut self, rights: &Rights) -> Option<Step> {
        let stream = self.some_stream();
        let home = self.program.streams[stream].device;
        let device = self.some_device();
        match self.below(16) {
            0..6 => {
                let (from, to) = self.pair(rights, |_| true)?;
                Some(Step::Copy { stream, from, to })
            }
            6..12 => {
                let (x, y) = self.pair(rights, |shape| shape.is_near(home))?;
                Some(Step::Mix { stream, salt: self.prng.below(1000), x, y })
            }
            12 => self.copies(rights),
            13 => {
                let (from, to) = self.pair(rights, |_| true)?;
                Some(Step::CopyNow { device, from, to })
            }
            verb => {
                let near = if verb == 14 { home } else { device };
                let to = self.pick_where(&rights.own, |shape| shape.is_near(near))?;
                let len = 1 + self.below(self.shapes[&to].len);
                let (to, value) = (self.part(to, len), self.byte());
                Some(match verb {
                    14 => Step::Fill { stream, to, value },
                    _ => Step::FillNow { device, to, value },
                })
            }
        }
    }

    /// A verb that makes, drops or reads buffers.
    fn holding(&mut self, rights: &mut Rights) -> Option<Step> {
        let is_of_host = |shape: Shape| !matches!(shape.place, Place::Device(_));
        match self.below(8) {
            0 => self.alloc(rights),
            1 => self.alloc_host(rights),
            2 => {
                let number = self.below(rights.own.len());
                (rights.own.len() > 1)
                    .then(|| Step::Drop { buffer: rights.own.swap_remove(number) })
            }
            3 => {
                let buffer = self.pick_where(&rights.own, |shape| shape.len > 1)?;
                let into = self.fresh()?;
                let at = 1 + self.below(self.shapes[&buffer].len - 1);
                rights.own.push(into);
                Some(Step::Split { buffer, at, into })
            }
            4 | 5 => {
                let buffer = self.pick_where(&rights.own, is_of_host)?;
                Some(Step::Write { buffer, seed: self.prng.below(1000) })
            }
            _ => {
                let buffer = self.pick_where(&rights.readable(), is_of_host)?;
                Some(Step::Read { buffer })
            }
        }
    }

    fn alloc(&mut self, rights: &mut Rights) -> Option<Step> {
        let buffer = self.made_anew(rights)?;
        if !rights.own.contains(&buffer) {
            rights.own.push(buffer);
        }
        let (stream, len, value) = (self.some_stream(), self.len(), self.byte());
        Some(Step::Alloc { buffer, stream, len, value })
    }

    fn alloc_host(&mut self, rights: &mut Rights) -> Option<Step> {
        let buffer = self.made_anew(rights)?;
        if !rights.own.contains(&buffer) {
            rights.own.push(buffer);
        }
        let place = if self.one_in(3) { Place::Pageable } else { Place::Pinned };
        Some(Step::AllocHost { buffer, place, len: self.len(), seed: self.prng.below(1000) })
    }

    /// A verb about streams, events and time.
    fn ordering(&mut self, rights: &Rights) -> Option<Step> {
        let (stream, event) = (self.some_stream(), self.below(self.program.events.len()));
        let ticket = self.below(usize::try_from(TICKETS).expect("a few"));
        match self.below(14) {
            0 | 1 => Some(Step::HostFn { stream }),
            2 | 3 => {
                let home = self.program.streams[stream].device;
                (self.program.events[event] == home).then_some(Step::Record { event, stream })
            }
            4 | 5 => Some(Step::Wait { event, stream }),
            6 => Some(Step::SyncEvent { event }),
            7 => Some(Step::QueryEvent { event }),
            8 => Some(Step::Sync { stream }),
            9 => Some(Step::Query { stream }),
            10 => Some(Step::SyncDevice { device: self.some_device() }),
            11 => Some(Step::Replace { stream: self.pick(&rights.streams)? }),
            12 => Some(Step::Ticket { ticket, stream }),
            _ => Some(Step::Await { ticket }),
        }
    }

    /// A verb by which threads end, or hand over to each other.
    fn crossing(&mut self, rights: &mut Rights) -> Option<Step> {
        let all = [HandOvers, Threads, Churn, Futures, Signals];
        let drawn = self.below(all.len());
        if !on(all[drawn]) {
            return None;
        }
        match all[drawn] {
            HandOvers if rights.has_others => self.hand_over(rights),
            Threads => self.one_in(3).then(|| Step::Renew { keeps: self.one_in(2) }),
            Churn => {
                let device = self.some_device();
                let to = self.pick_where(&rights.own, |shape| shape.is_near(device))?;
                let len = 1 + self.below(self.shapes[&to].len);
                let (to, value) = (self.part(to, len), self.byte());
                let blocking = self.one_in(3);
                let kind = if blocking { StreamKind::Blocking } else { StreamKind::NonBlocking };
                Some(Step::Churn { kind, device, to, value })
            }
            Futures => {
                let (future, stream) = (self.below(3), self.some_stream());
                let polls = self.one_in(2);
                Some(if polls { Step::Poll { future } } else { Step::Future { future, stream } })
            }
            Signals => match self.below(3) {
                0 => Some(Step::Take { signal: self.pick(&self.set.clone())? }),
                verb => {
                    let (signal, stream) = (self.below(SIGNALS_MAX), self.some_stream());
                    self.set.push(signal);
                    Some(match verb {
                        1 => Step::Set { signal },
                        _ => Step::HostSet { signal, stream },
                    })
                }
            },
            _ => None,
        }
    }

    fn hand_over(&mut self, rights: &mut Rights) -> Option<Step> {
        if !self.mail.is_empty() && !self.one_in(3) {
            let number = self.below(self.mail.len());
            let (buffer, number) = self.mail.swap_remove(number);
            rights.own.push(buffer);
            return Some(Step::Receive { buffer, number });
        }
        let number = self.below(rights.own.len());
        let buffer = *rights.own.get(number)?;
        rights.own.swap_remove(number);
        let number = self.given;
        self.given += 1;
        self.mail.push((buffer, number));
        Some(Step::Give { buffer, number })
    }

    /// A few calls that the driver refuses.
    fn refusals(&mut self) {
        for _ in 0..1 + self.below(2) {
            let verb = VERBS[self.below(VERBS.len())].0;
            self.program.refusals.push((verb, 1 + self.prng.below(16)));
        }
    }

    fn step(&mut self, rights: &mut Rights) -> Step {
        loop {
            let crosses = [HandOvers, Threads, Churn, Futures, Signals].into_iter().any(on);
            if crosses
                && self.one_in(5)
                && let Some(step) = self.crossing(rights)
            {
                apply(&self.program.streams, &mut self.shapes, &step);
                return step;
            }
            let step = match self.below(20) {
                0..11 => self.working(rights),
                11..15 => self.holding(rights),
                _ => self.ordering(rights),
            };
            if let Some(step) = step {
                apply(&self.program.streams, &mut self.shapes, &step);
                return step;
            }
        }
    }

    /// Distributes buffers and streams to the scripts of a phase.
    fn deal(&mut self, scripts: usize) -> Vec<Rights> {
        let mut rights: Vec<Rights> = (0..scripts)
            .map(|_| Rights {
                own: Vec::new(),
                shared: Vec::new(),
                streams: Vec::new(),
                has_others: scripts > 1,
            })
            .collect();
        let buffers: Vec<usize> = self.shapes.keys().copied().collect();
        for buffer in buffers {
            if scripts > 1 && self.one_in(4) {
                rights.iter_mut().for_each(|script| script.shared.push(buffer));
            } else {
                let script = self.below(scripts);
                rights[script].own.push(buffer);
            }
        }
        if scripts == 1 {
            let specs = self.program.streams.iter().enumerate();
            let mine = specs.filter(|(_, spec)| !spec.kind.is_default());
            rights[0].streams = mine.map(|(stream, _)| stream).collect();
        }
        rights
    }

    fn phase(&mut self, steps: usize) -> Phase {
        let scripts = [1, 1, 2, 3][self.below(4)];
        let mut rights = self.deal(scripts);
        let mut phase = Phase { scripts: vec![Vec::new(); scripts] };
        self.mail.clear();
        self.given = 0;
        for _ in 0..steps {
            let script = self.below(scripts);
            phase.scripts[script].push(self.step(&mut rights[script]));
        }
        phase.scripts.retain(|script| !script.is_empty());
        phase
    }

    /// A phase that makes a few buffers with known words, which the other phases use.
    fn opening(&mut self) -> Phase {
        let mut rights = self.deal(1);
        let rights = &mut rights[0];
        let mut script = Vec::new();
        for number in 0..2 + self.below(4) {
            let made = if number == 0 || self.one_in(3) {
                self.alloc_host(rights)
            } else {
                self.alloc(rights)
            };
            let Some(step) = made else { continue };
            apply(&self.program.streams, &mut self.shapes, &step);
            script.push(step);
        }
        Phase { scripts: vec![script] }
    }
}

/// Draws the program of a seed, with 5 to 60 steps. It has 2 to 6 streams on 1 or 2 devices. One
/// program in four has 2 to 10 streams on 3 to 8 devices.
pub(crate) fn draw(seed: u64) -> Program {
    let prng = Prng::new(seed);
    let program = Program { devices: 1, ..Program::default() };
    let mut draw = Draw {
        prng,
        program,
        shapes: BTreeMap::new(),
        next_buffer: 0,
        mail: vec![],
        given: 0,
        set: vec![],
    };
    draw.program.devices = 1 + draw.below(2);
    let mut more_streams = 0;
    if draw.program.devices == 2 && draw.one_in(2) {
        draw.program.devices = 3 + draw.below(6);
        more_streams = draw.below(5);
    }
    for _ in 0..2 + draw.below(5) + more_streams {
        let spec = draw.stream_spec();
        draw.program.streams.push(spec);
    }
    for _ in 0..1 + draw.below(3) {
        let device = draw.some_device();
        draw.program.events.push(device);
    }
    let opening = draw.opening();
    let phases = 1 + draw.below(3);
    let steps = 60 - draw.below(56);
    let mut left = steps.saturating_sub(opening.scripts[0].len());
    draw.program.phases.push(opening);
    for number in 0..phases {
        let now = if number + 1 == phases { left } else { draw.below(left + 1) };
        left -= now;
        if now > 0 {
            let phase = draw.phase(now);
            draw.program.phases.push(phase);
        }
    }
    if on(Refusals) && draw.one_in(3) {
        draw.refusals();
    }
    draw.program
}

/// Draws a small program for a search of all [`Order`](trijet::sim::Order)s: one thread, two or
/// three streams, and a few operations on short buffers. With `by_hand`, the program orders the
/// buffers by events, and may lack a wait.
pub(crate) fn draw_small(seed: u64, by_hand: bool) -> Program {
    let prng = Prng::new(seed);
    let program = Program { devices: 1, ..Program::default() };
    let mut draw = Draw {
        prng,
        program,
        shapes: BTreeMap::new(),
        next_buffer: 0,
        mail: vec![],
        given: 0,
        set: vec![],
    };
    for _ in 0..2 + draw.below(2) {
        let spec = draw.stream_spec();
        draw.program.streams.push(spec);
    }
    draw.program.events.push(0);
    let mut script = Vec::new();
    let streams: Vec<usize> = (0..draw.program.streams.len()).collect();
    for buffer in 0..2 {
        let (stream, value) = (draw.some_stream(), draw.byte());
        script.push(Step::Alloc { buffer, stream, len: 1, value });
        draw.shapes.insert(buffer, Shape { place: Place::Device(0), len: 1 });
        if by_hand {
            script.extend([Step::SyncDevice { device: 0 }, Step::ByHand { buffer }]);
        }
    }
    let word = |buffer| Part { buffer, range: 0..1 };
    for _ in 0..3 + draw.below(4) {
        let stream = draw.some_stream();
        let (from, to) = if draw.one_in(2) { (0, 1) } else { (1, 0) };
        let step = match draw.below(9) {
            0 | 1 => Step::Mix { stream, salt: draw.prng.below(9), x: word(from), y: word(to) },
            2 => Step::Copy { stream, from: word(from), to: word(to) },
            3 => Step::Fill { stream, to: word(to), value: draw.byte() },
            4 | 5 => Step::Record { event: 0, stream },
            6 | 7 => Step::Wait { event: 0, stream },
            _ => Step::Sync { stream },
        };
        script.push(step);
    }
    script.extend(streams.iter().map(|stream| Step::Sync { stream: *stream }));
    draw.program.phases.push(Phase { scripts: vec![script] });
    draw.program
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::program::{Hold, Program, Step};
    use crate::switches::Switch::{Churn, Futures, HandOvers, Signals, Threads};
    use crate::switches::on;
    use std::collections::BTreeMap;

    const PROGRAMS: u64 = 1000;

    fn all() -> impl Iterator<Item = Program> {
        (0..PROGRAMS).map(draw)
    }

    #[test]
    fn every_program_that_is_drawn_is_valid() {
        for (seed, mut program) in all().enumerate() {
            let text = program.to_string();
            assert!(!program.keep_valid(), "seed {seed}: {text}");
            let mut scripts = program.phases.iter().flat_map(|phase| &phase.scripts);
            assert!(scripts.all(|script| !script.is_empty()), "seed {seed}: {text}");
        }
    }

    #[test]
    fn every_verb_is_drawn_often() {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for program in all() {
            for step in program.steps() {
                let text = step.to_string();
                let mut words = text.split(' ');
                let verb = words.next().expect("a step is not empty").to_owned();
                let next = words.next().expect("every verb has an object");
                // A verb that applies to all kinds of objects counts for each kind.
                let kind = match verb.as_str() {
                    "sync" | "query" => next[..1].to_owned(),
                    "batch" => next.to_owned(),
                    _ => String::new(),
                };
                *counts.entry(format!("{verb} {kind}").trim().to_owned()).or_default() += 1;
            }
        }
        let more = [(Threads, 1), (HandOvers, 2), (Futures, 2), (Signals, 3), (Churn, 1)];
        let more = more.into_iter().filter(|(switch, _)| on(*switch)).map(|(_, verbs)| verbs);
        assert_eq!(counts.len(), 25 + more.sum::<usize>(), "{counts:?}");
        let rare: Vec<_> = counts.iter().filter(|(_, count)| **count < 100).collect();
        assert!(rare.is_empty(), "{rare:?}");
    }

    #[test]
    fn programs_have_every_size() {
        let steps: Vec<usize> = all().map(|program| program.steps().count()).collect();
        assert!(steps.iter().all(|count| (5..=60).contains(count)), "{steps:?}");
        assert!(steps.contains(&5) && steps.contains(&60));
        let threads: Vec<usize> = all()
            .map(|p| p.phases.iter().map(|phase| phase.scripts.len()).max().expect("a phase"))
            .collect();
        assert!((1..=3).all(|count| threads.iter().filter(|n| **n == count).count() > 100));
        assert!((2..=6).all(|count| all().any(|program| program.streams.len() == count)));
        assert!((1..=8).all(|count| all().any(|program| program.devices == count)));
    }

    /// Without this, two threads would never use the same objects.
    #[test]
    fn scripts_share_streams_and_buffers() {
        let meets = |program: &Program, what: fn(&Step) -> Vec<usize>| {
            program.phases.iter().any(|phase| {
                let of = |script: usize| phase.scripts.get(script).into_iter().flatten();
                let mine: Vec<usize> = of(0).flat_map(what).collect();
                of(1).flat_map(what).any(|used| mine.contains(&used))
            })
        };
        let streams = all().filter(|p| meets(p, |step| step.stream().into_iter().collect()));
        assert!(streams.count() > 200);
        let read = |step: &Step| {
            let buffers = step.buffers().into_iter();
            buffers.filter(|(_, hold)| *hold == Hold::Shared).map(|(buffer, _)| buffer).collect()
        };
        assert!(all().filter(|program| meets(program, read)).count() > 100);
    }
}
