//! blosclz, the own compression of blosc: literals, and copies of earlier bytes.

use crate::error::{Cause, too_long};

/// The largest distance of a copy with a distance of 13 bits. A larger one has 16 more bits.
const DISTANCE_MAX: usize = 8191;

/// Decodes one stream. Its first byte has the length of a literal, because no copy can be first.
pub(crate) fn decode(input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    let most = output.len();
    let (mut read, mut written) = (0, 0);
    while read < input.len() {
        let mut control = usize::from(input[read]);
        if read == 0 {
            control &= 31;
        }
        read += 1;
        let length =
            if control < 32 { control + 1 } else { copy_length(control, input, &mut read)? };
        let end = written + length;
        if end > most {
            return Err(too_long(most));
        }
        if control < 32 {
            let literal = input.get(read..read + length).ok_or("the data end early")?;
            output[written..end].copy_from_slice(literal);
            read += length;
        } else {
            let distance = distance(control, input, &mut read)?;
            let from = written.checked_sub(distance).ok_or("a copy begins before the data")?;
            copy(output, from, written..end);
        }
        written = end;
    }
    Ok(written)
}

fn next(input: &[u8], read: &mut usize) -> Result<usize, Cause> {
    let byte = input.get(*read).ok_or("the data end early")?;
    *read += 1;
    Ok(usize::from(*byte))
}

/// The length of a copy: three bits. More bytes follow if all three are set.
fn copy_length(control: usize, input: &[u8], read: &mut usize) -> Result<usize, Cause> {
    let mut length = (control >> 5) + 2;
    if control >> 5 == 7 {
        loop {
            let more = next(input, read)?;
            length += more;
            if more != 255 {
                break;
            }
        }
    }
    Ok(length)
}

/// The distance of a copy: 13 bits. 16 more bits follow if all of them are set.
fn distance(control: usize, input: &[u8], read: &mut usize) -> Result<usize, Cause> {
    let (upper, lower) = (control & 31, next(input, read)?);
    if upper == 31 && lower == 255 {
        let far = (next(input, read)? << 8) | next(input, read)?;
        return Ok(far + DISTANCE_MAX + 1);
    }
    Ok((upper << 8) + lower + 1)
}

/// Copies earlier bytes to a range. If the range is longer than the distance, the bytes repeat.
fn copy(output: &mut [u8], from: usize, range: std::ops::Range<usize>) {
    let distance = range.start - from;
    if distance == 1 {
        let byte = output[from];
        output[range].fill(byte);
        return;
    }
    let mut at = range.start;
    while at < range.end {
        // The bytes from `from` on repeat, so each copy can be twice as long as the one before it.
        let length = (at - from).min(range.end - at);
        output.copy_within(from..from + length, at);
        at += length;
    }
}
