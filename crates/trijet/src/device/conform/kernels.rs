//! The verbs of modules and launches, and the kernels they use: their PTX for drivers that compile
//! it, and their twins for those that do not.
#![forbid(unsafe_code)]

use super::machine::{Answer, Failure, Machine, Outcome, Thing};
use super::text::{Words, number, option};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::ledger::Mode;
use crate::base::units::Bytes;
use crate::device::args::ArgBlock;
use crate::device::driver::{
    Action, Driver, Form, FunctionHandle, Image, Launch, ModuleHandle, StreamHandle, StreamKind,
};
use crate::device::twin::{Cost, Tile, Twin};
use std::borrow::Cow;

/// `mix(x, n, k)`: x = 3 x + k, whose order shows. `mask(x, n, y, m, k)`: y = x xor k. `hold(k)`
/// does nothing.
const PTX: &str = include_str!("kernels.ptx");
/// Threads of a block, where a launch does not say.
const THREADS: u32 = 128;
/// A second of the modelled GPU's memory traffic.
const HOLD_BYTES: u64 = 1 << 42;

fn whole_mix(args: &ArgBlock) -> u64 {
    args.spans().first().map_or(0, |arg| arg.span.bytes() / arg.element_bytes)
}

fn mix(tile: &mut Tile<'_>) {
    let k: u32 = tile.scalar(2);
    for value in tile.write::<u32>(0) {
        *value = value.wrapping_mul(3).wrapping_add(k);
    }
}

fn mask(tile: &mut Tile<'_>) {
    let k: u32 = tile.scalar(4);
    let (from, to) = (tile.read::<u32>(0), tile.write::<u32>(2));
    for (to, from) in to.iter_mut().zip(from) {
        *to = from ^ k;
    }
}

fn no_cost(_: &ArgBlock) -> Cost {
    Cost::default()
}

fn long_cost(_: &ArgBlock) -> Cost {
    Cost { bytes: HOLD_BYTES, ops: 0 }
}

const MIX: Twin = Twin { tile_elements: whole_mix, run: mix, cost: no_cost };
const MASK: Twin = Twin { tile_elements: whole_mix, run: mask, cost: no_cost };
const HOLD: Twin = Twin { tile_elements: |_| 1, run: |_| {}, cost: long_cost };

/// What observers use of a device: nothing of it is part of a sequence.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) stream: StreamHandle,
    mix: FunctionHandle,
    mask: FunctionHandle,
    pub(super) hold: FunctionHandle,
}

impl Desk {
    pub(super) fn new(driver: &dyn Driver, device: DeviceId) -> Result<Self> {
        let module = driver.module_load(device, "conformance", Image::Ptx(PTX))?;
        let this = Self {
            stream: driver.stream_create(device, StreamKind::NonBlocking, 0)?,
            mix: driver.function(module, "mix", 0, Some(MIX))?,
            mask: driver.function(module, "mask", 0, Some(MASK))?,
            hold: driver.function(module, "hold", 0, Some(HOLD))?,
        };
        this.warm_up(driver, device)?;
        Ok(this)
    }

    /// The first fill and the first copy of a process load kernels of the driver's own, which may
    /// wait for everything (law A42).
    fn warm_up(&self, driver: &dyn Driver, device: DeviceId) -> Result<()> {
        let memory = driver.device_alloc(device, Bytes(128))?;
        let (all, low, high) = (memory.span(0..128), memory.span(0..64), memory.span(64..128));
        let form = Form::Async;
        driver.submit(self.stream, &Action::Fill { dst: &all, value: 0, form })?;
        driver.submit(self.stream, &Action::Copy { dst: &low, src: &high, form })?;
        driver.stream_synchronize(self.stream)?;
        driver.device_free(&memory)
    }
}

/// Enqueues the kernel that lasts for a second where time is modelled.
pub(super) fn enqueue_hold(
    driver: &dyn Driver,
    stream: StreamHandle,
    function: FunctionHandle,
) -> Result<()> {
    let mut args = ArgBlock::default();
    args.push_scalar(0u32)?;
    let (grid, block) = ([1; 3], [1; 3]);
    let name = &Cow::Borrowed("hold");
    let launch = Launch { function, name, grid, block, shared_bytes: 0, args: &args };
    driver.submit(stream, &Action::Launch(launch)).map(drop)
}

/// Images that do not load, and the one that does.
fn image(which: &str) -> Outcome<Image<'static>> {
    Ok(match which {
        "good" => Image::Ptx(PTX),
        "words" => Image::Ptx("these are no instructions"),
        "empty" => Image::Ptx(""),
        "cut" => Image::Ptx(&PTX[..PTX.len() / 2]),
        "future" => Image::Ptx(".version 99.0\n.target sm_80\n.address_size 64\n"),
        "other-gpu" => Image::Ptx(".version 8.0\n.target sm_999\n.address_size 64\n"),
        "no-kernel" => Image::Ptx(".version 8.0\n.target sm_80\n.address_size 64\n"),
        "nul" => Image::Ptx(".version 8.0\0"),
        _ => return Err(Failure::Unclear),
    })
}

/// Three numbers after `key`.
fn shape(options: &[&str], key: &str) -> Outcome<Option<[u32; 3]>> {
    let Some(at) = options.iter().position(|word| *word == key) else { return Ok(None) };
    let mut sides = [0; 3];
    for (side, at) in sides.iter_mut().zip(at + 1..) {
        let word = options.get(at).ok_or(Failure::Unclear)?;
        *side = word.parse().map_err(|_| Failure::Unclear)?;
    }
    Ok(Some(sides))
}

fn bytes_option(options: &[&str], key: &str) -> Outcome<u32> {
    let Some(word) = option(options, key) else { return Ok(0) };
    let bytes = number(word).ok_or(Failure::Unclear)?;
    u32::try_from(bytes).map_err(|_| Failure::Unclear)
}

impl Machine<'_> {
    fn module_named(&self, name: &str) -> Outcome<(ModuleHandle, DeviceId)> {
        match self.named(name)? {
            Thing::Module(module, device) => Ok((module, device)),
            _ => Err(Failure::Unclear),
        }
    }

    /// `module NAME IMAGE [on D]`
    pub(super) fn module(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, image) = (words.word()?, image(words.word()?)?);
        let device = self.device_of(&words.rest())?;
        let module = self.driver.module_load(device, name, image)?;
        self.bind(name, Thing::Module(module, device))
    }

    /// `function NAME MODULE ENTRY [shared N]`
    pub(super) fn function(&mut self, words: &mut Words<'_>) -> Answer {
        let name = words.word()?;
        let (module, _) = self.module_named(words.word()?)?;
        let (entry, options) = (words.word()?, words.rest());
        let shared = bytes_option(&options, "shared")?;
        let twin = if entry == "mask" { MASK } else { MIX };
        let function = self.driver.function(module, entry, shared, Some(twin))?;
        self.bind(name, Thing::Function(function, entry.to_owned()))
    }

    /// The kernel of a name: one that the sequence found, or one of the desk.
    fn kernel(&mut self, name: &str, device: DeviceId) -> Outcome<(FunctionHandle, bool)> {
        if let Some(Thing::Function(function, entry)) = self.things.get(name) {
            return Ok((*function, entry == "mask"));
        }
        let desk = self.desk(device)?;
        match name {
            "mix" => Ok((desk.mix, false)),
            "mask" => Ok((desk.mask, true)),
            _ => Err(Failure::Unbound(name.to_owned())),
        }
    }

    /// `launch STREAM mix X K [grid X Y Z] [block X Y Z] [shared N]`, or `mask X Y K` likewise.
    pub(super) fn launch(&mut self, words: &mut Words<'_>) -> Answer {
        let (stream, device) = self.stream_named(words)?;
        let name = words.word()?;
        let (function, is_mask) = self.kernel(name, device)?;
        let mut args = ArgBlock::default();
        let span = self.span_named(words.word()?)?;
        let elements = span.bytes() / 4;
        if is_mask {
            args.push_span(span.clone(), Mode::Read, span.bytes() / 4, 4)?;
            let written = self.span_named(words.word()?)?;
            args.push_span(written.clone(), Mode::Write, written.bytes() / 4, 4)?;
        } else {
            args.push_span(span.clone(), Mode::ReadWrite, span.bytes() / 4, 4)?;
        }
        args.push_scalar(words.small::<u32>()?)?;
        let options = words.rest();
        let blocks = elements.div_ceil(u64::from(THREADS)).max(1);
        let blocks = u32::try_from(blocks).map_err(|_| Failure::Unclear)?;
        let grid = shape(&options, "grid")?.unwrap_or([blocks, 1, 1]);
        let block = shape(&options, "block")?.unwrap_or([THREADS, 1, 1]);
        let shared_bytes = bytes_option(&options, "shared")?;
        let name = &Cow::Owned(name.to_owned());
        let launch = Launch { function, name, grid, block, shared_bytes, args: &args };
        self.driver.submit(stream, &Action::Launch(launch))?;
        Ok(String::new())
    }
}
