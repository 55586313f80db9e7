//! Gates: each holds back one stream.

use std::sync::mpsc;
use trijet::testing::{MIX, WORK};
use trijet::{Clock, Device, Result, Stream};

/// Holds back a stream until the gate is opened or dropped. Tests use one gate at a time, because
/// host functions may run one after the other (law A28).
///
/// In real time, the gate is a host function that waits. In the virtual executor, the thread that
/// waits for the device runs the host functions, so such a gate would never open. There the gate is
/// a host function with a long modelled duration.
pub(crate) struct Gate(Option<mpsc::Sender<()>>);

impl Gate {
    pub(crate) fn on(device: &Device, stream: &Stream) -> Result<Self> {
        // The kernel is loaded now, because loading it later would wait for the gate (law A42).
        device.load(&MIX)?;
        device.load(&WORK)?;
        if device.info().clock == Clock::Model {
            stream.host_fn(|| ())?;
            return Ok(Self(None));
        }
        let (send, receive) = mpsc::channel();
        // Dropping the sender opens the gate.
        stream.host_fn(move || receive.recv().unwrap_or(()))?;
        Ok(Self(Some(send)))
    }

    pub(crate) fn open(self) {
        drop(self.0);
    }
}
