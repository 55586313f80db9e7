//! Pipelines over items: each item passes through stages, and each stage has a stream of its own.
//!
//! A [`Pipeline`](crate::Pipeline) cuts one array into equal chunks and sends each chunk through
//! one chain of stages. Here the items come from an iterator, for example images of different
//! sizes. A stage takes the values of one or more earlier stages and makes one value, so an item
//! may fan out and join again. Each stage works on the next item while later stages work on earlier
//! items.
//!
//! - A *stage* runs on the thread that calls [`Staged::run`], and enqueues work on its stream.
//! - A *host stage* computes on a pool of threads.
//! - One thread reads items of the source ahead, and another thread calls the sink.
//!
//! A program records no events. A value may contain buffers, and every wait between streams follows
//! from the uses of these buffers. The values of an item are kept until the sink has the result of
//! the item and all stages of the item have run. A [recycled](Staged::recycled) value is reused for
//! later items instead. The use for a later item waits, on the device, for the uses by the earlier
//! item.
//!
//! ```
//! use trijet::kernels::AFFINE_F32;
//! use trijet::staged::Staged;
//! use trijet::{Device, Select};
//! let device = Device::open(Select::Host(0))?;
//! let mut staged = Staged::<Vec<f32>>::on(&device);
//! let item = staged.item();
//! let input = staged.host_stage("prepare", item, {
//!     let device = device.clone();
//!     move |_, values: &Vec<f32>| {
//!         let mut locked = device.pinned::<f32>(values.len())?;
//!         locked.write()?.copy_from_slice(values);
//!         Ok(locked)
//!     }
//! });
//! let x = staged.stage("upload", input, |s, input| {
//!     let mut x = s.alloc::<f32>(input.len())?;
//!     s.copy(input, &mut x)?;
//!     Ok(x)
//! });
//! let y = staged.stage("scale", x, |s, x| {
//!     let mut y = s.alloc::<f32>(x.len())?;
//!     s.launch(&AFFINE_F32, (2.0, 1.0, x, &mut y))?;
//!     Ok(y)
//! });
//! let output = staged.stage("download", y, |s, y| {
//!     let mut output = device.pinned::<f32>(y.len())?;
//!     s.copy(y, &mut output)?;
//!     Ok(output)
//! });
//! let mut sums = Vec::new();
//! let items = (0..5).map(|n| Ok(vec![n as f32; 1000 + n]));
//! staged.run(items, output, |output| {
//!     sums.push(output.read()?.iter().sum::<f32>());
//!     Ok(())
//! })?;
//! assert_eq!(sums, [1000.0, 3003.0, 5010.0, 7021.0, 9036.0]);
//! # Ok::<(), trijet::Error>(())
//! ```
#![forbid(unsafe_code)]

mod builder;
mod order;
mod run;
mod stage;
mod value;

pub use builder::Staged;
pub use order::Issue;
pub use stage::ItemCx;
pub use value::{Inputs, Value};
