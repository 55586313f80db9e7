//! PackBits of TIFF: counts, each with bytes to copy or one byte to repeat.

use crate::error::{Cause, too_long};

/// The count that stands for nothing.
const NOTHING: u8 = 0x80;

pub(crate) fn decode(mut input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    let mut written = 0;
    while let Some((&count, rest)) = input.split_first() {
        // Writers fill a strip with counts of nothing, or with zero bytes up to an even length.
        if written == output.len() && input.iter().all(|&byte| byte == NOTHING || byte == 0) {
            break;
        }
        input = rest;
        let length = match count {
            NOTHING => continue,
            0..NOTHING => usize::from(count) + 1,
            _ => 257 - usize::from(count),
        };
        let room = output.len();
        let target = output.get_mut(written..written + length).ok_or_else(|| too_long(room))?;
        if count < NOTHING {
            let (literal, rest) = input.split_at_checked(length).ok_or("the data end early")?;
            target.copy_from_slice(literal);
            input = rest;
        } else {
            let (&byte, rest) = input.split_first().ok_or("the data end early")?;
            target.fill(byte);
            input = rest;
        }
        written += length;
    }
    Ok(written)
}
