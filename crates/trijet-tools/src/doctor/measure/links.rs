//! Measures the links between all GPUs of the machine. Each link is measured alone, and together
//! with the opposite direction. All links together are measured without and with copies from and to
//! the host.

use super::bench::Bench;
use crate::doctor::findings::Link;
use crate::stats::Samples;
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, PinnedBuffer, Result, Select, Stream};

/// A copy between two devices, or between a device and the host. The numbers are indices of
/// devices.
#[derive(Debug, Clone, Copy)]
enum Move {
    Peer { from: usize, to: usize },
    Upload(usize),
    Download(usize),
}

impl Move {
    /// The index of the device whose stream makes the copy.
    fn device(self) -> usize {
        match self {
            Self::Peer { from: device, .. } | Self::Upload(device) | Self::Download(device) => {
                device
            }
        }
    }
}

/// The devices, with memory for each copy between two devices and for each copy from or to the
/// host.
struct Fabric {
    devices: Vec<Device>,
    /// The number of 8-byte words of a copy, and the number of copies in a sample.
    run: (usize, usize),
    sources: Vec<Buffer<u64>>,
    /// For each device, the destinations of the copies to it. The index is the index of the source
    /// device, or the number of devices for the host.
    targets: Vec<Vec<Buffer<u64>>>,
    up: Vec<PinnedBuffer<u64>>,
    down: Vec<PinnedBuffer<u64>>,
}

/// The word that fills the source of the device with this index.
fn word(device: usize) -> u64 {
    0x9e37_79b9_7f4a_7c15 ^ device as u64
}

impl Fabric {
    fn new(devices: Vec<Device>, run: (usize, usize)) -> Result<Self> {
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for (number, device) in devices.iter().enumerate() {
            let stream = device.stream()?;
            let mut source = stream.alloc(run.0)?;
            stream.fill(&mut source, word(number))?;
            sources.push(source);
            let target = |_| stream.alloc_zeroed(run.0);
            targets.push((0..=devices.len()).map(target).collect::<Result<Vec<_>>>()?);
            let mut words = device.pinned(run.0)?;
            words.write()?.fill(word(devices.len()));
            up.push(words);
            let mut words = device.pinned(run.0)?;
            words.write()?.fill(0);
            down.push(words);
        }
        Ok(Self { devices, run, sources, targets, up, down })
    }

    /// Makes these copies at the same time, and each of them several times in a row. Returns the
    /// rate of each copy in 10^9 bytes per second.
    fn rates(&mut self, moves: &[Move]) -> Result<Vec<f64>> {
        self.devices.iter().try_for_each(Device::synchronize)?;
        let (words, copies) = self.run;
        let mut streams: Vec<(Stream, _, _)> = Vec::new();
        for one in moves {
            let device = &self.devices[one.device()];
            let (begin, end) = (device.timed_event()?, device.timed_event()?);
            streams.push((device.stream()?, begin, end));
        }
        for (stream, begin, _) in &streams {
            begin.record(stream)?;
        }
        let of_host = self.devices.len();
        for _ in 0..copies {
            for (one, (stream, ..)) in moves.iter().zip(&streams) {
                match *one {
                    Move::Peer { from, to } => {
                        stream.copy(&self.sources[from], &mut self.targets[to][from])?;
                    }
                    Move::Upload(to) => {
                        stream.copy(&self.up[to], &mut self.targets[to][of_host])?;
                    }
                    Move::Download(from) => {
                        stream.copy(&self.sources[from], &mut self.down[from])?;
                    }
                }
            }
        }
        for (stream, _, end) in &streams {
            end.record(stream)?;
        }
        let bytes = (words * copies * size_of::<u64>()) as f64;
        let rate = |(_, begin, end): &(Stream, trijet::TimedEvent, trijet::TimedEvent)| {
            end.synchronize()?;
            Ok(bytes / end.elapsed_since(begin)?.seconds().max(1e-9) * 1e-9)
        };
        streams.iter().map(rate).collect()
    }

    /// Checks that the destinations of all copies have the words of their sources.
    fn verify(&self) -> Result<()> {
        let count = self.devices.len();
        let all = |words: &[u64], of: usize| words.iter().all(|found| *found == word(of));
        for (to, device) in self.devices.iter().enumerate() {
            let stream = device.stream()?;
            for from in (0..=count).filter(|from| *from != to) {
                if !all(&stream.download(&self.targets[to][from])?, from) {
                    let cause = format!("copies to {} gave wrong bytes", device.id());
                    return Err(Error::new(ErrorKind::InvalidValue, "copy", cause));
                }
            }
            if !all(&self.down[to].read()?, to) {
                let cause = format!("downloads from {} gave wrong bytes", device.id());
                return Err(Error::new(ErrorKind::InvalidValue, "copy", cause));
            }
        }
        Ok(())
    }
}

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let others = bench.found.neighbours.clone();
    if bench.lab.is_none() || others.is_empty() {
        bench.absent("links between GPUs", "there is no other GPU");
        return Ok(());
    }
    let count = u32::try_from(others.len()).unwrap_or(u32::MAX) + 1;
    let open = |ordinal| match ordinal == bench.device.id().0 {
        true => Ok(bench.device.clone()),
        false => Device::open(Select::Cuda(ordinal)),
    };
    let devices = (0..count).map(open).collect::<Result<Vec<_>>>()?;
    let bytes = bench.plan.largest() / 4;
    let run = (Bytes(bytes / 8).to_usize(), bench.plan.copies(bytes) * 4);
    bench.found.links = links(devices, run, bench.plan.repeats)?;
    Ok(())
}

/// The links of all pairs of devices, ordered by the source and then by the destination.
fn links(devices: Vec<Device>, run: (usize, usize), repeats: usize) -> Result<Vec<Link>> {
    let count = devices.len();
    let mut fabric = Fabric::new(devices, run)?;
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    let peer = |(from, to): &(usize, usize)| Move::Peer { from: *from, to: *to };
    let all: Vec<_> = pairs.iter().map(peer).collect();
    let host = (0..count).flat_map(|n| [Move::Upload(n), Move::Download(n)]);
    let beside: Vec<_> = all.iter().copied().chain(host).collect();
    // This call is a warm-up. The first copies also enable the access between the devices.
    fabric.rates(&beside)?;
    let mut links: Vec<Link> = Vec::new();
    for (from, to) in &pairs {
        let ordinal = |at: &usize| fabric.devices[*at].id().0;
        let (from, to) = (ordinal(from), ordinal(to));
        let none = Samples::default;
        links.push(Link { from, to, alone: none(), both: none(), all: none(), beside: none() });
    }
    for _ in 0..repeats {
        for (number, (from, to)) in pairs.iter().enumerate() {
            let (onward, back) = (peer(&(*from, *to)), peer(&(*to, *from)));
            links[number].alone.push(fabric.rates(&[onward])?[0]);
            links[number].both.push(fabric.rates(&[onward, back])?[0]);
        }
        for (link, rate) in links.iter_mut().zip(fabric.rates(&all)?) {
            link.all.push(rate);
        }
        for (link, rate) in links.iter_mut().zip(fabric.rates(&beside)?) {
            link.beside.push(rate);
        }
    }
    fabric.verify()?;
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::sim::HostConfig;

    #[test]
    fn each_pair_has_a_link_with_four_rates_and_wrong_bytes_are_an_error() -> Result<()> {
        let devices = Device::host(HostConfig::new().devices(3))?;
        let links = links(devices.clone(), (1000, 2), 2)?;
        let ends: Vec<_> = links.iter().map(|link| (link.from, link.to)).collect();
        assert_eq!(ends, [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
        for link in &links {
            for rates in [&link.alone, &link.both, &link.all, &link.beside] {
                assert_eq!(rates.count(), 2);
                assert!(rates.quantile(0.0) > 0.0, "{link:?}");
            }
        }
        let mut fabric = Fabric::new(devices, (10, 1))?;
        fabric.rates(&[Move::Peer { from: 0, to: 1 }])?;
        assert_eq!(fabric.verify().map_err(|e| e.kind()), Err(ErrorKind::InvalidValue));
        Ok(())
    }
}
