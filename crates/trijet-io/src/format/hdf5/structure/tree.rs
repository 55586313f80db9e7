//! The objects of a file, and the facts about a data set.

use super::attribute::{Attribute, Attributes, attributes, texts};
use super::chunk_index::{Chunks, each_chunk};
use super::chunk_sink::Visit;
use super::dataspace::Dataspace;
use super::datatype::Datatype;
use super::fault::Outcome;
use super::fill::fill_value;
use super::global_heap::GlobalHeap;
use super::group::links_of;
use super::header::{DATASPACE, DATATYPE, EXTERNAL_FILES, FILTERS, LAYOUT};
use super::layout::{ChunkLayout, DataLayout};
use super::links::Link;
use super::object::Object;
use super::paths::resolve;
use super::pipeline::{Filter, filters};
use super::storage::Structure;
use super::superblock::{Superblock, superblock};
use std::fs::File;

/// A file whose structure is read.
#[derive(Debug)]
pub(in crate::format::hdf5) struct ObjectTree {
    structure: Structure,
    superblock: Superblock,
}

/// A data set, and the facts that nearly all of its users need.
#[derive(Debug)]
pub(in crate::format::hdf5) struct DataSet {
    pub(in crate::format::hdf5) object: Object,
    pub(in crate::format::hdf5) space: Dataspace,
    pub(in crate::format::hdf5) datatype: Datatype,
}

impl ObjectTree {
    /// Reads the start of a file of `bytes` bytes.
    pub(in crate::format::hdf5) fn open(file: File, bytes: u64) -> Outcome<Self> {
        Self::over(Structure::new(file, bytes))
    }

    /// Reads the start of a file whose checksums may be wrong.
    #[cfg(test)]
    pub(in crate::format::hdf5) fn open_without_checksums(file: File, bytes: u64) -> Outcome<Self> {
        Self::over(Structure::new(file, bytes).without_checksums())
    }

    /// Reads the start of a file whose structure may have this number of bytes.
    #[cfg(test)]
    pub(in crate::format::hdf5) fn open_with_left(
        file: File,
        bytes: u64,
        left: u64,
    ) -> Outcome<Self> {
        Self::over(Structure::new(file, bytes).with_left(left))
    }

    fn over(mut structure: Structure) -> Outcome<Self> {
        let superblock = superblock(&mut structure)?;
        Ok(Self { structure, superblock })
    }

    /// The length that the file must have, at least.
    pub(in crate::format::hdf5) fn end(&self) -> u64 {
        self.superblock.end
    }

    pub(in crate::format::hdf5) fn root(&self) -> Outcome<Object> {
        self.object(self.superblock.root)
    }

    pub(in crate::format::hdf5) fn object(&self, address: u64) -> Outcome<Object> {
        Object::read(&self.structure, address)
    }

    /// The object at a path, along hard and soft links.
    pub(in crate::format::hdf5) fn find(&self, path: &str) -> Outcome<Object> {
        resolve(&self.structure, self.superblock.root, path)
    }

    pub(in crate::format::hdf5) fn links(&self, group: &Object) -> Outcome<Vec<Link>> {
        links_of(&self.structure, group)
    }

    pub(in crate::format::hdf5) fn data_set(&self, object: Object) -> Outcome<DataSet> {
        let space = object.needed(&self.structure, DATASPACE)?;
        let space = Dataspace::parse(self.structure.cursor(&space))?;
        let datatype = object.needed(&self.structure, DATATYPE)?;
        let datatype = Datatype::parse(self.structure.cursor(&datatype))?;
        Ok(DataSet { object, space, datatype })
    }

    pub(in crate::format::hdf5) fn layout(&self, of: &DataSet) -> Outcome<DataLayout> {
        DataLayout::parse(self.structure.cursor(&of.object.needed(&self.structure, LAYOUT)?))
    }

    /// Whether the elements are in other files, in one piece.
    pub(in crate::format::hdf5) fn is_external(&self, of: &DataSet) -> bool {
        of.object.all(EXTERNAL_FILES).next().is_some()
    }

    pub(in crate::format::hdf5) fn filters(&self, of: &DataSet) -> Outcome<Vec<Filter>> {
        match of.object.body(&self.structure, FILTERS)? {
            Some(body) => filters(self.structure.cursor(&body)),
            None => Ok(Vec::new()),
        }
    }

    /// The bytes of an element that was never written. `None` if they are zeros.
    pub(in crate::format::hdf5) fn fill_value(&self, of: &DataSet) -> Outcome<Option<Vec<u8>>> {
        fill_value(&self.structure, &of.object)
    }

    /// The offset in the file of `bytes` bytes at an address.
    pub(in crate::format::hdf5) fn offset(&self, address: u64, bytes: u64) -> Outcome<u64> {
        self.structure.offset(address, bytes)
    }

    /// Calls `visit` with every stored chunk, unless the chunks are stored one after another.
    pub(in crate::format::hdf5) fn each_chunk<'a>(
        &'a self,
        layout: &ChunkLayout,
        space: &Dataspace,
        visit: &'a mut Visit<'a>,
    ) -> Outcome<Chunks> {
        each_chunk(&self.structure, layout, space, visit)
    }

    /// The readable attributes of an object.
    pub(in crate::format::hdf5) fn attributes(&self, object: &Object) -> Attributes {
        attributes(&self.structure, object)
    }

    /// The texts of attributes, each with its number among them. An attribute that has no texts, or
    /// more than `values_max`, has none.
    pub(in crate::format::hdf5) fn texts(
        &self,
        of: &[Attribute],
        values_max: usize,
    ) -> Vec<Option<Vec<String>>> {
        let mut heap = GlobalHeap::default();
        of.iter().map(|one| texts(&self.structure, &mut heap, one, values_max)).collect()
    }
}
