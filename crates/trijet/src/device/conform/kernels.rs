//! The verbs of modules and launches.
#![forbid(unsafe_code)]

use super::machine::{Answer, Failure, Machine, Object, VerbResult};
use super::text::{Words, number, option};
use super::tools::{MASK, MIX, PTX};
use crate::base::id::DeviceId;
use crate::base::ledger::Mode;
use crate::device::args::ArgBlock;
use crate::device::driver::{Action, FunctionHandle, Image, Launch, ModuleHandle};
use crate::device::launch_config::LaunchConfig;
use std::borrow::Cow;

/// The number of threads of a block, if the launch has no option for it.
const THREADS: u32 = 128;

/// The image with the name `which`. Only `good` and `no-kernel` have PTX that can be loaded.
fn image(which: &str) -> VerbResult<Image<'static>> {
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

/// The three numbers after the option `key`; `None` without such an option.
fn shape(options: &[&str], key: &str) -> VerbResult<Option<[u32; 3]>> {
    let Some(at) = options.iter().position(|word| *word == key) else { return Ok(None) };
    let mut sides = [0; 3];
    for (side, at) in sides.iter_mut().zip(at + 1..) {
        let word = options.get(at).ok_or(Failure::Unclear)?;
        *side = word.parse().map_err(|_| Failure::Unclear)?;
    }
    Ok(Some(sides))
}

fn bytes_option(options: &[&str], key: &str) -> VerbResult<u32> {
    let Some(word) = option(options, key) else { return Ok(0) };
    let bytes = number(word).ok_or(Failure::Unclear)?;
    u32::try_from(bytes).map_err(|_| Failure::Unclear)
}

impl Machine<'_> {
    fn module_named(&self, name: &str) -> VerbResult<(ModuleHandle, DeviceId)> {
        match self.named(name)? {
            Object::Module(module, device) => Ok((module, device)),
            _ => Err(Failure::Unclear),
        }
    }

    /// `module NAME IMAGE [on D]`
    pub(super) fn module(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, image) = (words.word()?, image(words.word()?)?);
        let device = self.device_of(&words.rest())?;
        let module = self.driver.module_load(device, name, image)?;
        self.bind(name, Object::Module(module, device))
    }

    /// `function NAME MODULE ENTRY [shared N]`
    pub(super) fn function(&mut self, words: &mut Words<'_>) -> Answer {
        let name = words.word()?;
        let (module, _) = self.module_named(words.word()?)?;
        let (entry, options) = (words.word()?, words.rest());
        let shared = bytes_option(&options, "shared")?;
        let twin = if entry == "mask" { MASK } else { MIX };
        let function = self.driver.function(module, entry, shared, Some(twin))?;
        self.bind(name, Object::Function(function, entry.to_owned()))
    }

    /// The kernel with this name: a kernel that the sequence loaded, or one of the tools. The
    /// second value is true for `mask`, which has other arguments than `mix`.
    fn kernel(&mut self, name: &str, device: DeviceId) -> VerbResult<(FunctionHandle, bool)> {
        if let Some(Object::Function(function, entry)) = self.objects.get(name) {
            return Ok((*function, entry == "mask"));
        }
        let tools = self.tools(device)?;
        match name {
            "mix" => Ok((tools.mix, false)),
            "mask" => Ok((tools.mask, true)),
            _ => Err(Failure::Unbound(name.to_owned())),
        }
    }

    /// `launch STREAM mix X K [grid X Y Z] [block X Y Z] [shared N]`. The arguments of `mask` are
    /// `X Y K`.
    pub(super) fn launch(&mut self, words: &mut Words<'_>) -> Answer {
        let (stream, device) = self.stream_named(words)?;
        let name = words.word()?;
        let (function, is_mask) = self.kernel(name, device)?;
        let mut args = ArgBlock::default();
        let span = self.span_named(words.word()?)?;
        let elements = span.bytes() / 4;
        if is_mask {
            args.push_span::<u32>(span.clone(), Mode::Read, span.bytes() / 4)?;
            let written = self.span_named(words.word()?)?;
            args.push_span::<u32>(written.clone(), Mode::Write, written.bytes() / 4)?;
        } else {
            args.push_span::<u32>(span.clone(), Mode::Update, span.bytes() / 4)?;
        }
        args.push_scalar(words.small::<u32>()?)?;
        let options = words.rest();
        let blocks = elements.div_ceil(u64::from(THREADS)).max(1);
        let blocks = u32::try_from(blocks).map_err(|_| Failure::Unclear)?;
        let grid = shape(&options, "grid")?.unwrap_or([blocks, 1, 1]);
        let block = shape(&options, "block")?.unwrap_or([THREADS, 1, 1]);
        let shared_bytes = bytes_option(&options, "shared")?;
        let name = &Cow::Owned(name.to_owned());
        let config = LaunchConfig::new(grid, block).shared_bytes(shared_bytes);
        let launch = Launch { function, name, config, args: &args };
        self.driver.submit(stream, &Action::Launch(launch))?;
        Ok(String::new())
    }
}
