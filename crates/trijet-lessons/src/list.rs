//! The lessons, by topic.
#![forbid(unsafe_code)]

use crate::lesson::Lesson;
use crate::{
    copies, default_streams, devices, events, kernels, memory, pipelines, races, scheduling,
    streams,
};

const LESSONS: &[Lesson] = &[
    streams::one_stream::LESSON,
    streams::basic_streams::LESSON,
    streams::host_work::LESSON,
    streams::issue_order::LESSON,
    streams::few_streams::LESSON,
    streams::too_many::LESSON,
    streams::chunk_size::LESSON,
    streams::priority::LESSON,
    default_streams::three_kernels::LESSON,
    default_streams::stray_kernel::LESSON,
    default_streams::eight_threads::LESSON,
    events::wait_after_each::LESSON,
    events::item::LESSON,
    events::waits_in_turn::LESSON,
    events::four_streams::LESSON,
    races::stages::LESSON,
    races::slot::LESSON,
    races::overtaken::LESSON,
    races::too_early::LESSON,
    races::two_readers::LESSON,
    races::in_flight::LESSON,
    races::landing::LESSON,
    copies::pageable::LESSON,
    copies::both_directions::LESSON,
    copies::packed::LESSON,
    copies::batched::LESSON,
    memory::allocate_each::LESSON,
    memory::pool_keeps_nothing::LESSON,
    memory::threshold::LESSON,
    memory::scratch::LESSON,
    memory::growing::LESSON,
    kernels::concurrent::LESSON,
    kernels::full_device::LESSON,
    kernels::one_multiprocessor::LESSON,
    kernels::graph::LESSON,
    kernels::branches::LESSON,
    kernels::conditional::LESSON,
    kernels::dependent::LESSON,
    kernels::clusters::LESSON,
    kernels::cluster_batches::LESSON,
    kernels::warp_roles::LESSON,
    pipelines::loader::LESSON,
    pipelines::three_scores::LESSON,
    pipelines::vision_language::LESSON,
    pipelines::modes::LESSON,
    scheduling::stealing::LESSON,
    scheduling::idle_workers::LESSON,
    devices::peer_copy::LESSON,
    devices::four_engines::LESSON,
    devices::buckets::LESSON,
    devices::ring::LESSON,
];

/// All lessons, in the order of their topics.
#[must_use]
pub fn lessons() -> &'static [Lesson] {
    LESSONS
}

/// The lesson with this name.
#[must_use]
pub fn named(name: &str) -> Option<Lesson> {
    LESSONS.iter().copied().find(|lesson| lesson.name == name)
}
