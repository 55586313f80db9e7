//! What other projects' suites state about streams, re-expressed: twins of programs with the verdict
//! that each must get, on every device. A file's header lists what its suite has and we have not, and
//! where we say something else.
//!
//! `for_each_case` lists the cases; `twins` says what a case is.

pub(crate) mod cuda_samples;
pub(crate) mod cusan_host;
pub(crate) mod cusan_network;
pub(crate) mod cusan_streams;
pub(crate) mod hip_streams;
pub(crate) mod pytorch_clocks;
mod stage;
pub(crate) mod twins;

pub(crate) use twins::check;

/// Hands the list of all cases to a macro that makes tests of them.
macro_rules! for_each_case {
    ($make:ident) => {
        $make! {
            cusan_host::a_record_is_no_wait_of_the_host
            cusan_host::a_launch_in_the_legacy_stream_is_not_done_at_its_return
            cusan_host::a_stream_that_is_asked_until_it_is_ready_is_waited_for
            cusan_host::an_event_that_is_asked_until_it_is_ready_is_waited_for
            cusan_host::a_fill_at_once_orders_blocking_streams
            cusan_host::a_fill_at_once_does_not_wait_for_a_non_blocking_stream
            cusan_host::a_wait_for_the_legacy_stream_covers_blocking_streams
            cusan_host::later_work_of_a_blocking_stream_covers_the_legacy_stream
            cusan_host::later_work_of_a_non_blocking_stream_covers_itself
            cusan_host::a_wait_for_the_legacy_stream_leaves_non_blocking_streams_out
            cusan_host::the_legacy_stream_carries_order_from_one_blocking_stream_to_another
            cusan_network::a_message_is_sent_after_a_wait_for_the_device
            cusan_network::a_kernel_writes_after_the_message_has_arrived
            cusan_network::a_message_is_sent_after_a_wait_for_the_stream
            cusan_network::a_message_is_sent_after_a_wait_for_the_event
            cusan_network::a_message_is_sent_when_the_event_is_ready
            cusan_network::a_message_may_be_sent_while_a_kernel_reads
            cusan_network::a_message_waits_for_an_upload_at_once_from_pageable_memory
            cusan_network::an_upload_at_once_from_page_locked_memory_is_done_at_its_return
            cusan_network::a_message_waits_for_the_writers_of_its_buffer
            cusan_network::a_message_is_sent_after_a_copy_within_the_host
            cusan_network::a_message_is_sent_after_a_wait_for_the_legacy_stream
            cusan_network::chunks_are_downloaded_after_the_kernel
            cusan_network::one_half_is_sent_while_the_other_is_written
            cusan_streams::two_streams_write_one_buffer_after_each_other
            cusan_streams::page_locked_memory_comes_and_goes_at_any_time
            cusan_streams::an_allocation_orders_nothing
            cusan_streams::a_copy_within_the_host_orders_blocking_streams
            cusan_streams::a_copy_within_the_host_does_not_wait_for_non_blocking_streams
            cusan_streams::a_download_at_once_orders_blocking_streams
            cusan_streams::a_fill_at_once_of_other_memory_orders_blocking_streams
            cusan_streams::a_download_in_another_stream_waits_for_the_kernel
            cusan_streams::a_wait_of_the_host_for_an_event_orders_two_streams
            cusan_streams::a_wait_of_a_stream_for_an_event_orders_two_streams
            pytorch_clocks::a_launch_over_nothing_conflicts_with_nothing
            pytorch_clocks::two_streams_may_read_one_tensor
            pytorch_clocks::a_writer_waits_for_the_reader_of_another_stream
            pytorch_clocks::each_reader_waits_for_the_last_write
            pytorch_clocks::streams_that_read_after_one_writer_may_not_write
            pytorch_clocks::order_goes_through_a_chain_of_streams
            pytorch_clocks::a_record_does_not_stand_for_later_readers
            pytorch_clocks::a_new_event_knows_nothing_of_one_that_was_dropped
            pytorch_clocks::a_writer_waits_for_all_readers
            pytorch_clocks::each_tensor_of_two_streams_is_a_conflict_of_its_own
            pytorch_clocks::a_wait_adds_to_what_a_stream_knows
            pytorch_clocks::a_second_record_forgets_the_first_reader
            pytorch_clocks::one_event_is_waited_for_by_two_streams
            cuda_samples::an_event_of_the_legacy_stream_is_behind_four_streams
            cuda_samples::a_slot_is_filled_again_after_its_event
            cuda_samples::a_kernel_of_the_legacy_stream_comes_after_all_blocking_streams
            cuda_samples::frees_may_be_enqueued_before_the_result_is_there
            cuda_samples::rounds_of_allocations_settle_on_what_they_need
            cuda_samples::streams_of_two_priorities_compute_apart
            cuda_samples::a_priority_is_no_order
            hip_streams::a_wait_for_an_idle_blocking_stream_leaves_the_legacy_stream_out
            hip_streams::waits_in_a_circle_are_for_earlier_work
            hip_streams::a_pageable_download_is_waited_for
            hip_streams::a_stream_that_waits_for_itself_goes_on
            hip_streams::a_wait_for_the_legacy_stream_covers_ten_streams
            hip_streams::a_wait_for_the_legacy_stream_covers_the_per_thread_stream
            hip_streams::a_wait_for_the_legacy_stream_covers_a_dropped_blocking_stream
            hip_streams::a_wait_outlives_its_event
            hip_streams::copies_at_once_follow_each_other
            hip_streams::the_legacy_stream_orders_streams_that_come_and_go
            hip_streams::a_stream_is_in_order_whichever_threads_use_it
        }
    };
}
pub(crate) use for_each_case;
