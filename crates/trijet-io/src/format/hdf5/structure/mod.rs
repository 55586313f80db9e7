//! The structure of HDF5 files: where the elements of a data set are, and what describes them.
//!
//! This is a reader of the HDF5 File Format Specification 3.0, and of the layouts of version 5 and
//! the complex numbers of HDF5 2.0. The file `tree` is the interface for the other files of the
//! format. From there it goes down to the bytes:
//!
//! | files | part of the format |
//! |---|---|
//! | `tree`, `paths` | a file; the object at a path |
//! | `group`, `links`, `attribute` | the links and the attributes of an object |
//! | `object`, `header` | an object and its messages |
//! | `dataspace`, `datatype`, `layout`, `fill`, `pipeline` | one message each |
//! | `chunk_index`, `fixed_array`, `extensible_array`, `array_entries` | the indices of chunks |
//! | `chunk_sink` | the places of chunks, as all indices give them |
//! | `btree1`, `btree2`, `local_heap`, `global_heap`, `fractal_heap` | containers |
//! | `superblock`, `storage`, `cursor` | the file as bytes |
//! | `fault` | the reasons why a part is not read |
//!
//! Any bytes may be in a file. Every length is compared with the file before memory is reserved,
//! numbers are added with checks, and all reads together have a limit, so that trees whose nodes
//! contain each other end. No function calls itself.

mod array_entries;
mod attribute;
mod btree1;
mod btree2;
mod chunk_index;
mod chunk_sink;
mod cursor;
mod dataspace;
mod datatype;
mod extensible_array;
mod fault;
mod fill;
mod fixed_array;
mod fractal_heap;
mod global_heap;
mod group;
mod header;
mod layout;
mod links;
mod local_heap;
mod object;
mod paths;
mod pipeline;
mod storage;
mod superblock;
mod tree;

pub(super) use attribute::{Attribute, Attributes};
pub(super) use chunk_index::{Chunks, ChunksInOrder};
pub(super) use chunk_sink::{ChunkEntry, ChunkPlace};
pub(super) use datatype::{CompoundMember, Datatype, FloatForm, IntegerForm};
pub(super) use fault::{Fault, Outcome};
pub(super) use layout::{ChunkLayout, DataLayout};
pub(super) use links::LinkEnd;
pub(super) use object::Object;
pub(super) use pipeline::Filter;
pub(super) use tree::{DataSet, ObjectTree};
