//! Other projects' test suites about streams, as twins of programs with the verdict that each must
//! get, on every device. The header of a file lists the parts of its suite that we lack, and the
//! cases where we disagree.
//!
//! `for_each_case` lists the cases; `twins` defines a case.

pub(crate) mod cuda_samples;
pub(crate) mod cusan_host;
pub(crate) mod cusan_network;
pub(crate) mod cusan_streams;
pub(crate) mod hip_streams;
pub(crate) mod pytorch_clocks;
mod stage;
pub(crate) mod twins;

pub(crate) use twins::check;

/// Calls a macro, which makes tests, with the list of all cases.
macro_rules! for_each_case {
    ($make:ident) => {
        $make! {
            cusan_host::a_record_does_not_make_the_host_wait
            cusan_host::a_launch_in_the_legacy_stream_is_not_done_at_its_return
            cusan_host::polling_a_stream_until_it_is_ready_is_a_wait
            cusan_host::polling_an_event_until_it_is_ready_is_a_wait
            cusan_host::a_synchronous_fill_orders_blocking_streams
            cusan_host::a_synchronous_fill_does_not_wait_for_a_non_blocking_stream
            cusan_host::a_wait_for_the_legacy_stream_covers_blocking_streams
            cusan_host::a_wait_for_later_work_of_a_blocking_stream_covers_the_legacy_stream
            cusan_host::a_wait_for_a_non_blocking_stream_does_not_cover_the_legacy_stream
            cusan_host::a_wait_for_the_legacy_stream_does_not_cover_non_blocking_streams
            cusan_host::the_legacy_stream_carries_order_from_one_blocking_stream_to_another
            cusan_network::a_message_is_sent_after_a_wait_for_the_device
            cusan_network::a_kernel_writes_after_the_message_has_arrived
            cusan_network::a_message_is_sent_after_a_wait_for_the_stream
            cusan_network::a_message_is_sent_after_a_wait_for_the_event
            cusan_network::a_message_is_sent_when_the_event_is_ready
            cusan_network::a_message_may_be_sent_while_a_kernel_reads
            cusan_network::a_message_waits_for_a_synchronous_upload_from_pageable_memory
            cusan_network::a_synchronous_upload_from_page_locked_memory_is_complete_at_return
            cusan_network::a_message_waits_for_the_writers_of_its_buffer
            cusan_network::a_message_is_sent_after_a_copy_within_the_host
            cusan_network::a_message_is_sent_after_a_wait_for_the_legacy_stream
            cusan_network::chunks_are_downloaded_after_the_kernel
            cusan_network::one_half_is_sent_while_the_other_is_written
            cusan_streams::two_streams_write_one_buffer_after_each_other
            cusan_streams::page_locked_memory_may_be_allocated_and_dropped_at_any_time
            cusan_streams::an_allocation_orders_nothing
            cusan_streams::a_copy_within_the_host_orders_blocking_streams
            cusan_streams::a_copy_within_the_host_does_not_wait_for_non_blocking_streams
            cusan_streams::a_synchronous_download_orders_blocking_streams
            cusan_streams::a_synchronous_fill_of_other_memory_orders_blocking_streams
            cusan_streams::a_download_in_another_stream_waits_for_the_kernel
            cusan_streams::a_wait_of_the_host_for_an_event_orders_two_streams
            cusan_streams::a_wait_of_a_stream_for_an_event_orders_two_streams
            pytorch_clocks::a_launch_over_nothing_conflicts_with_nothing
            pytorch_clocks::two_streams_may_read_one_tensor
            pytorch_clocks::a_writer_waits_for_the_reader_of_another_stream
            pytorch_clocks::each_reader_waits_for_the_last_write
            pytorch_clocks::a_reader_that_writes_waits_for_the_other_readers
            pytorch_clocks::order_goes_through_a_chain_of_streams
            pytorch_clocks::a_record_does_not_stand_for_later_readers
            pytorch_clocks::a_new_event_does_not_stand_for_the_record_of_a_dropped_one
            pytorch_clocks::a_writer_waits_for_all_readers
            pytorch_clocks::each_tensor_of_two_streams_has_its_own_finding
            pytorch_clocks::a_wait_adds_to_the_earlier_order_of_its_stream
            pytorch_clocks::a_second_record_replaces_the_first
            pytorch_clocks::one_event_is_waited_for_by_two_streams
            cuda_samples::an_event_of_the_legacy_stream_covers_four_blocking_streams
            cuda_samples::a_slot_is_filled_again_after_its_event
            cuda_samples::a_kernel_of_the_legacy_stream_comes_after_all_blocking_streams
            cuda_samples::frees_may_be_enqueued_before_the_download_is_complete
            cuda_samples::repeated_allocations_take_no_more_memory_after_the_first_round
            cuda_samples::streams_of_two_priorities_compute_apart
            cuda_samples::a_priority_is_no_order
            hip_streams::a_wait_for_an_idle_blocking_stream_does_not_cover_the_legacy_stream
            hip_streams::two_streams_may_wait_for_each_others_earlier_work
            hip_streams::a_pageable_download_is_waited_for
            hip_streams::a_stream_that_waits_for_itself_goes_on
            hip_streams::a_wait_for_the_legacy_stream_covers_ten_streams
            hip_streams::a_wait_for_the_legacy_stream_covers_the_per_thread_stream
            hip_streams::a_wait_for_the_legacy_stream_covers_a_dropped_blocking_stream
            hip_streams::a_wait_outlives_its_event
            hip_streams::synchronous_copies_follow_each_other
            hip_streams::the_legacy_stream_orders_streams_that_come_and_go
            hip_streams::a_stream_is_in_order_whichever_threads_use_it
        }
    };
}
pub(crate) use for_each_case;
