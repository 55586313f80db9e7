//! Array and image files as sources and sinks of pipelines: file formats, outputs, and journals. An
//! output gets its final name when it is complete. A stopped run is resumed from its journal.
//!
//! ```
//! use trijet::{Sink, Source};
//! use trijet_io::{Array, Dtype, Fingerprint, Input, Output, Start, Target};
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("in.raw");
//! std::fs::write(&path, [1, 2, 3, 4, 5, 6])?;
//!
//! // Two rows of three bytes.
//! let input = Input::open(&path, Some(Array::new(Dtype::U8, vec![2, 3])?))?;
//! let target = Target::new(&folder.path().join("out.npy"), input.array().clone(), &input)?;
//! let run = Fingerprint::new(&input, "copy", &target);
//! let mut output = Output::open(&target, &run, Start::New)?;
//! for row in [1, 0] {
//!     let mut bytes = [0; 3];
//!     input.read(row..row + 1, &mut bytes)?;
//!     output.write(row..row + 1, &bytes)?;
//! }
//! assert!(!target.path().exists());
//! output.finish()?;
//! assert!(std::fs::read(target.path())?.ends_with(&[1, 2, 3, 4, 5, 6]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Formats
//!
//! A format is an implementation of [`format::Format`] and a row of the table
//! [`format::FORMATS`]. Every format keeps these laws, which `tests/conformance.rs` tests for each
//! row of the table:
//!
//! 1. **Place.** An output is one file or one folder, at the path that its caller chooses. Nothing
//!    else is created or changed.
//! 2. **Order.** A writer takes rows in any order and any number of times, and a reader reads them
//!    in any order. Both take only multiples of their granule: 1 row, or the rows of an image if
//!    the format can only encode an image as a whole. A granule divides the number of rows.
//! 3. **Return.** Rows that are written and read again are equal, byte for byte.
//! 4. **Probe.** No two formats claim one file, by its name or its first bytes. A file of plain
//!    bytes has one of three extensions (`.raw`, `.bin`, `.dat`), or none as an input. Any other
//!    extension is refused, unless [`Plain::any_name`] or [`Target::or_headerless`] treats the file
//!    as plain bytes.
//! 5. **Resume.** A partial output is continued only if it can have all rows that the journal
//!    names. A format checks this without reading the rows: it checks the size and the header of a
//!    file, or that a file exists for each image. When a writer reads rows that were written, it
//!    returns their bytes, or fails, or returns the bytes that another program or a loss of power
//!    left there.
//! 6. **Property.** A format creates its output where nothing exists, and discards only what it has
//!    created. It follows no link, and replaces nothing that has a second name (a hard link). In a
//!    folder it replaces a file only if an earlier run, or this one, has created it under exactly
//!    that name: some file systems treat names that differ in case as one. An opened file or folder
//!    stays the output even if its name is changed: see [`format::Writer::root`].
//! 7. **Durability.** When [`format::Writer::sync`] returns, everything written before the call is
//!    on the disk.
//!
//! # Partial outputs
//!
//! An output is written at `OUT.partial`, and `OUT.journal` names the job and the rows that are
//! written. When no row is missing, the partial output gets its final name and the journal is
//! deleted. A run that is stopped leaves the partial output and the journal. [`Start`] decides how
//! the next run treats them. A partial output without a journal of the same job is never changed. A
//! discarded partial output stays until the first row of the new run arrives.
//!
//! For the rows of each write, the journal has a hash. A run that continues reads the written rows
//! again. If the bytes of a write do not match their hash, the run computes these rows again. It
//! reads on as many threads as there are processors, at most 16. If the name `OUT` is too long for
//! a suffix, the names of the partial output and of the journal are the start of this name, a hash
//! of this name, and the suffix.
//!
//! The rename to the final name replaces no file. Some systems have no rename that refuses to
//! replace a file. There, the output gets the name as a hard link. If the file system has no hard
//! links either, for example FAT, the name is checked before the rename. A file that appears
//! between this check and the rename is replaced.
//!
//! A run locks its journal, so that no other run writes the same output. On a file system without
//! locks, a run of one process continues without a lock (see [`Output::is_locked`]), and a run of
//! several processes is refused.
//!
//! [`Target::overwrite`] makes a run write over an output that exists. When the run writes its
//! first row, the existing output is renamed and becomes the partial output. So a file or folder
//! with the final name is always complete. From the first row on, the old rows are lost.
//!
//! For each file of the input, the journal has the name, the size, the time of modification, the
//! inode number and the time of the last change (`ctime`). A file counts as unchanged if all five
//! are the same. If a file has changed since rows that depend on it were written, [`Start::Resume`]
//! is refused, and [`Start::Restart`] starts over. If a file changes during the run, the run fails:
//! the output does not get its final name, and the rows that depend on the file are discarded.
//!
//! If only the `ctime` of a file differs, there are two possible reasons. Either the bytes have
//! changed and the old time of modification was kept (`cp -p` into the file, `rsync --inplace
//! --times`), or only a permission, a name or a hard link has changed. In this case the run is
//! refused, and the rows of the earlier run are kept. [`Fingerprint::same_input`] makes a run
//! accept such a file.
//!
//! The [slice](Input::slice) of the input is a part of the job's identity. Rows of a slice keep
//! their numbers in the input. A run reads the rows around the slice if it needs them, and writes
//! only the rows of the slice. Files on which the slice does not depend may change.
//!
//! A finished output has the attribute `user.trijet.job`, with a hash of its job and the time of
//! its last change. Where the file system has no extended attributes, the file `OUT.finished`
//! beside the output has this text. By it, [`Target::is_finished`] recognizes the output of a job
//! that is run again.
//!
//! [`Target::in_state`] keeps all files but the complete output in another folder of the same file
//! system.
//!
//! # Outputs of many processes
//!
//! Fixed processes write one output with [`Target::of_shard`]: each has its rows and its journal.
//! With [`ClaimedOutput`], any number of processes take ranges of rows as they are free. A process
//! that dies or is cut off loses its ranges to the others. No lock is used, and no clock of another
//! machine.
//!
//! # Damaged images
//!
//! A run fails at a damaged image, unless [`Input::skipping_damaged`] and [`Output::skipping`] are
//! used. In a run that uses them, the input reads zeros for the damaged image, and the output
//! leaves the rows of the image out. An output folder gets no file for the image, and any other
//! output gets zeros. The output gets its final name without these rows. Its journal is kept, and
//! lists the rows that the output has. A later run with [`Start::Resume`] adds the images that were
//! repaired. When that run writes its first row, the output becomes a partial output again.
//!
//! # Files that are written as a whole
//!
//! Reports, pictures and timelines follow similar rules (see [`NewFile`]). The input is never
//! replaced. An existing file is replaced only if the user requests this. A file with the final
//! name is always complete.
//!
//! # Durability
//!
//! By default ([`Durability::OnDisk`]), a thread brings rows to the disk while other rows are
//! written. It starts when 16 MiB of rows are waiting, or when rows have waited for a quarter of a
//! second. After that, a line of the journal states that these rows are on the disk.
//!
//! [`Sink::finish`](trijet::Sink::finish) brings the output to the disk in this order: first the
//! remaining rows, then the state of the file or the folder, then the final name, then the folder
//! of the final name. Each step is on the disk before the next step starts. The last step is on the
//! disk before `finish` returns. If the disk reports an error, the run fails, and the journal no
//! longer names rows that may be lost.
//!
//! | | survives the death of the process | survives a loss of power |
//! |---|---|---|
//! | final name | means a complete output | means a complete output |
//! | after success | the output | the output |
//! | a run under way | all rows that were written | the rows on the disk; a hash shows the others |
//!
//! With [`Durability::InMemory`], nothing waits for the disk. The last column of the table then
//! does not hold.
#![forbid(unsafe_code)]

mod annotations;
mod array;
mod byte_order;
mod claims;
mod damaged;
pub mod file_error;
mod fingerprint;
pub mod format;
mod input;
mod item;
mod journal;
mod names;
mod new_file;
mod output;
mod parallel;
mod plain;
mod python;
mod rows;
mod shown;
mod stream;
mod tree;
mod verify;

pub use annotations::Annotations;
pub use array::Array;
pub use byte_order::ByteOrder;
pub use claims::{ClaimOptions, ClaimedOutput, ClaimedRows, JobStatus, ProcessStatus};
pub use damaged::DamagedImage;
pub use fingerprint::Fingerprint;
pub use format::{is_damaged_image, is_plain};
pub use input::Input;
pub use item::Item;
pub use journal::{Journal, Progress};
pub use new_file::{Complete, Existing, NewFile, refuse_sources};
pub use output::{Durability, JournalStatus, Output, Shard, Space, Start, Stopped, Target};
pub use plain::Plain;
pub use rows::Rows;
pub use shown::{Shown, escaped, shown};
pub use stream::StreamOutput;
pub use trijet::Dtype;
pub use verify::Written;
