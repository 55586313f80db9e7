//! The streams, events and memory of lessons about races. The programs of these lessons order their
//! operations by events. The bad form lacks a record of an event or a wait for an event, and the
//! good form lacks none. The result of the bad form depends on the device. Even where the result is
//! right, the bad form has a race.
#![forbid(unsafe_code)]

use super::ground::{Ground, differs, part, source, spoil};
use crate::lesson::{Form, Program};
use crate::manual::unordered;
use trijet::{Buffer, Device, Event, PinnedBuffer, Result, Stream};

/// The number of slots in programs that use slots alternately.
pub(crate) const SLOTS: usize = 2;

/// The streams, events and memory of all programs. The library orders the accesses to a buffer,
/// except to the buffers whose comment states that they are ordered by hand.
pub(crate) struct Race {
    pub(crate) device: Device,
    pub(crate) words: usize,
    pub(crate) chunks: usize,
    pub(crate) rounds: u32,
    pub(crate) a: Stream,
    pub(crate) b: Stream,
    pub(crate) c: Stream,
    pub(crate) legacy: Stream,
    /// `first`, `second` and `third` have one event for each chunk.
    pub(crate) first: Vec<Event>,
    pub(crate) second: Vec<Event>,
    pub(crate) third: Vec<Event>,
    pub(crate) source: PinnedBuffer<u32>,
    /// The source on the device. No operation of the programs writes it.
    pub(crate) x: Vec<Buffer<u32>>,
    /// `y`, `z` and `aside` have one array for each chunk. The accesses to these arrays are ordered
    /// by hand.
    pub(crate) y: Vec<Buffer<u32>>,
    pub(crate) z: Vec<Buffer<u32>>,
    pub(crate) aside: Vec<PinnedBuffer<u32>>,
    pub(crate) landed: PinnedBuffer<u32>,
    /// For each chunk, one word that the program fetches: the last word of the result of the chunk.
    pub(crate) items: PinnedBuffer<u32>,
    pub(crate) act: fn(&mut Race, Form) -> Result<()>,
    pub(crate) check: fn(&mut Race) -> Result<Option<String>>,
}

impl Race {
    pub(crate) fn boxed(
        ground: &Ground,
        act: fn(&mut Race, Form) -> Result<()>,
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

    fn run(&mut self, form: Form) -> Result<()> {
        (self.act)(self, form)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        (self.check)(self)
    }
}

/// Compares `race.landed`, to which the program has downloaded its result, with the words of the
/// source after `rounds` rounds.
pub(crate) fn landed(race: &Race, rounds: u32) -> Result<Option<String>> {
    Ok(differs(&race.landed.read()?, rounds, |index| index))
}

/// Downloads `arrays`, which have the result of each chunk, and compares them with the words of the
/// source after `rounds` rounds. The work of the program must be complete.
fn fetched(
    stream: &Stream,
    landed: &mut PinnedBuffer<u32>,
    arrays: &[Buffer<u32>],
    rounds: u32,
) -> Result<Option<String>> {
    for (chunk, array) in arrays.iter().enumerate() {
        stream.copy(array, &mut landed.slice_mut(part(chunk, array.len())))?;
    }
    Ok(differs(&landed.read()?, rounds, |index| index))
}

pub(crate) fn in_y(race: &mut Race, rounds: u32) -> Result<Option<String>> {
    fetched(&race.a, &mut race.landed, &race.y, rounds)
}

pub(crate) fn in_z(race: &mut Race) -> Result<Option<String>> {
    fetched(&race.a, &mut race.landed, &race.z, race.rounds)
}
