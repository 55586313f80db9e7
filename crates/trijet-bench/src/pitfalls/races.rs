//! Programs that order their operations by their own events. The good program has all events that
//! are necessary, and the bad program lacks one. The result of a bad program depends on the device,
//! but the program is always wrong.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, part, source, spoil};
use super::pair::{Program, Side};
use crate::manual::unordered;
use trijet::testing::WORK;
use trijet::{Buffer, Device, Event, PinnedBuffer, Result, Stream};

/// The number of slots in programs that use slots alternately.
const SLOTS: usize = 2;

/// The streams, events and memory of all programs. The library orders the accesses to a buffer,
/// unless the comment of the buffer states that the buffer is ordered by hand.
struct Race {
    device: Device,
    words: usize,
    chunks: usize,
    rounds: u32,
    a: Stream,
    b: Stream,
    c: Stream,
    legacy: Stream,
    /// `first`, `second` and `third` have one event for each chunk.
    first: Vec<Event>,
    second: Vec<Event>,
    third: Vec<Event>,
    source: PinnedBuffer<u32>,
    /// The source on the device. No operation of the programs writes it.
    x: Vec<Buffer<u32>>,
    /// `y`, `z` and `aside` have one array for each chunk. These arrays are ordered by hand.
    y: Vec<Buffer<u32>>,
    z: Vec<Buffer<u32>>,
    aside: Vec<PinnedBuffer<u32>>,
    landed: PinnedBuffer<u32>,
    /// The last word of each chunk's result.
    items: PinnedBuffer<u32>,
    act: fn(&mut Race, Side) -> Result<()>,
    check: fn(&mut Race) -> Result<Option<String>>,
}

impl Race {
    fn boxed(
        ground: &Ground,
        act: fn(&mut Race, Side) -> Result<()>,
        check: fn(&mut Race) -> Result<Option<String>>,
    ) -> Result<Box<dyn Program>> {
        let device = &ground.device;
        let (words, chunks) = (ground.size.race_words, ground.size.chunks);
        let a = device.stream()?;
        let mut host = device.pinned::<u32>(words * chunks)?;
        for (index, word) in host.write()?.iter_mut().enumerate() {
            *word = source(index);
        }
        let array = || a.alloc::<u32>(words);
        let mut x = Vec::new();
        for chunk in 0..chunks {
            let mut one = array()?;
            a.copy(&host.slice(part(chunk, words)), &mut one)?;
            x.push(one);
        }
        let by_hand = || (0..chunks).map(|_| array().map(unordered)).collect::<Result<Vec<_>>>();
        let aside = (0..chunks).map(|_| device.pinned::<u32>(words).map(unordered));
        let events = || (0..chunks).map(|_| device.event()).collect::<Result<Vec<_>>>();
        Ok(Box::new(Self {
            device: device.clone(),
            words,
            chunks,
            rounds: ground.rounds,
            b: device.stream()?,
            c: device.stream()?,
            legacy: device.legacy_stream()?,
            first: events()?,
            second: events()?,
            third: events()?,
            x,
            y: by_hand()?,
            z: by_hand()?,
            aside: aside.collect::<Result<_>>()?,
            landed: device.pinned(words * chunks)?,
            items: device.pinned(chunks)?,
            source: host,
            a,
            act,
            check,
        }))
    }
}

impl Program for Race {
    fn prepare(&mut self) -> Result<()> {
        for array in self.y.iter_mut().chain(&mut self.z) {
            self.a.fill_bytes(array, 0xee)?;
        }
        for (chunk, aside) in self.aside.iter_mut().enumerate() {
            let from = self.source.slice(part(chunk, self.words));
            self.a.copy(&from, aside)?;
        }
        spoil(&mut self.items.write()?, 0);
        spoil(&mut self.landed.write()?, self.rounds);
        Ok(())
    }

    fn run(&mut self, side: Side) -> Result<()> {
        (self.act)(self, side)
    }

    fn wrong(&mut self, _: Side) -> Result<Option<String>> {
        (self.check)(self)
    }
}

/// Compares a result that the program itself has downloaded.
fn landed(race: &Race, rounds: u32) -> Result<Option<String>> {
    Ok(differs(&race.landed.read()?, rounds, |index| index))
}

/// Downloads a result and compares it with the source. The work of the program must be complete.
fn fetched(
    (stream, landed): (&Stream, &mut PinnedBuffer<u32>),
    arrays: &[Buffer<u32>],
    rounds: u32,
) -> Result<Option<String>> {
    for (chunk, array) in arrays.iter().enumerate() {
        stream.copy(array, &mut landed.slice_mut(part(chunk, array.len())))?;
    }
    Ok(differs(&landed.read()?, rounds, |index| index))
}

fn in_y(race: &mut Race, rounds: u32) -> Result<Option<String>> {
    fetched((&race.a, &mut race.landed), &race.y, rounds)
}

fn in_z(race: &mut Race) -> Result<Option<String>> {
    fetched((&race.a, &mut race.landed), &race.z, race.rounds)
}

/// Three stages, each in its own stream. Bad: no event between them.
fn stages(race: &mut Race, side: Side) -> Result<()> {
    let Race { a, b, c, rounds, .. } = race;
    for chunk in 0..race.chunks {
        let (x, y, z) = (&race.x[chunk], &mut race.y[chunk], &mut race.z[chunk]);
        a.launch(&WORK, (*rounds, x, &mut *y))?;
        if side == Side::Good {
            race.first[chunk].record(a)?;
            b.wait(&race.first[chunk])?;
        }
        b.launch(&WORK, (*rounds, &*y, &mut *z))?;
        if side == Side::Good {
            race.second[chunk].record(b)?;
            c.wait(&race.second[chunk])?;
        }
        c.copy(z, &mut race.landed.slice_mut(part(chunk, race.words)))?;
    }
    Ok(())
}

/// Bad: the upload of a chunk overwrites a slot that the kernel of an earlier chunk may still read.
fn reused(race: &mut Race, side: Side) -> Result<()> {
    let Race { a, b, rounds, .. } = race;
    for chunk in 0..race.chunks {
        let (slot, z) = (&mut race.y[chunk % SLOTS], &mut race.z[chunk]);
        if side == Side::Good && chunk >= SLOTS {
            a.wait(&race.second[chunk - SLOTS])?;
        }
        a.copy(&race.source.slice(part(chunk, race.words)), slot)?;
        race.first[chunk].record(a)?;
        b.wait(&race.first[chunk])?;
        b.launch(&WORK, (*rounds, &*slot, z))?;
        race.second[chunk].record(b)?;
    }
    Ok(())
}

/// Each step computes a result, copies it on the device, and downloads it. Bad: all steps use the
/// same arrays, and do not wait for the previous step. Good: the steps use two sets of arrays
/// alternately, and each use of an array waits for its previous use.
fn overtaken(race: &mut Race, side: Side) -> Result<()> {
    let Race { a, b, c, rounds, .. } = race;
    let slots = if side == Side::Good { SLOTS } else { 1 };
    for chunk in 0..race.chunks {
        let (y, z) = (&mut race.y[chunk % slots], &mut race.z[chunk % slots]);
        let back = chunk.checked_sub(slots).filter(|_| side == Side::Good);
        if let Some(back) = back {
            a.wait(&race.second[back])?;
        }
        a.launch(&WORK, (*rounds, &race.x[chunk], &mut *y))?;
        race.first[chunk].record(a)?;
        b.wait(&race.first[chunk])?;
        if let Some(back) = back {
            b.wait(&race.third[back])?;
        }
        b.copy(y, z)?;
        race.second[chunk].record(b)?;
        c.wait(&race.second[chunk])?;
        c.copy(z, &mut race.landed.slice_mut(part(chunk, race.words)))?;
        race.third[chunk].record(c)?;
    }
    Ok(())
}

/// Bad: a value is fetched on the legacy stream while another stream computes it.
fn too_early(race: &mut Race, side: Side) -> Result<()> {
    for chunk in 0..race.chunks {
        let y = &mut race.y[chunk];
        race.a.launch(&WORK, (race.rounds, &race.x[chunk], &mut *y))?;
        if side == Side::Good {
            race.first[chunk].record(&race.a)?;
            race.legacy.wait(&race.first[chunk])?;
        }
        let last = race.words - 1;
        race.device.copy_now(&y.slice(last..), &mut race.items.slice_mut(chunk..chunk + 1))?;
    }
    Ok(())
}

fn items(race: &mut Race) -> Result<Option<String>> {
    let words = race.words;
    Ok(differs(&race.items.read()?, race.rounds, |index| index * words + words - 1))
}

/// Two readers of one array, and a writer. Bad: both readers record the same event, so the second
/// record replaces the first, and the writer waits for one reader only.
fn lost_reader(race: &mut Race, side: Side) -> Result<()> {
    let Race { a, b, c, rounds, .. } = race;
    let [array, scratch, ..] = &mut race.y[..] else { return Ok(()) };
    for chunk in 0..race.chunks {
        if chunk > 0 {
            c.wait(&race.second[chunk - 1])?;
            if side == Side::Good {
                c.wait(&race.third[chunk - 1])?;
            }
        }
        c.copy(&race.source.slice(part(chunk, race.words)), &mut *array)?;
        race.first[chunk].record(c)?;
        a.wait(&race.first[chunk])?;
        b.wait(&race.first[chunk])?;
        a.launch(&WORK, (*rounds, &*array, &mut race.z[chunk]))?;
        race.second[chunk].record(a)?;
        b.launch(&WORK, (1, &*array, &mut *scratch))?;
        match side {
            Side::Bad => race.second[chunk].record(b)?,
            Side::Good => race.third[chunk].record(b)?,
        }
    }
    Ok(())
}

/// Bad: a download writes host memory that an upload may still read.
fn in_flight(race: &mut Race, side: Side) -> Result<()> {
    let Race { a, b, .. } = race;
    for chunk in 0..race.chunks {
        let aside = &mut race.aside[chunk];
        a.copy(aside, &mut race.y[chunk])?;
        if side == Side::Good {
            race.first[chunk].record(a)?;
            b.wait(&race.first[chunk])?;
        }
        b.copy(&race.z[chunk], aside)?;
    }
    Ok(())
}

/// Bad: one stream downloads a result to page-locked memory, and another stream copies this memory
/// before the download is complete.
fn landing(race: &mut Race, side: Side) -> Result<()> {
    let Race { a, b, rounds, .. } = race;
    for chunk in 0..race.chunks {
        let y = &mut race.y[chunk];
        a.launch(&WORK, (*rounds, &race.x[chunk], &mut *y))?;
        a.copy(y, &mut race.aside[chunk])?;
        race.first[chunk].record(a)?;
    }
    for chunk in 0..race.chunks {
        if side == Side::Good {
            b.wait(&race.first[chunk])?;
        }
        let mut place = race.landed.slice_mut(part(chunk, race.words));
        b.copy(&race.aside[chunk], &mut place)?;
    }
    Ok(())
}

pub(super) fn stages_without_events(ground: &Ground) -> Result<Box<dyn Program>> {
    Race::boxed(ground, stages, |race| landed(race, 2 * race.rounds))
}

pub(super) fn slot_without_a_way_back(ground: &Ground) -> Result<Box<dyn Program>> {
    Race::boxed(ground, reused, in_z)
}

pub(super) fn overtaken_copy(ground: &Ground) -> Result<Box<dyn Program>> {
    Race::boxed(ground, overtaken, |race| landed(race, race.rounds))
}

pub(super) fn default_stream_too_early(ground: &Ground) -> Result<Box<dyn Program>> {
    Race::boxed(ground, too_early, items)
}

pub(super) fn one_event_for_two(ground: &Ground) -> Result<Box<dyn Program>> {
    Race::boxed(ground, lost_reader, in_z)
}

pub(super) fn buffer_in_flight(ground: &Ground) -> Result<Box<dyn Program>> {
    Race::boxed(ground, in_flight, |race| in_y(race, 0))
}

pub(super) fn landing_read_early(ground: &Ground) -> Result<Box<dyn Program>> {
    Race::boxed(ground, landing, |race| landed(race, race.rounds))
}
