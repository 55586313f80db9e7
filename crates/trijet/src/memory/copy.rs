//! Copies and fills: one verb for every direction.
#![forbid(unsafe_code)]

use super::buffer::{AsView, AsViewMut};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{Engine, Mode, OpKind};
use crate::device::memory::Space;
use crate::stream::Stream;
use std::panic::Location;

/// The engine that moves bytes between two spaces.
fn engine(src: Space, dst: Space) -> Engine {
    match (src, dst) {
        (Space::Device(a), Space::Device(b)) if a != b => Engine::Peer,
        (Space::Device(_), Space::Device(_)) => Engine::Compute,
        (Space::Device(_), _) => Engine::Download,
        (_, Space::Device(_)) => Engine::Upload,
        _ => Engine::Host,
    }
}

impl Stream {
    /// Copies `src` to `dst` asynchronously, in any direction. Both have the same length.
    ///
    /// # Errors
    /// `InvalidValue` when the lengths differ, the two overlap, or one is of another driver than
    /// the stream; what the driver reports.
    #[track_caller]
    pub fn copy<R, W>(&self, src: &R, dst: &mut W) -> Result<()>
    where
        R: AsView + ?Sized,
        W: AsViewMut<Element = R::Element> + ?Sized,
    {
        let (src, dst) = (src.as_view(), dst.as_view_mut());
        if src.len() != dst.len() {
            let cause = format!("{} elements into {}", src.len(), dst.len());
            return Err(Error::new(ErrorKind::InvalidValue, "copy", cause));
        }
        let (from, to) = (src.span(), dst.span());
        if from.overlaps(&to) {
            let cause = "the source and the target overlap";
            return Err(Error::new(ErrorKind::InvalidValue, "copy", cause));
        }
        if src.is_empty() {
            return Ok(());
        }
        let engine = engine(from.memory().space(), to.memory().space());
        let label = match engine {
            Engine::Upload => "upload",
            Engine::Download => "download",
            _ => "copy",
        };
        let spec = self.spec(OpKind::Copy, engine, label, Location::caller());
        let uses = [src.read_use(), dst.write_use(Mode::Write)];
        self.lane().enqueue(&spec, &uses, |driver, s| driver.copy(s, &to, &from)).map(|_| ())
    }

    /// Sets every byte of `dst` asynchronously.
    ///
    /// # Errors
    /// `InvalidValue` for memory of another device; what the driver reports.
    #[track_caller]
    pub fn fill_bytes<W: AsViewMut + ?Sized>(&self, dst: &mut W, value: u8) -> Result<()> {
        let dst = dst.as_view_mut();
        if dst.is_empty() {
            return Ok(());
        }
        let span = dst.span();
        if !span.is_reached_by(self.lane().device) {
            let cause = format!("{span} is out of reach of {}", self.lane().device);
            return Err(Error::new(ErrorKind::InvalidValue, "fill", cause));
        }
        let spec = self.spec(OpKind::Fill, Engine::Compute, "fill", Location::caller());
        let uses = [dst.write_use(Mode::Write)];
        self.lane().enqueue(&spec, &uses, |driver, s| driver.fill(s, &span, value)).map(|_| ())
    }
}
