//! LZW of TIFF.

use crate::error::{Cause, too_long};
use std::fmt;
use weezl::decode::Decoder;
use weezl::{BitOrder, LzwStatus};

/// A decoder that is used again for the next strip.
#[derive(Default)]
pub(crate) struct LzwDecoder(Option<Decoder>);

impl fmt::Debug for LzwDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LzwDecoder").finish_non_exhaustive()
    }
}

impl LzwDecoder {
    pub(crate) fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
        let new = || Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
        let decoder = self.0.get_or_insert_with(new);
        decoder.reset();
        let (mut read, mut written) = (0, 0);
        loop {
            // The end code may follow the last byte, so one more byte has room.
            let mut spare = [0];
            let is_full = written == output.len();
            let target = if is_full { &mut spare[..] } else { &mut output[written..] };
            let step = decoder.decode_bytes(&input[read..], target);
            read += step.consumed_in;
            if is_full && step.consumed_out > 0 {
                return Err(too_long(output.len()));
            }
            written += step.consumed_out;
            match step.status {
                Ok(LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
                // Some writers leave out the end code.
                Ok(LzwStatus::Ok | LzwStatus::NoProgress) => return Ok(written),
                // The library reads ahead, so that it cannot tell how many bytes follow.
                Ok(LzwStatus::Done) => return Ok(written),
                Err(error) => return Err(format!("the data are damaged: {error}").into()),
            }
        }
    }
}
