//! Copies by bare driver calls between two GPUs that can access each other's memory.

use super::lab::{Lab, MEMORY_BYTES};
use super::table::ask;
use trijet::{Error, ErrorKind, Result};

/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
const ALREADY: i32 = 704;

/// A source in the memory of one GPU, and a destination in the memory of another GPU.
#[derive(Debug)]
pub(crate) struct Peers<'a> {
    from: &'a Lab,
    to: &'a Lab,
    source: u64,
    target: u64,
    bytes: usize,
}

impl Lab {
    /// Whether this GPU can access the memory of the other GPU.
    pub(crate) fn reaches(&self, other: &Self) -> Result<bool> {
        let (mut possible, here, there) = (0, self.device, other.device);
        let out = &raw mut possible;
        ask!(self.table, peer_possible(out, here, there), "two devices and room for the answer")?;
        Ok(possible != 0)
    }

    fn enable(&self, other: &Self) -> Result<()> {
        self.enter()?;
        let enabled = ask!(self.table, peer_enable(other.context, 0), "a retained context");
        enabled.or_else(|e| if e.code() == Some(ALREADY) { Ok(()) } else { Err(e) })
    }
}

impl<'a> Peers<'a> {
    /// # Errors
    /// `OutOfMemory`; every error of the driver.
    pub(crate) fn new(from: &'a Lab, to: &'a Lab, bytes: usize) -> Result<Self> {
        from.enable(to)?;
        to.enable(from)?;
        let mut this = Self { from, to, source: 0, target: 0, bytes };
        let out = &raw mut this.target;
        ask!(to.table, alloc(out, bytes), "room for the target's address")?;
        from.enter()?;
        let out = &raw mut this.source;
        ask!(from.table, alloc(out, bytes), "room for the source's address")?;
        Ok(this)
    }

    /// Makes `count` copies of `bytes` bytes each, one after another. Returns their device time in
    /// nanoseconds.
    ///
    /// # Errors
    /// Every error of the driver.
    pub(crate) fn copies(&self, bytes: usize, count: usize) -> Result<f64> {
        self.from.enter()?;
        let (to, from, stream) = (self.to.context, self.from.context, self.from.stream);
        self.from.device_ns(|| {
            for index in 0..count {
                let at = (index * bytes) as u64;
                let (dst, src) = (self.target + at, self.source + at);
                ask!(
                    self.from.table,
                    peer_copy(dst, to, src, from, bytes, stream),
                    "the callers choose `count` and `bytes` so that all copies lie within both \
                     allocations"
                )?;
            }
            Ok(())
        })
    }

    /// Fills the source with `value`, copies all of it, and checks the first and the last 64 KiB of
    /// the destination.
    ///
    /// # Errors
    /// `InvalidValue` if the destination has wrong bytes. Every error of the driver.
    pub(crate) fn verify(&self, value: u8) -> Result<()> {
        self.from.enter()?;
        let (stream, bytes) = (self.from.stream, self.bytes);
        ask!(self.from.table, fill(self.source, value, bytes, stream), "the whole source")?;
        self.from.synchronize()?;
        self.copies(bytes, 1)?;
        self.to.enter()?;
        let mut back = vec![0u8; MEMORY_BYTES.min(bytes)];
        for at in [0, bytes - back.len()] {
            back.fill(!value);
            let (to, from) = (back.as_mut_ptr().cast(), self.target + at as u64);
            let (length, stream) = (back.len(), self.to.stream);
            ask!(self.to.table, download(to, from, length, stream), "within the target's bytes")?;
            self.to.synchronize()?;
            if back.iter().any(|byte| *byte != value) {
                let cause = "a copy between two devices gave wrong bytes";
                return Err(Error::new(ErrorKind::InvalidValue, "peer copy", cause));
            }
        }
        Ok(())
    }

    /// Frees the source and the destination.
    ///
    /// # Errors
    /// Every error of the driver.
    pub(crate) fn close(self) -> Result<()> {
        self.from.enter()?;
        ask!(self.from.table, free(self.source), "its copies are complete")?;
        self.to.enter()?;
        ask!(self.to.table, free(self.target), "its copies are complete, and nothing reads it")
    }
}
