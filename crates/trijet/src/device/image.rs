//! Checks the length of a binary before the driver gets the binary. The call that loads a module
//! has no parameter for the length: the driver follows the tables in the headers, even beyond the
//! end of a truncated file.
//!
//! A cubin is a 64-bit ELF file. A fatbin is a header followed by entries, such as cubins. The
//! header contains the length of all entries.
#![forbid(unsafe_code)]

const ELF: &[u8] = b"\x7fELF";
/// The bytes for the class and the byte order in the identification of an ELF file: 64 bits, little
/// endian.
const ELF_64_LITTLE: &[u8] = &[2, 1];
const ELF_HEADER: u64 = 64;
/// `sizeof(Elf64_Phdr)` and `sizeof(Elf64_Shdr)`.
const SEGMENT_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;
/// `SHT_NULL` and `SHT_NOBITS`: the types of sections without bytes in the file.
const NO_BYTES: [u64; 2] = [0, 8];
const FATBIN: u64 = 0xba55_ed50;
const FATBIN_HEADER: u64 = 16;
/// The size in bytes of the first fields of an entry's header. These fields contain the length of
/// the header and the length of the data after the header.
const FATBIN_ENTRY: u64 = 16;

/// The reason why a binary is refused.
type Refusal = String;

/// The bytes of a binary. The numbers in a binary are little-endian.
struct File<'a>(&'a [u8]);

impl File<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn number(&self, at: u64, bytes: usize) -> Result<u64, Refusal> {
        let first = usize::try_from(at).unwrap_or(usize::MAX);
        let part = first.checked_add(bytes).and_then(|end| self.0.get(first..end));
        let part = part.ok_or_else(|| self.cut("a header", at, bytes as u64))?;
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(part);
        Ok(u64::from_le_bytes(word))
    }

    /// Refuses the file unless it has `bytes` bytes at offset `at`.
    fn holds(&self, what: &str, at: u64, bytes: u64) -> Result<(), Refusal> {
        match at.checked_add(bytes) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(self.cut(what, at, bytes)),
        }
    }

    fn cut(&self, what: &str, at: u64, bytes: u64) -> Refusal {
        let end = u128::from(at) + u128::from(bytes);
        format!(
            "the binary is cut off: {what} ends at byte {end}, but the file has only {} bytes",
            self.len()
        )
    }

    /// Refuses the file unless it has a table of `count` headers of `size` bytes at offset `at`.
    /// Returns the offset of each header.
    fn table(
        &self,
        what: &str,
        [at, size, count]: [u64; 3],
        least: u64,
    ) -> Result<Vec<u64>, Refusal> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if size < least {
            return Err(format!("the headers of {what} have {size} bytes; {least} are needed"));
        }
        self.holds(what, at, size.saturating_mul(count))?;
        Ok((0..count).map(|index| at + index * size).collect())
    }

    fn elf(&self) -> Result<(), Refusal> {
        self.holds("the header", 0, ELF_HEADER)?;
        if self.0.get(4..6) != Some(ELF_64_LITTLE) {
            return Err("the file is not a 64-bit little-endian ELF file".to_owned());
        }
        let sections_at = self.number(40, 8)?;
        let mut sections = [sections_at, self.number(58, 2)?, self.number(60, 2)?];
        if sections_at != 0 && sections[2] == 0 {
            // If there are more sections than the field can count, the header of the first section
            // contains the number of sections.
            sections[2] = self.number(sections_at.saturating_add(32), 8)?;
        }
        for header in self.table("the table of sections", sections, SECTION_HEADER)? {
            if !NO_BYTES.contains(&self.number(header + 4, 4)?) {
                self.holds(
                    "a section",
                    self.number(header + 24, 8)?,
                    self.number(header + 32, 8)?,
                )?;
            }
        }
        let segments = [self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?];
        for header in self.table("the table of segments", segments, SEGMENT_HEADER)? {
            self.holds("a segment", self.number(header + 8, 8)?, self.number(header + 32, 8)?)?;
        }
        Ok(())
    }

    /// The names of the sections, in a file that passed [`check_binary`].
    fn section_names(&self) -> Result<Vec<&[u8]>, Refusal> {
        let (table, size) = (self.number(40, 8)?, self.number(58, 2)?);
        let header = |index: u64| table.saturating_add(index.saturating_mul(size));
        let names = self.number(header(self.number(62, 2)?).saturating_add(24), 8)?;
        let mut found = Vec::new();
        for index in 0..self.number(60, 2)? {
            let at = names.saturating_add(self.number(header(index), 4)?);
            let rest = self.0.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or(&[]);
            found.push(rest.split(|byte| *byte == 0).next().unwrap_or(&[]));
        }
        Ok(found)
    }

    fn fatbin(&self) -> Result<(), Refusal> {
        let (mut at, bytes) = (self.number(6, 2)?, self.number(8, 8)?);
        if at < FATBIN_HEADER {
            return Err(format!(
                "the header of the fatbin has {at} bytes; {FATBIN_HEADER} are needed"
            ));
        }
        self.holds("the fatbin", at, bytes)?;
        let end = at + bytes;
        while at < end {
            self.holds("an entry of the fatbin", at, FATBIN_ENTRY)?;
            let (header, payload) = (self.number(at + 4, 4)?, self.number(at + 8, 8)?);
            if header < FATBIN_ENTRY {
                return Err(format!(
                    "the header of an entry of the fatbin has {header} bytes; {FATBIN_ENTRY} are \
                     needed"
                ));
            }
            let entry = header.saturating_add(payload);
            if entry > end - at {
                return Err(self.cut("an entry of the fatbin", at, entry));
            }
            at += entry;
        }
        Ok(())
    }
}

/// Refuses a binary whose headers point beyond its end, and a file that is neither a cubin nor a
/// fatbin.
///
/// # Errors
/// The reason.
pub(crate) fn check_binary(bytes: &[u8]) -> Result<(), Refusal> {
    let file = File(bytes);
    if bytes.starts_with(ELF) {
        return file.elf();
    }
    if bytes.starts_with(&FATBIN.to_le_bytes()[..4]) {
        return file.fatbin();
    }
    Err("the binary is neither a cubin nor a fatbin".to_owned())
}

/// The names of the kernels of a cubin. The section `.text.NAME` contains the code of kernel
/// `NAME`. `None` for a fatbin.
///
/// # Errors
/// See [`check_binary`].
pub(crate) fn entries(bytes: &[u8]) -> Result<Option<Vec<String>>, Refusal> {
    check_binary(bytes)?;
    if !bytes.starts_with(ELF) {
        return Ok(None);
    }
    let file = File(bytes);
    let sections = file.section_names()?;
    let names = sections.into_iter().filter_map(|name| name.strip_prefix(b".text."));
    Ok(Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A file with the header, a segment of 8 bytes, a section of 8 bytes, and a section without
    /// bytes.
    fn cubin() -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 8 + 2 * 64];
        put(&mut file, 0, b"\x7fELF\x02\x01\x01");
        put(&mut file, 32, &64_u64.to_le_bytes());
        put(&mut file, 40, &128_u64.to_le_bytes());
        for (at, number) in [(54, 56_u16), (56, 1), (58, 64), (60, 2)] {
            put(&mut file, at, &number.to_le_bytes());
        }
        put(&mut file, 64 + 8, &120_u64.to_le_bytes());
        put(&mut file, 64 + 32, &8_u64.to_le_bytes());
        put(&mut file, 128 + 4, &1_u32.to_le_bytes());
        put(&mut file, 128 + 24, &120_u64.to_le_bytes());
        put(&mut file, 128 + 32, &8_u64.to_le_bytes());
        put(&mut file, 192 + 4, &8_u32.to_le_bytes());
        put(&mut file, 192 + 24, &u64::MAX.to_le_bytes());
        put(&mut file, 192 + 32, &u64::MAX.to_le_bytes());
        file
    }

    fn fatbin() -> Vec<u8> {
        let mut file = vec![0; 16 + 2 * (64 + 8)];
        put(&mut file, 0, &0xba55_ed50_u32.to_le_bytes());
        put(&mut file, 6, &16_u16.to_le_bytes());
        put(&mut file, 8, &144_u64.to_le_bytes());
        for entry in [16, 16 + 72] {
            put(&mut file, entry + 4, &64_u32.to_le_bytes());
            put(&mut file, entry + 8, &8_u64.to_le_bytes());
        }
        file
    }

    /// The driver once read beyond the end of a truncated file.
    #[test]
    fn a_binary_that_is_cut_anywhere_is_refused() {
        for whole in [cubin(), fatbin()] {
            assert_eq!(check_binary(&whole), Ok(()));
            for length in 0..whole.len() {
                assert!(check_binary(&whole[..length]).is_err(), "{length} of {}", whole.len());
            }
        }
    }

    #[test]
    fn headers_that_lead_beyond_the_end_are_refused() {
        for whole in [cubin(), fatbin()] {
            for at in 0..whole.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut other = whole.clone();
                    other[at] = value;
                    // Any result is right, as long as the call returns.
                    let _ends = check_binary(&other);
                }
            }
        }
        for (at, what) in
            [(32, "segments"), (40, "sections"), (64 + 32, "a segment"), (152, "a section")]
        {
            let mut other = cubin();
            put(&mut other, at, &(u64::MAX - 8).to_le_bytes());
            let why = check_binary(&other).expect_err("the header names bytes after the end");
            assert!(why.contains(what) || why.contains("a header"), "{at}: {why}");
        }
        let mut entry = fatbin();
        put(&mut entry, 16 + 8, &u64::MAX.to_le_bytes());
        assert!(check_binary(&entry).expect_err("the entry is too long").contains("an entry"));
    }

    #[test]
    fn the_kernels_of_a_cubin_are_the_names_of_its_sections() {
        let mut file = cubin();
        let names = b"\0.text.gain\0.text.loss\0";
        let at = u32::try_from(file.len()).expect("a small file");
        file.extend(names);
        // The section names are appended to the file. The first section of the file becomes the
        // table of these names, and is itself named after the first kernel.
        put(&mut file, 128, &1_u32.to_le_bytes());
        put(&mut file, 128 + 24, &u64::from(at).to_le_bytes());
        put(&mut file, 128 + 32, &(names.len() as u64).to_le_bytes());
        put(&mut file, 192, &12_u32.to_le_bytes());
        let found = entries(&file).expect("a whole file").expect("a cubin");
        assert_eq!(found, ["gain", "loss"]);
        assert_eq!(entries(&fatbin()), Ok(None));
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut other = file.clone();
                other[at] = value;
                // Any result is right, as long as the call returns.
                let _ends = entries(&other);
            }
        }
    }

    #[test]
    fn other_files_are_refused() {
        for bytes in [&b""[..], b"\x7fEL", b".version 8.0\n", &[0; 256]] {
            let why = check_binary(bytes).expect_err("it is no binary");
            assert_eq!(why, "the binary is neither a cubin nor a fatbin");
        }
        let mut small = cubin();
        small[4] = 1;
        assert!(check_binary(&small).expect_err("32 bits").contains("64-bit"));
    }
}
