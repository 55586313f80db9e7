//! The superblock: the sizes of addresses, the address of the root group, and the end of the file.

use super::cursor::Widths;
use super::fault::{Fault, Outcome};
use super::storage::Structure;

const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
/// The smallest offset of a superblock after a block of the user. The others are its doubles.
const USER_BLOCK_MIN: u64 = 512;
/// The flags of a file that is open for writing: to one program, and also to programs that read it.
const OPEN_TO_ONE: u8 = 1;
const OPEN_TO_READERS: u8 = 4;

/// The facts of a superblock.
#[derive(Debug)]
pub(super) struct Superblock {
    /// The address of the header of the root group.
    pub(super) root: u64,
    /// The length that the file must have, at least.
    pub(super) end: u64,
}

/// Reads the superblock, and sets the sizes and the origin of addresses.
pub(super) fn superblock(structure: &mut Structure) -> Outcome<Superblock> {
    structure.base = start(structure)?;
    let signature = SIGNATURE.len() as u64;
    match structure.read(signature, 1)?.first() {
        Some(version @ (0 | 1)) => of_version_0(structure, *version),
        Some(version @ (2 | 3)) => of_version_2(structure, *version),
        version => Err(Fault::damaged(format!("the superblock has the version {version:?}"))),
    }
    .map_err(|fault| fault.within("the superblock"))
}

/// The offset of the superblock.
fn start(structure: &Structure) -> Outcome<u64> {
    let mut offset = 0_u64;
    loop {
        let Ok(found) = structure.read(offset, SIGNATURE.len() as u64) else {
            return Err(Fault::damaged("it has no signature of HDF5"));
        };
        if found == SIGNATURE {
            return Ok(offset);
        }
        offset = offset.saturating_mul(2).max(USER_BLOCK_MIN);
    }
}

/// Sets the sizes of addresses and lengths.
fn set_widths(structure: &mut Structure, widths: &[u8]) -> Outcome<()> {
    let &[address, length] = widths else { return Err(Fault::damaged("it ends early")) };
    if !(2..=8).contains(&address) || !(2..=8).contains(&length) {
        let cause = format!("addresses have {address} bytes, and lengths {length} bytes");
        return Err(Fault::damaged(cause));
    }
    structure.widths = Widths { address: usize::from(address), length: usize::from(length) };
    Ok(())
}

/// The end of the file. If a user has put bytes before a file, its own base address is less than
/// the offset of the superblock, which counts.
fn end(structure: &Structure, base: u64, end: u64) -> u64 {
    end.saturating_sub(base).saturating_add(structure.base)
}

fn of_version_0(structure: &mut Structure, version: u8) -> Outcome<Superblock> {
    // The signature, the versions, the sizes, the numbers of entries of nodes, and the flags.
    let fixed = if version == 0 { 24 } else { 28 };
    let bytes = structure.read(0, fixed)?;
    set_widths(structure, bytes.get(13..15).unwrap_or_default())?;
    // Four addresses, and the entry of the root group, which starts with its name and its address.
    let Widths { address, length } = structure.widths;
    let bytes = structure.read(fixed, (5 * address + length) as u64)?;
    let mut fields = structure.cursor(&bytes);
    let base = fields.defined_address()?;
    fields.address()?;
    let stored_end = fields.defined_address()?;
    fields.address()?;
    fields.length()?;
    let root = fields.defined_address()?;
    Ok(Superblock { root, end: end(structure, base, stored_end) })
}

fn of_version_2(structure: &mut Structure, version: u8) -> Outcome<Superblock> {
    let fixed = 12;
    let bytes = structure.read(0, fixed)?;
    set_widths(structure, bytes.get(9..11).unwrap_or_default())?;
    let length = fixed + 4 * structure.widths.address as u64 + 4;
    let bytes = structure.summed(0, length, "the superblock")?;
    let mut fields = structure.cursor(&bytes);
    fields.skip(11)?;
    // The version 2 has no meaning for the flags.
    if fields.u8()? & (OPEN_TO_ONE | OPEN_TO_READERS) != 0 && version >= 3 {
        let cause = "is open for writing, or its writer was stopped before it closed the file; \
                     parts of the structure may be missing. If no program writes the file, clear \
                     its mark by `h5clear -s`";
        return Err(Fault::Unsupported(cause.to_owned()));
    }
    let base = fields.defined_address()?;
    fields.address()?;
    let stored_end = fields.defined_address()?;
    let root = fields.defined_address()?;
    Ok(Superblock { root, end: end(structure, base, stored_end) })
}
