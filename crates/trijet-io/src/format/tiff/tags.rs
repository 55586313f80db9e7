//! The bytes of directories that are written, little-endian.

/// The type of the values of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagType {
    Text = 2,
    Short = 3,
    Long = 4,
    Fraction = 5,
    Long8 = 16,
}

/// A tag with its values.
#[derive(Debug, Clone)]
struct Tag {
    tag: u16,
    kind: TagType,
    count: u64,
    bytes: Vec<u8>,
}

/// The tags of one directory.
#[derive(Debug, Clone, Default)]
pub(super) struct Tags {
    tags: Vec<Tag>,
}

/// The two forms of TIFF files: with offsets of 32 bits, and with offsets of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offsets {
    Bits32,
    Bits64,
}

impl Offsets {
    /// The first bytes of a file. The first directory follows them.
    pub(super) fn start(self) -> Vec<u8> {
        match self {
            Self::Bits32 => [b"II*\0".to_vec(), 8_u32.to_le_bytes().to_vec()].concat(),
            Self::Bits64 => [b"II+\0\x08\0\0\0".to_vec(), 16_u64.to_le_bytes().to_vec()].concat(),
        }
    }

    fn field_bytes(self) -> usize {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }

    /// Adds a number to `into` as an offset.
    fn push(self, into: &mut Vec<u8>, offset: u64) {
        into.extend(&offset.to_le_bytes()[..self.field_bytes()]);
    }
}

impl Tags {
    fn add(&mut self, tag: u16, kind: TagType, count: u64, bytes: Vec<u8>) {
        self.tags.push(Tag { tag, kind, count, bytes });
    }

    /// Adds a tag with `count` equal values below 2^16.
    pub(super) fn shorts(&mut self, tag: u16, value: u16, count: u64) {
        let values = (0..count).flat_map(|_| value.to_le_bytes()).collect();
        self.add(tag, TagType::Short, count, values);
    }

    pub(super) fn long(&mut self, tag: u16, value: u32) {
        self.add(tag, TagType::Long, 1, value.to_le_bytes().to_vec());
    }

    /// Adds a tag with one value that has the size of an offset.
    pub(super) fn offset(&mut self, tag: u16, value: u64, offsets: Offsets) {
        let kind = match offsets {
            Offsets::Bits32 => TagType::Long,
            Offsets::Bits64 => TagType::Long8,
        };
        let mut bytes = Vec::new();
        offsets.push(&mut bytes, value);
        self.add(tag, kind, 1, bytes);
    }

    pub(super) fn text(&mut self, tag: u16, text: &str) {
        let bytes = [text.as_bytes(), b"\0"].concat();
        self.add(tag, TagType::Text, bytes.len() as u64, bytes);
    }

    pub(super) fn fraction(&mut self, tag: u16, [above, below]: [u32; 2]) {
        let bytes = [above.to_le_bytes(), below.to_le_bytes()].concat();
        self.add(tag, TagType::Fraction, 1, bytes);
    }

    /// The bytes of a directory at the offset `at`, with the values that do not fit into its
    /// entries. The length is a multiple of 8. `next` is the offset of the next directory, given
    /// the length of this one.
    pub(super) fn bytes(
        &self,
        at: u64,
        offsets: Offsets,
        next: impl FnOnce(u64) -> u64,
    ) -> Vec<u8> {
        let field = offsets.field_bytes();
        let mut sorted: Vec<&Tag> = self.tags.iter().collect();
        sorted.sort_by_key(|tag| tag.tag);
        let count = sorted.len() as u64;
        let mut all = match offsets {
            Offsets::Bits32 => count.to_le_bytes()[..2].to_vec(),
            Offsets::Bits64 => count.to_le_bytes().to_vec(),
        };
        let values_at = all.len() + sorted.len() * (4 + 2 * field) + field;
        let mut values = Vec::new();
        for Tag { tag, kind, count, bytes } in sorted {
            all.extend(tag.to_le_bytes());
            all.extend((*kind as u16).to_le_bytes());
            offsets.push(&mut all, *count);
            if bytes.len() <= field {
                all.extend(bytes);
                all.resize(all.len() + field - bytes.len(), 0);
                continue;
            }
            // The offset of a value is even.
            if (values_at + values.len()) % 2 == 1 {
                values.push(0);
            }
            offsets.push(&mut all, at + (values_at + values.len()) as u64);
            values.extend(bytes);
        }
        let length = (values_at + values.len()).next_multiple_of(8);
        offsets.push(&mut all, next(length as u64));
        all.extend(values);
        all.resize(length, 0);
        all
    }
}
