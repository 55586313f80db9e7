//! A stream that is held back.

use std::sync::mpsc;
use trijet::testing::{MIX, WORK};
use trijet::{Clock, Device, Result, Stream};

/// Holds a stream back until it is opened or dropped. One at a time: host functions may be
/// serialised (law A28).
///
/// With real time it is a host function that waits. In the virtual executor whoever waits for the
/// device runs its host functions, so one that waits for that thread would never end; there the
/// model says that host functions take long.
pub(crate) struct Gate(Option<mpsc::Sender<()>>);

impl Gate {
    pub(crate) fn on(device: &Device, stream: &Stream) -> Result<Self> {
        // Law A42: loading a kernel later would wait for the gate.
        device.load(&MIX)?;
        device.load(&WORK)?;
        if device.info().clock == Clock::Model {
            stream.host_fn(|| ())?;
            return Ok(Self(None));
        }
        let (send, receive) = mpsc::channel();
        // A gate that is dropped is open.
        stream.host_fn(move || receive.recv().unwrap_or(()))?;
        Ok(Self(Some(send)))
    }

    pub(crate) fn open(self) {
        drop(self.0);
    }
}
