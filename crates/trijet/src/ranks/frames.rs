//! Frames between ranks: the length in four bytes, then the content in the format of postcard.
#![forbid(unsafe_code)]

use super::steps::Step;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Maximum number of bytes per frame. A frame of this size fits into the buffers of a socket, so
/// that a write does not wait for the reader.
const BYTES_MAX: usize = 64 << 10;
/// Maximum number of bytes of a message per frame.
pub(super) const PART_BYTES: usize = 48 << 10;

/// A call that all ranks make together, such as a broadcast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// The number of earlier calls of this rank.
    pub(super) number: u64,
    pub(super) what: String,
    pub(super) value: u64,
    /// The bytes of this rank. The answer to all ranks has the bytes of rank 0.
    #[serde(with = "serde_bytes")]
    pub(super) bytes: Vec<u8>,
}

/// The answer to a call: the bytes of rank 0, or a text that describes how two calls differ.
pub(super) type Answer = Result<Vec<u8>, String>;

/// A part of a message between two ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(crate) channel: u64,
    pub(super) is_last: bool,
    // Without this attribute, serde would make a call for each byte.
    #[serde(with = "serde_bytes")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame {
    /// A heartbeat. For each communicator of the sender, the frame has its channel and the number
    /// of collectives that the device of the sender has reached.
    Beat(Vec<(u64, u64)>),
    Call(Call),
    Answer(Answer),
    /// A rank is lost. The text names the rank, and describes how the loss was found.
    Lost(String),
    /// The sender leaves the group, without a loss.
    Goodbye,
    /// A new communicator: its channel and, for each of its ranks, the rank of the process in the
    /// group.
    Open(u64, Vec<u32>),
    /// The sender has dropped the communicator with this channel.
    Leave(u64),
    /// A collective that the sender has called: the channel, the number of the collective, and the
    /// call.
    Step(u64, u64, Step),
    /// All ranks have called a collective and agree: the channel, and the number of the collective.
    Agreed(u64, u64),
    /// A part of a message between two ranks. Rank 0 passes the part on to its receiver.
    Part(Part),
}

fn invalid(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

impl Frame {
    /// Writes the frame.
    ///
    /// # Errors
    /// Errors of the writer; `InvalidData` for a frame that is too long.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let body = postcard::to_stdvec(self).map_err(invalid)?;
        let len = u32::try_from(body.len()).ok().filter(|_| body.len() <= BYTES_MAX);
        let len = len.ok_or_else(|| {
            invalid(format!(
                "a frame of {} bytes is too long; the limit is {BYTES_MAX}",
                body.len()
            ))
        })?;
        let mut whole = len.to_le_bytes().to_vec();
        whole.extend(body);
        to.write_all(&whole)
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// Errors of the reader; `InvalidData` for bytes that are not a frame.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut len = [0; 4];
        from.read_exact(&mut len)?;
        let len = usize::try_from(u32::from_le_bytes(len)).map_err(invalid)?;
        if len > BYTES_MAX {
            return Err(invalid(format!(
                "a frame of {len} bytes is too long; the limit is {BYTES_MAX}"
            )));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        postcard::from_bytes(&body).map_err(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written_and_damage_is_an_error() {
        let call = Call { number: 7, what: "step".into(), value: 1 << 40, bytes: vec![1, 2, 3] };
        for frame in [Frame::Beat(vec![(1, 2)]), Frame::Call(call), Frame::Answer(Err("no".into()))]
        {
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            assert_eq!(Frame::read(&mut &bytes[..]).unwrap(), frame);
            assert!(Frame::read(&mut &bytes[..bytes.len() - 1]).is_err());
        }
        let kind = |bytes: &[u8]| Frame::read(&mut &*bytes).unwrap_err().kind();
        assert_eq!(kind(&[255; 9]), io::ErrorKind::InvalidData);
        assert_eq!(kind(&[1, 0, 0, 0, 99]), io::ErrorKind::InvalidData);
        let long = Frame::Answer(Ok(vec![0; BYTES_MAX]));
        assert!(long.write(&mut Vec::new()).is_err());
    }
}
