//! The verbs of copies and fills, and the verbs that write and print bytes.
#![forbid(unsafe_code)]

use super::machine::{Answer, Failure, FreedBy, Machine, Object, VerbResult};
use super::text::{Words, number};
use crate::base::error::{Error, ErrorKind};
use crate::base::ledger::Mode;
use crate::base::units::Bytes;
use crate::device::driver::{Action, CopySpans, Form, SourceOrder};
use crate::device::memory::{Memory, Space, Span};
use crate::device::region::RangeGuard;
use std::fmt::Write;

/// Maximum number of sequences of equal bytes that are printed one by one.
const RUNS_MAX: usize = 6;

/// The bytes as text: the length and the value of each sequence of equal bytes, as in `4*07 60*00`.
/// If there are too many sequences, a digest of the bytes.
fn picture(bytes: &[u8]) -> String {
    let runs: Vec<&[u8]> = bytes.chunk_by(|a, b| a == b).collect();
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    if runs.len() > RUNS_MAX {
        // FNV-1a.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        return format!("{} bytes of digest {hash:016x}", bytes.len());
    }
    runs.iter().fold(String::new(), |mut text, run| {
        let space = if text.is_empty() { "" } else { " " };
        write!(text, "{space}{}*{:02x}", run.len(), run[0]).expect("a string takes all of it");
        text
    })
}

/// Locks host bytes. Fails if a running operation uses them.
fn lock(span: &Span, mode: Mode) -> VerbResult<RangeGuard<'_>> {
    span.lock(mode).ok_or_else(|| {
        let cause = "a running operation uses the bytes";
        Error::new(ErrorKind::Stalled, "look at bytes", cause).into()
    })
}

impl Machine<'_> {
    /// The bytes that `NAME` or `NAME[FROM..TO]` names. Fails for memory that was freed.
    pub(super) fn span_named(&self, word: &str) -> VerbResult<Span> {
        let (name, range) = match word.split_once('[') {
            Some((name, range)) => (name, Some(range.trim_end_matches(']'))),
            None => (word, None),
        };
        let memory = match self.named(name)? {
            Object::Memory(_, FreedBy::Gone) => return Err(Failure::Unbound(name.to_owned())),
            Object::Memory(memory, _) => memory,
            _ => return Err(Failure::Unclear),
        };
        let Some(range) = range else { return Ok(memory.span(0..memory.bytes())) };
        let (from, to) = range.split_once("..").ok_or(Failure::Unclear)?;
        let from = number(from).ok_or(Failure::Unclear)?;
        let to = number(to).ok_or(Failure::Unclear)?;
        if from > to || to > memory.bytes() {
            return Err(Failure::Unclear);
        }
        Ok(memory.span(from..to))
    }

    /// Releases held streams and waits for all work, so that no operation uses host bytes.
    fn quiet(&mut self) -> VerbResult<()> {
        self.latches.clear();
        for device in &self.used {
            self.driver.synchronize(*device)?;
        }
        Ok(())
    }

    /// `put SPAN VALUE|ramp`: the host writes host memory.
    pub(super) fn put(&mut self, words: &mut Words<'_>) -> Answer {
        let span = self.span_named(words.word()?)?;
        let value = words.word()?;
        self.quiet()?;
        if span.bytes() == 0 {
            return Ok(String::new());
        }
        let mut guard = lock(&span, Mode::Write)?;
        match number(value) {
            Some(value) => {
                guard.bytes_mut().fill(u8::try_from(value).map_err(|_| Failure::Unclear)?);
            }
            None => {
                for (byte, value) in guard.bytes_mut().iter_mut().zip((0..=250u8).cycle()) {
                    *byte = value;
                }
            }
        }
        Ok(String::new())
    }

    /// `bytes SPAN`: waits for all work, and returns the bytes as text.
    pub(super) fn bytes(&mut self, words: &mut Words<'_>) -> Answer {
        let span = self.span_named(words.word()?)?;
        self.quiet()?;
        if span.bytes() == 0 {
            return Ok(picture(&[]));
        }
        let Space::Device(device) = span.memory().space() else {
            return Ok(picture(lock(&span, Mode::Read)?.bytes()));
        };
        let stream = self.tools(device)?.stream;
        let seen: Memory = self.driver.pinned_alloc(device, Bytes(span.bytes()))?;
        let copy = seen.span(0..span.bytes());
        self.driver.submit(stream, &Action::Copy { dst: &copy, src: &span, form: Form::Async })?;
        self.driver.stream_synchronize(stream)?;
        let text = picture(lock(&copy, Mode::Read)?.bytes());
        drop(copy);
        self.driver.pinned_free(&seen)?;
        Ok(text)
    }

    fn two_spans(&self, words: &mut Words<'_>) -> VerbResult<(Span, Span)> {
        Ok((self.span_named(words.word()?)?, self.span_named(words.word()?)?))
    }

    /// `copy STREAM DST SRC`
    pub(super) fn copy(&self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        let (dst, src) = self.two_spans(words)?;
        self.driver.submit(stream, &Action::Copy { dst: &dst, src: &src, form: Form::Async })?;
        Ok(String::new())
    }

    /// `copy-now DST SRC [on D]`
    pub(super) fn copy_now(&mut self, words: &mut Words<'_>) -> Answer {
        let (dst, src) = self.two_spans(words)?;
        let device = self.device_of(&words.rest())?;
        let legacy = self.driver.stream_legacy(device)?;
        self.driver.submit(legacy, &Action::Copy { dst: &dst, src: &src, form: Form::Sync })?;
        Ok(String::new())
    }

    /// `fill STREAM DST VALUE`
    pub(super) fn fill(&self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        let dst = self.span_named(words.word()?)?;
        let value = words.small()?;
        self.driver.submit(stream, &Action::Fill { dst: &dst, value, form: Form::Async })?;
        Ok(String::new())
    }

    /// `fill-now DST VALUE [on D]`
    pub(super) fn fill_now(&mut self, words: &mut Words<'_>) -> Answer {
        let (dst, value) = (self.span_named(words.word()?)?, words.small()?);
        let device = self.device_of(&words.rest())?;
        let legacy = self.driver.stream_legacy(device)?;
        self.driver.submit(legacy, &Action::Fill { dst: &dst, value, form: Form::Sync })?;
        Ok(String::new())
    }

    /// `batch STREAM stream|during|any [DST=SRC]..`
    pub(super) fn batch(&self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        let order = match words.word()? {
            "stream" => SourceOrder::Stream,
            "during" => SourceOrder::DuringCall,
            "any" => SourceOrder::Any,
            _ => return Err(Failure::Unclear),
        };
        let mut copies = Vec::new();
        for word in words.rest() {
            let (dst, src) = word.split_once('=').ok_or(Failure::Unclear)?;
            copies.push(CopySpans { dst: self.span_named(dst)?, src: self.span_named(src)? });
        }
        self.driver.submit(stream, &Action::Batch { copies: &copies, order })?;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_runs_or_as_a_digest() {
        assert_eq!(picture(&[]), "nothing");
        assert_eq!(picture(&[7, 7, 0]), "2*07 1*00");
        let many: Vec<u8> = (0..8).collect();
        assert!(picture(&many).starts_with("8 bytes of digest "));
        assert_ne!(picture(&many), picture(&many.iter().rev().copied().collect::<Vec<_>>()));
    }
}
