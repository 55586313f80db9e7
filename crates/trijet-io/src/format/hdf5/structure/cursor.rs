//! Numbers and bytes of a part of the structure, one after another.

use super::fault::{Fault, Outcome};

/// The sizes of the addresses and of the lengths in a file, in bytes: at most 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) address: usize,
    pub(super) length: usize,
}

/// The bytes of a part that are not taken yet. A part that ends early is damaged.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldCursor<'a> {
    rest: &'a [u8],
    widths: Widths,
}

impl<'a> FieldCursor<'a> {
    pub(super) fn new(bytes: &'a [u8], widths: Widths) -> Self {
        Self { rest: bytes, widths }
    }

    /// A cursor over other bytes of the same file.
    pub(super) fn of(self, bytes: &[u8]) -> FieldCursor<'_> {
        FieldCursor::new(bytes, self.widths)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, count: usize) -> Outcome<&'a [u8]> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| Fault::damaged("it ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn skip(&mut self, count: usize) -> Outcome<()> {
        self.take(count).map(drop)
    }

    /// A number of at most 8 bytes, in little-endian order.
    pub(super) fn number(&mut self, bytes: usize) -> Outcome<u64> {
        let mut whole = [0; 8];
        let target = whole.get_mut(..bytes);
        let target = target.ok_or_else(|| Fault::damaged("a number has more than 8 bytes"))?;
        target.copy_from_slice(self.take(bytes)?);
        Ok(u64::from_le_bytes(whole))
    }

    /// A number of at most 8 bytes that counts something in memory.
    pub(super) fn count(&mut self, bytes: usize) -> Outcome<usize> {
        let number = self.number(bytes)?;
        usize::try_from(number).map_err(|_| Fault::damaged(format!("{number} is too large")))
    }

    pub(super) fn u8(&mut self) -> Outcome<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn u16(&mut self) -> Outcome<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Outcome<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or_else(|| Fault::damaged("it ends early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A length or another number of the size of lengths.
    pub(super) fn length(&mut self) -> Outcome<u64> {
        self.number(self.widths.length)
    }

    /// A length that may be unlimited: `None`.
    pub(super) fn limit(&mut self) -> Outcome<Option<u64>> {
        Ok(defined(self.length()?, self.widths.length))
    }

    /// An address, which may be undefined: `None`.
    pub(super) fn address(&mut self) -> Outcome<Option<u64>> {
        Ok(defined(self.number(self.widths.address)?, self.widths.address))
    }

    /// An address that the part must have.
    pub(super) fn defined_address(&mut self) -> Outcome<u64> {
        self.address()?.ok_or_else(|| Fault::damaged("an address is undefined"))
    }

    /// The bytes before the next NUL, which is taken.
    pub(super) fn until_nul(&mut self) -> Outcome<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| Fault::damaged("a text has no end"))?;
        let text = self.take(end)?;
        self.skip(1)?;
        Ok(text)
    }
}

/// A number of this many bytes, unless all of its bits are set.
fn defined(number: u64, bytes: usize) -> Option<u64> {
    let unused = 64_usize.saturating_sub(8 * bytes);
    let all = u64::MAX.checked_shr(u32::try_from(unused).unwrap_or(u32::MAX)).unwrap_or(0);
    (number != all).then_some(number)
}

/// A text of the file. Bytes that are not UTF-8 become the sign of replacement.
pub(super) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_whose_bits_are_all_set_is_undefined() {
        for width in 2..=8 {
            let widths = Widths { address: width, length: width };
            let mut bytes = vec![0xff; width];
            assert_eq!(FieldCursor::new(&bytes, widths).address().unwrap(), None);
            bytes[0] = 0xfe;
            assert!(FieldCursor::new(&bytes, widths).address().unwrap().is_some());
            bytes.pop();
            assert!(FieldCursor::new(&bytes, widths).address().is_err());
        }
    }
}
