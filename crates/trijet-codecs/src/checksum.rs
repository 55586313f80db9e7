//! Checksums at the end of a block.

use crate::error::Cause;

/// The bytes of a checksum.
pub(crate) const BYTES: usize = 4;

/// Numbers of 16 bits whose sums fit into 32 bits, as in the library of HDF5.
const SUMMED: usize = 360;

/// Splits a block into its data and its checksum.
fn split(block: &[u8]) -> Result<(&[u8], u32), Cause> {
    let (data, sum) = block.split_last_chunk().ok_or("the block has no checksum")?;
    Ok((data, u32::from_le_bytes(*sum)))
}

/// Compares the CRC-32C of a block with its data. Returns the length of the data.
pub(crate) fn crc32c(block: &[u8]) -> Result<usize, Cause> {
    let (data, sum) = split(block)?;
    if ::crc32c::crc32c(data) != sum {
        return Err("the checksum differs from the data".into());
    }
    Ok(data.len())
}

/// Compares the sum of Fletcher of a block with its data. Returns the length of the data.
pub(crate) fn fletcher32(block: &[u8]) -> Result<usize, Cause> {
    let (data, sum) = split(block)?;
    let right = fletcher(data);
    // HDF5 up to 1.6.2 swapped the bytes of each half, and later versions read both.
    let bytes = right.to_le_bytes();
    let swapped = u32::from_le_bytes([bytes[1], bytes[0], bytes[3], bytes[2]]);
    if sum != right && sum != swapped {
        return Err("the checksum differs from the data".into());
    }
    Ok(data.len())
}

/// The sum of Fletcher over numbers of 16 bits in big-endian order. The last byte of an odd length
/// is the upper half of a number.
fn fletcher(data: &[u8]) -> u32 {
    let (mut first, mut second) = (0_u32, 0_u32);
    let folded = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (pairs, odd) = data.as_chunks::<2>();
    for part in pairs.chunks(SUMMED) {
        for pair in part {
            first += u32::from(u16::from_be_bytes(*pair));
            second += first;
        }
        (first, second) = (folded(first), folded(second));
    }
    if let [last] = odd {
        first += u32::from(*last) << 8;
        second += first;
        (first, second) = (folded(first), folded(second));
    }
    (folded(second) << 16) | folded(first)
}
