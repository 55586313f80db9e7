//! Streams of zlib and members of gzip.

use crate::error::{Cause, too_long, trailing};
use flate2::bufread::MultiGzDecoder;
use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::{Compression, Decompress, FlushDecompress, Status};
use std::fmt;
use std::io::{ErrorKind, Read, Write};

/// A decoder that is used again for the next stream.
#[derive(Default)]
pub(crate) struct Inflater(Option<Decompress>);

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

impl Inflater {
    /// Decodes a stream of zlib. Zero bytes may follow it.
    pub(crate) fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
        let state = self.0.get_or_insert_with(|| Decompress::new(true));
        state.reset(true);
        let mut status = step(state, input, output)?;
        let written = usize::try_from(state.total_out()).unwrap_or(usize::MAX);
        if status != Status::StreamEnd && written == output.len() {
            // The end of the stream may follow the last byte.
            let mut spare = [0];
            status = step(state, &input[consumed(state, input)..], &mut spare)?;
            if usize::try_from(state.total_out()) != Ok(written) {
                return Err(too_long(output.len()));
            }
        }
        if status != Status::StreamEnd {
            return Err("the stream ends early".into());
        }
        let rest = &input[consumed(state, input)..];
        if rest.iter().any(|&byte| byte != 0) {
            return Err(trailing(rest.len()));
        }
        Ok(written)
    }
}

fn step(state: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<Status, Cause> {
    let done = state.decompress(input, output, FlushDecompress::Finish);
    done.map_err(|error| format!("the stream is damaged: {error}").into())
}

/// The bytes of an input that a decoder has read.
fn consumed(state: &Decompress, input: &[u8]) -> usize {
    usize::try_from(state.total_in()).map_or(input.len(), |read| read.min(input.len()))
}

/// Decodes members of gzip. Nothing may follow the last one.
pub(crate) fn decode_gzip(input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    let mut decoder = MultiGzDecoder::new(input);
    let mut written = 0;
    loop {
        let mut spare = [0];
        let is_full = written == output.len();
        let target = if is_full { &mut spare[..] } else { &mut output[written..] };
        match decoder.read(target) {
            Ok(0) => return Ok(written),
            Ok(_) if is_full => return Err(too_long(output.len())),
            Ok(read) => written += read,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err("the member ends early".into());
            }
            Err(error) => return Err(format!("the member is damaged: {error}").into()),
        }
    }
}

/// Appends a stream of zlib to `output`.
pub(crate) fn encode(input: &[u8], output: &mut Vec<u8>) -> Result<(), Cause> {
    let mut encoder = ZlibEncoder::new(output, Compression::default());
    let done = encoder.write_all(input).and_then(|()| encoder.finish().map(drop));
    done.map_err(|error| error.to_string().into())
}

/// Appends a member of gzip to `output`, without a name and a time.
pub(crate) fn encode_gzip(input: &[u8], output: &mut Vec<u8>) -> Result<(), Cause> {
    let mut encoder = GzEncoder::new(output, Compression::default());
    let done = encoder.write_all(input).and_then(|()| encoder.finish().map(drop));
    done.map_err(|error| error.to_string().into())
}
