//! Jobs: an array in files, or from any other source, mapped through a chain of operations.
//!
//! A [`Chain`] is the operations of a job: [operations of trijet-ops](trijet_ops), [kernels of the
//! user](KernelFile) and [operations of the program](trijet_ops::Operation). A [`Job`] runs a chain
//! on one device or on several, each with its share of the rows. The command `trijet map` and the
//! package for Python do their work with this crate.
//!
//! ```
//! use trijet::{Cancel, Device, Select, Source};
//! use trijet_io::{Array, Dtype, Fingerprint, Input, Output, Start, Target};
//! use trijet_map::{Chain, Job, Origin, Settings, Step};
//! use trijet_ops::OperationText;
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("in.raw"), [1, 2, 3, 4])?;
//! let array = Array::new(Dtype::U8, vec![2, 2])?;
//! let input = Input::open(&folder.path().join("in.raw"), Some(array))?;
//!
//! let step = Step::Named(OperationText::parse("affine:2,1")?);
//! let chain = Chain::new(&[step], &Origin::of(&input))?;
//! let target = Target::new(&folder.path().join("out.raw"), chain.output().clone(), &input)?;
//! let fingerprint = Fingerprint::new(&input, &chain.description(), &target);
//! let mut output = Output::open(&target, &fingerprint, Start::New)?;
//! let devices = [Device::open(Select::Host(0))?];
//! chain.load(&devices[0])?;
//!
//! let granule = chain.granule(target.granule());
//! let job = Job::new(&chain, &devices, input.layout(), granule, Settings::default())?;
//! let todo = job.todo(&output);
//! job.run(&input, &mut output, &todo.rows, &Cancel::new(), &|_rows| ())?;
//! assert_eq!(std::fs::read(target.path())?, [3, 5, 7, 9]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod image_file;
mod job;
mod kernel_arg;
mod memory;
mod row_ratio;
mod settings;
mod shares;
mod user_kernel;

pub use chain::{Chain, Origin, Step};
pub use image_file::load_image;
pub use job::{Job, Todo};
pub use kernel_arg::{KernelArg, Scalar};
pub use memory::{beside_chunks, for_chunks};
pub use row_ratio::RowRatio;
pub use settings::Settings;
pub use user_kernel::KernelFile;
