//! The numbers in a binary header.

use crate::byte_order::ByteOrder;

/// The bytes of a header whose length was checked, and the byte order of its numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) order: ByteOrder,
}

impl Fields<'_> {
    /// The `N` bytes at `at`, lowest byte first.
    fn little<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.bytes[at..at + N]);
        if self.order == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.little(at))
    }

    pub(super) fn i16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.little(at))
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.little(at))
    }

    pub(super) fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.little(at))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.little(at))
    }

    pub(super) fn i64(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.little(at))
    }

    pub(super) fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.little(at))
    }

    pub(super) fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.little(at))
    }
}
