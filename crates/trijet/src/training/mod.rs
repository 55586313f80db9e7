//! The training of a model on several devices.
//!
//! [`GradientBuckets`] sum the gradients of all ranks while the backward pass is still computing. A
//! [`LayerPipeline`] has parts of a model on several devices, and micro-batches pass through them.
#![forbid(unsafe_code)]

mod bucket_plan;
mod buckets;
mod layers;
mod micro_batch_order;

pub use bucket_plan::{BucketPlan, Transport};
pub use buckets::GradientBuckets;
pub use layers::{LayerPipeline, StageWork};
pub use micro_batch_order::{Direction, MicroBatchOrder};
