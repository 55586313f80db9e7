//! Memory that grows: the cache of keys and values of a language model while sequences arrive and
//! leave. Four kinds of memory are compared. The cache is in growing buffers, in buffers that are
//! copied to buffers of twice the size, in buffers that have the largest size from the start, or in
//! pages.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use serde::Deserialize;
use std::time::Instant;
use trijet::memory::GrowingBuffer;
use trijet::testing::Prng;
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, Result, Stream};
use trijet_tools::allocations::workloads::length;
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

/// The number of tokens in a page.
const PAGE_TOKENS: usize = 16;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    /// The number of sequences that exist at once.
    sequences: usize,
    /// The number of buffers per sequence, one for each layer.
    layers: usize,
    /// The number of bytes per token in each buffer.
    token_bytes: usize,
    /// The number of steps. Each step adds one token to every sequence.
    steps: usize,
    prompt_median: usize,
    generated_median: usize,
    /// Maximum number of tokens of a sequence.
    length_max: usize,
}

/// How the memory of a sequence grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The buffer grows at the same address.
    Growing,
    /// The data is copied to a new buffer of twice the size.
    Doubling,
    /// The buffer has the largest size from the start.
    Largest,
    /// New buffers of a few tokens are added.
    Paged,
}

impl Way {
    const ALL: [Self; 4] = [Self::Growing, Self::Doubling, Self::Largest, Self::Paged];

    fn name(self) -> &'static str {
        match self {
            Self::Growing => "growing buffers",
            Self::Doubling => "copies to twice the size",
            Self::Largest => "buffers of the largest size",
            Self::Paged => "pages of 16 tokens",
        }
    }
}

/// The memory of one layer of a sequence.
enum Memory {
    Growing(GrowingBuffer<u8>),
    One(Buffer<u8>),
    Pages(Vec<Buffer<u8>>),
}

/// One layer of a sequence.
struct Layer {
    memory: Memory,
    /// The number of bytes that are in use.
    used: usize,
}

impl Layer {
    /// Makes an empty layer. With the way `Growing`, allocates `used` bytes. With `Largest`,
    /// allocates `most` bytes. With the other ways, allocates nothing yet.
    fn new(way: Way, s: &Stream, used: usize, most: usize) -> Result<Self> {
        let memory = match way {
            Way::Growing => Memory::Growing(s.growing(used, most)?),
            Way::Largest => Memory::One(s.alloc(most)?),
            Way::Doubling => Memory::One(s.alloc(0)?),
            Way::Paged => Memory::Pages(Vec::new()),
        };
        Ok(Self { memory, used: 0 })
    }

    /// Makes room for `used` bytes. If this copies bytes, adds their number to `copied`.
    fn grow(&mut self, s: &Stream, used: usize, page: usize, copied: &mut usize) -> Result<()> {
        match &mut self.memory {
            Memory::Growing(buffer) => buffer.grow_to(used)?,
            Memory::One(buffer) if buffer.len() >= used => {}
            Memory::One(buffer) => {
                let mut larger = s.alloc::<u8>(used.max(2 * buffer.len()))?;
                s.copy(&buffer.slice(..self.used), &mut larger.slice_mut(..self.used))?;
                *copied += self.used;
                *buffer = larger;
            }
            Memory::Pages(pages) => {
                while pages.len() * page < used {
                    pages.push(s.alloc(page)?);
                }
            }
        }
        Ok(())
    }

    /// Writes `value` to the bytes from `self.used` up to `used`.
    fn write(&mut self, s: &Stream, used: usize, page: usize, value: u8) -> Result<()> {
        let from = std::mem::replace(&mut self.used, used);
        match &mut self.memory {
            Memory::Growing(buffer) => s.fill_bytes(&mut buffer.slice_mut(from..used), value),
            Memory::One(buffer) => s.fill_bytes(&mut buffer.slice_mut(from..used), value),
            Memory::Pages(pages) => {
                let mut at = from;
                while at < used {
                    let end = used.min((at / page + 1) * page);
                    let within = at % page..at % page + (end - at);
                    s.fill_bytes(&mut pages[at / page].slice_mut(within), value)?;
                    at = end;
                }
                Ok(())
            }
        }
    }

    /// Copies the byte at index `at` to the host.
    fn read(&self, device: &Device, s: &Stream, at: usize, page: usize) -> Result<u8> {
        let mut host = device.pinned::<u8>(1)?;
        match &self.memory {
            Memory::Growing(buffer) => s.copy(&buffer.slice(at..=at), &mut host)?,
            Memory::One(buffer) => s.copy(&buffer.slice(at..=at), &mut host)?,
            Memory::Pages(pages) => {
                let within = at % page;
                s.copy(&pages[at / page].slice(within..=within), &mut host)?;
            }
        }
        Ok(host.read()?[0])
    }
}

/// A sequence. Its first bytes belong to the prompt.
struct Sequence {
    layers: Vec<Layer>,
    tokens: usize,
    end: usize,
    value: u8,
}

/// A run in which the memory of all sequences grows in the same way.
struct Run<'a> {
    definition: &'a Definition,
    device: &'a Device,
    stream: &'a Stream,
    way: Way,
    /// The duration of each growth, in nanoseconds.
    ns: Vec<f64>,
    /// The number of bytes that growth has copied.
    copied: usize,
    /// Maximum number of bytes that all sequences used at the same time.
    peak_live: u64,
}

impl Run<'_> {
    fn page(&self) -> usize {
        PAGE_TOKENS * self.definition.token_bytes
    }

    fn append(&mut self, sequence: &mut Sequence, tokens: usize) -> Result<()> {
        let (page, s) = (self.page(), self.stream);
        sequence.tokens += tokens;
        let used = sequence.tokens * self.definition.token_bytes;
        for layer in &mut sequence.layers {
            let begin = Instant::now();
            layer.grow(s, used, page, &mut self.copied)?;
            self.ns.push(begin.elapsed().as_secs_f64() * 1e9);
            layer.write(s, used, page, sequence.value)?;
        }
        Ok(())
    }

    fn arrive(&mut self, draw: &mut Prng, number: usize) -> Result<Sequence> {
        let Definition { layers, token_bytes, length_max, .. } = *self.definition;
        let prompt = length(draw, self.definition.prompt_median).min(length_max - 1);
        let generated = length(draw, self.definition.generated_median);
        let (used, most) = (prompt * token_bytes, length_max * token_bytes);
        let layer = |_| Layer::new(self.way, self.stream, used, most);
        let layers = (0..layers).map(layer).collect::<Result<_>>()?;
        let end = (prompt + generated).min(length_max);
        let value = u8::try_from(number % 251).unwrap_or(0);
        let mut sequence = Sequence { layers, tokens: 0, end, value };
        self.append(&mut sequence, prompt)?;
        Ok(sequence)
    }

    /// Reads the first and the last byte of each layer.
    fn verify(&self, sequence: &Sequence) -> Result<()> {
        for layer in &sequence.layers {
            for at in [0, layer.used - 1] {
                let found = layer.read(self.device, self.stream, at, self.page())?;
                if found != sequence.value {
                    let cause =
                        format!("byte {at} of a sequence is {found}, not {}", sequence.value);
                    return Err(Error::new(ErrorKind::InvalidValue, "bench growth", cause));
                }
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Vec<Value>> {
        let definition = self.definition;
        self.device.synchronize()?;
        self.device.trim_memory(Bytes(0))?;
        self.device.reset_memory_high()?;
        let mut draw = Prng::new(5);
        let mut number = 0;
        let mut live = Vec::new();
        let mut before = 0;
        for step in 0..definition.steps {
            if step == definition.steps / 2 {
                // Only the second half of the run is counted: the driver calls of the heap, and the
                // times of growths. In the first half, the run allocates memory that later
                // sequences use again.
                before = self.calls();
                self.ns.clear();
            }
            for at in (0..live.len()).rev() {
                let sequence: &mut Sequence = &mut live[at];
                self.append(sequence, 1)?;
                if sequence.tokens == sequence.end {
                    let ended = live.swap_remove(at);
                    if ended.value % 16 == 0 {
                        self.verify(&ended)?;
                    }
                }
            }
            while live.len() < definition.sequences {
                live.push(self.arrive(&mut draw, number)?);
                number += 1;
            }
            let tokens: usize = live.iter().map(|sequence| sequence.tokens).sum();
            let bytes = tokens * definition.layers * definition.token_bytes;
            self.peak_live = self.peak_live.max(bytes as u64);
            // The host waits, because a step of a model ends with its results on the host.
            self.stream.synchronize()?;
        }
        live.iter().try_for_each(|sequence| self.verify(sequence))?;
        let calls = self.calls() - before;
        let reserved = self.device.memory_stats()?.reserved_high;
        let ns = Samples::of(std::mem::take(&mut self.ns));
        let value = |what: &str, unit: &str, value| Value {
            what: what.to_owned(),
            unit: unit.to_owned(),
            value,
        };
        Ok(vec![
            value("growth by a token, median", "ns", ns.quantile(0.5)),
            value("growth by a token, 99.9 %", "ns", ns.quantile(0.999)),
            value("growth by a token, slowest", "ns", ns.quantile(1.0)),
            value("calls of the driver for memory", "calls", calls as f64),
            value("copied", "GiB", self.copied as f64 / f64::from(1 << 30)),
            value(
                "peak reserved over peak live",
                "ratio",
                reserved.0 as f64 / self.peak_live as f64,
            ),
        ])
    }

    fn calls(&self) -> u64 {
        self.device.heap_stats().map_or(0, |stats| stats.calls)
    }
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` if a sequence has lost its bytes; `Unsupported` for a device without a heap;
/// every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let device = setting.device;
    let mut results = Results::of_device(device);
    results.note(
        "verified",
        "sequences have the bytes that were written, at their begin and at their end",
    );
    let stream = &device.stream()?;
    steps.expect(1);
    steps.begin("sequences");
    let mut sides = Way::ALL.map(|way| {
        Side::new(way.name(), move || {
            let (ns, copied, peak_live) = (Vec::new(), 0, 0);
            Run { definition, device, stream, way, ns, copied, peak_live }.run()
        })
    });
    record(setting, &mut sides, definition.samples, str::to_owned, &mut results)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn sequences_keep_their_bytes_in_every_way_and_growing_buffers_copy_nothing() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let definition = Definition {
            samples: 2,
            sequences: 3,
            layers: 2,
            token_bytes: 256,
            steps: 60,
            prompt_median: 20,
            generated_median: 10,
            length_max: 128,
        };
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &definition, &mut Steps::new(&mut show))?.to_string();
        for row in [
            "growing buffers: copied,GiB,0.000",
            "copies to twice the size: growth by a token, 99.9 %",
            "buffers of the largest size: peak reserved over peak live",
            "pages of 16 tokens: calls of the driver for memory",
        ] {
            assert!(printed.contains(row), "{row}: {printed}");
        }
        assert_no_finding(&device, 10);
        Ok(())
    }
}
