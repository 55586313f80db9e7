//! The laws as functions of a device, so that the same cases run on every executor of the host
//! device and on CUDA. `for_each_case` lists all cases. A case asserts only facts that a user can
//! observe.

pub(crate) mod attributes;
pub(crate) mod batches;
pub(crate) mod captures;
pub(crate) mod churn;
pub(crate) mod conditional;
pub(crate) mod copies;
pub(crate) mod default_streams;
pub(crate) mod executor;
mod gate;
pub(crate) mod gemm;
pub(crate) mod graphs;
pub(crate) mod host;
pub(crate) mod kernels;
pub(crate) mod launches;
pub(crate) mod ordering;
pub(crate) mod pageable;
pub(crate) mod pool;
pub(crate) mod ready;
mod reference;
pub(crate) mod reuse;
pub(crate) mod slices;
pub(crate) mod tiled;
mod transfer;

pub(crate) use gate::Gate;
pub(crate) use reference::{mix, words};
pub(crate) use transfer::{download, upload};
use trijet::{Device, Result};

/// Calls a macro with the list of all cases. The macro makes the tests.
macro_rules! for_each_case {
    ($make:ident) => {
        $make! {
            ordering::wait_before_record_is_noop
            ordering::event_stands_for_the_work_at_its_record
            ordering::a_wait_keeps_the_snapshot_of_its_call
            ordering::a_wait_holds_future_work_only
            ordering::stream_order_is_enqueue_order
            ordering::a_writer_waits_for_the_readers_of_two_streams
            ordering::disjoint_halves_on_two_streams_insert_no_wait
            ordering::work_in_one_stream_records_no_event
            ordering::a_wait_already_implied_is_not_issued_again
            ordering::a_wait_is_not_needed_after_a_host_sync
            ordering::over_waits_of_a_first_crossing_are_counted
            ordering::eight_threads_share_a_buffer_that_is_only_read
            ordering::manual_memory_is_ordered_by_its_user_alone
            ordering::a_wait_for_an_idle_blocking_stream_says_nothing_of_the_legacy_stream
            ordering::a_wait_does_not_hold_for_work_after_the_record
            ordering::a_wait_does_not_cover_a_record_made_during_it
            ordering::a_per_thread_stream_is_waited_for_by_other_threads
            ordering::the_legacy_stream_and_blocking_ones_need_no_waits
            copies::copies_are_byte_exact_in_every_direction
            copies::a_copy_of_nothing_does_nothing
            copies::lengths_that_differ_are_refused
            copies::dropping_a_buffer_waits_for_its_users_on_other_streams
            copies::dropping_a_stream_with_pending_work_still_delivers
            copies::work_of_a_dropped_stream_is_ordered_before_its_successors
            copies::a_stream_does_not_inherit_the_waits_of_a_dropped_one
            copies::a_scope_lands_its_downloads
            host::a_host_function_runs_after_prior_and_before_later_work
            host::a_host_function_is_ordered_by_the_memory_it_declares
            host::a_panic_of_a_host_function_is_returned_once
            host::the_api_refuses_calls_inside_a_host_function
            host::a_buffer_dropped_inside_a_host_function_is_freed_later
            host::every_host_function_is_dropped_exactly_once
            host::a_ticket_orders_the_thread_that_waits
            host::a_ticket_stands_for_waits_too
            host::a_successful_query_is_as_good_as_a_wait
            host::timed_events_measure_ordered_times
            host::pinned_guards_wait_for_the_users_of_their_range_only
            ready::awaiting_a_ticket_orders_the_thread_that_polls
            ready::a_stream_is_awaited_up_to_the_call
            ready::an_event_is_awaited_as_it_was_recorded_at_the_call
            ready::an_event_that_was_never_recorded_is_ready
            ready::a_host_buffer_is_awaited_for_its_writers_only
            ready::what_was_awaited_needs_no_wait_afterwards
            ready::only_the_thread_that_completes_a_future_learns_from_it
            ready::a_future_of_memory_waits_for_nothing_that_its_creator_knew_complete
            ready::polling_inside_a_host_function_ends_with_an_error
            pool::used_memory_follows_alloc_and_free
            pool::memory_above_the_threshold_is_returned_at_a_synchronisation
            pool::trimming_keeps_what_is_in_use
            pool::allocations_of_zero_bytes_succeed_and_can_be_freed
            pool::a_kernel_refuses_unequal_lengths
            pool::a_launch_over_nothing_does_nothing
            default_streams::the_matrix_of_default_streams
            default_streams::a_wait_of_the_legacy_stream_holds_blocking_streams_back
            default_streams::a_wait_of_the_legacy_stream_for_an_unrecorded_event_holds_nothing_back
            default_streams::the_legacy_stream_stands_for_blocking_streams
            default_streams::a_wait_for_a_blocking_stream_covers_earlier_work_of_the_legacy_stream
            default_streams::the_legacy_stream_does_not_stand_for_non_blocking_streams
            default_streams::a_synchronous_copy_is_ordered_with_blocking_streams
            default_streams::eight_threads_overlap_on_their_per_thread_streams
            default_streams::a_per_thread_stream_is_refused_to_other_threads
            batches::a_batch_delivers_all_of_its_copies
            batches::a_batch_takes_its_place_in_the_stream
            batches::an_event_after_a_batch_stands_for_all_of_it
            batches::a_source_read_out_of_order_is_complete_before
            batches::a_batch_copies_in_one_direction
            pageable::a_pageable_copy_takes_its_place_in_the_stream
            pageable::writing_a_pageable_source_waits_until_it_was_read
            pageable::a_copy_within_the_host_is_done_at_return
            pageable::a_page_locked_copy_does_not_hold_the_host_up
            pageable::a_synchronous_download_is_complete_at_return
            pageable::a_synchronous_upload_frees_its_source_at_return
            pageable::synchronous_copies_do_not_wait_for_non_blocking_streams
            launches::a_kernel_takes_plain_pointers_and_any_configuration
            launches::a_shape_may_depend_on_data
            launches::a_configuration_is_checked_before_the_driver_is_called
            attributes::blocks_of_a_cluster_read_what_their_leader_loaded
            attributes::a_cluster_that_cannot_be_is_refused_before_the_driver_is_called
            attributes::a_cooperative_launch_is_as_large_as_the_device_has_room
            attributes::occupancy_falls_with_threads_and_counts_clusters
            attributes::a_launch_may_have_a_priority_of_its_own
            attributes::chains_of_dependent_launches_compute_what_ordinary_ones_do
            attributes::chains_of_dependent_launches_in_a_graph_compute_what_ordinary_ones_do
            attributes::a_dependent_launch_of_a_kernel_that_does_not_wait_is_refused
            kernels::a_sum_by_warps_with_roles_has_any_length_alignment_and_grid
            kernels::clusters_of_each_size_compute_the_same_product
            kernels::a_product_refuses_sizes_and_shapes_that_do_not_fit
            kernels::chains_of_producers_and_consumers_compute_what_their_descriptions_say
            gemm::products_of_bf16_have_any_size
            gemm::chains_of_products_as_dependent_launches_compute_what_ordinary_ones_do
            gemm::a_product_of_bf16_refuses_what_does_not_fit
            captures::operations_in_a_captured_stream_become_a_part_of_its_graph
            captures::an_operation_of_a_capture_comes_after_earlier_work_of_all_streams
            captures::the_same_tasks_run_in_streams_as_graphs_and_in_captures
            captures::what_cannot_be_captured_is_refused_and_the_capture_goes_on
            graphs::each_launch_of_a_graph_computes_what_its_operations_do
            graphs::a_launch_takes_other_memory_of_the_same_size
            graphs::a_launch_is_ordered_with_all_uses_of_its_memory
            graphs::launches_of_one_graph_follow_each_other
            graphs::a_graph_is_changed_in_place_or_stays_as_it_was
            graphs::a_host_function_of_a_graph_runs_in_each_launch
            graphs::what_a_graph_cannot_have_is_refused
            graphs::arguments_that_do_not_fit_are_refused_by_number
            conditional::operations_on_a_condition_are_performed_as_often_as_it_holds
            conditional::copies_and_fills_are_performed_on_a_condition
            conditional::conditions_are_within_each_other
            conditional::what_has_no_condition_is_refused
            slices::a_slice_may_change_as_soon_as_it_is_uploaded
            slices::a_download_waits_for_the_writers_of_all_streams
            slices::zeroed_memory_is_zero_where_the_memory_was_used_before
            slices::a_fill_sets_every_element_and_no_other
            tiled::the_blocks_of_a_cluster_share_the_tiles_of_a_matrix
            tiled::boxes_are_read_and_written_within_their_matrix
            tiled::boxes_of_page_locked_memory_are_read_and_written
            tiled::a_graph_copies_boxes_of_the_memory_of_each_launch
            tiled::tilings_and_matrices_that_do_not_fit_are_refused
            reuse::memory_of_the_same_stream_is_reused_in_stream_order
            reuse::memory_reused_across_an_event_comes_after_its_users
            reuse::memory_in_use_is_never_given_to_another_stream
            reuse::memory_reused_across_the_legacy_stream_comes_after_its_users
            reuse::memory_seen_complete_is_reused_by_any_stream
            reuse::memory_is_used_in_another_stream_after_its_allocation
            reuse::a_buffer_grows_beside_its_operations_and_leaves_its_memory
            reuse::trimming_while_a_stream_is_held_up_takes_nothing_in_use
            churn::threads_that_allocate_and_free_never_share_live_bytes
        }
    };
}
pub(crate) use for_each_case;

/// Runs `case` on the new device `device`, then demands that no memory leaked and that no drop
/// failed.
pub(crate) fn check(device: Device, case: fn(&Device) -> Result<()>) {
    let outcome = case(&device);
    outcome.expect("the case sees no error that it does not expect");
    // The host waits twice. During the first wait, host functions may run, which put frees off
    // until the second wait.
    device.synchronize().expect("nothing failed");
    device.synchronize().expect("nothing failed");
    assert_eq!(device.memory_stats().expect("the device answers").used.0, 0, "memory leaked");
    device.close().expect("no drop had an error to keep");
}
