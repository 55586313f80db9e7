//! Communication between devices of one process or of several processes. Collectives combine or
//! move data, and each device gets its part of the result.
//!
//! A [`Communicator`] has two streams on each of its devices. Its operations are ordered like all
//! other operations: they come after the work that wrote the data, and later uses of the data wait
//! for them. A program calls [`Communicator::all_reduce`] for a part of its data as soon as it has
//! enqueued the work that writes the part. The communication then overlaps with the work that the
//! program enqueues afterwards. [`GradientBuckets`](crate::training::GradientBuckets) do this for
//! the gradients of a training.
//!
//! With [`CommunicatorBuilder::rank`], a communicator has one device of each process of a group of
//! [`Ranks`](crate::ranks::Ranks).
//!
//! ```
//! use trijet::comm::Communicator;
//! use trijet::kernels::Sum;
//! use trijet::sim::HostConfig;
//! use trijet::Device;
//! let devices = Device::host(HostConfig::new().devices(3))?;
//! let communicator = Communicator::builder().devices(&devices).open()?;
//! let mut data = Vec::new();
//! for (device, value) in devices.iter().zip([1.0_f32, 2.0, 4.0]) {
//!     data.push(device.stream()?.upload(&[value; 100])?);
//! }
//! let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
//! communicator.all_reduce(&mut views, Sum)?;
//! for (device, one) in devices.iter().zip(&data) {
//!     assert_eq!(device.stream()?.download(one)?, [7.0; 100]);
//! }
//! # Ok::<(), trijet::Error>(())
//! ```
mod builder;
mod collectives;
mod communicator;
mod copies;
mod exchange;
mod mail;
mod member;
mod nccl;
mod team;

pub use builder::CommunicatorBuilder;
pub use communicator::Communicator;
pub use exchange::Exchange;
