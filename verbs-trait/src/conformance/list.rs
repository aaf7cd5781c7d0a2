//! The list of all cases by name, for runners that want one test a case.

/// Calls a macro with every case: `group { case case ... } group { ... } ...`.
///
/// ```
/// macro_rules! count {
///     ($($group:ident { $($case:ident)* })*) => { [$($(stringify!($case)),*),*].len() };
/// }
/// assert!(weft_verbs::conformance_cases!(count) > 200);
/// ```
#[macro_export]
macro_rules! conformance_cases {
    ($callback:ident) => {
        $callback! {
            transitions {
                a_fresh_queue_pair_is_in_reset_with_the_sizes_it_asked_for
                every_legal_edge_is_taken
                every_illegal_edge_is_refused_and_changes_nothing
                every_legal_edge_of_sqd_is_taken
                every_illegal_edge_of_sqd_is_refused_and_changes_nothing
                init_refuses_a_port_that_is_not_there
                rtr_refuses_what_device_and_port_cannot_do
                rts_refuses_more_reads_in_flight_than_the_device_can_have
                a_query_returns_what_was_set
                init_may_be_repeated_with_other_rights
                rights_change_on_a_running_queue_pair
                a_queue_pair_that_is_ready_to_receive_answers_requests
                reset_drops_posted_requests_silently
                a_queue_pair_serves_again_after_reset
                reset_ends_the_error_state
            }
            posting {
                posts_are_taken_by_the_state
                receives_posted_before_the_connection_serve_it
                a_list_is_posted_in_order
                an_empty_list_is_nothing
                a_refused_send_list_says_how_many_were_accepted
                a_refused_receive_list_says_how_many_were_accepted
                a_full_send_queue_refuses_with_its_depth
                a_full_receive_queue_refuses_with_its_depth
                unsignaled_sends_hold_their_slots_until_a_later_completion_is_polled
                a_completion_frees_slots_when_it_is_polled_and_not_before
                an_unsignaled_request_completes_only_in_error
                with_signal_all_every_request_completes
                small_queues_carry_a_long_stream
                a_receive_slot_is_free_once_its_completion_was_polled
            }
            misuse {
                oversize_inline_data_is_refused
                too_many_ranges_are_refused
                a_list_longer_than_the_largest_message_is_refused
                inline_data_is_refused_where_nothing_is_sent
                an_atomic_wants_one_local_range_of_eight_bytes
                a_range_outside_its_region_is_never_sent
                another_domains_region_is_never_sent
                another_contexts_objects_are_foreign
                two_contexts_of_one_device_do_not_mix
                a_port_that_is_not_there_is_refused
                a_gid_index_beyond_the_table_is_refused
                sizes_beyond_the_device_are_refused
                a_region_larger_than_the_device_allows_is_refused
            }
            keys {
                a_wrong_remote_key_is_refused
                a_key_of_a_deregistered_region_is_refused
                one_byte_beyond_the_region_is_refused
                the_whole_region_may_be_reached
                a_region_without_the_right_refuses
                a_queue_pair_without_the_right_refuses
                a_region_of_another_domain_refuses
                atomics_check_keys_and_rights
                a_misaligned_atomic_is_refused
                remote_rights_to_write_need_the_local_one
                no_answer_is_put_into_memory_that_the_adapter_may_not_write
                no_message_is_put_into_memory_that_the_adapter_may_not_write
                an_atomics_old_value_is_not_put_where_the_adapter_may_not_write
                nothing_is_checked_where_nothing_is_moved
                a_refused_request_changes_nothing_and_fails_both_queue_pairs
                nothing_behind_a_refused_request_is_executed
                a_region_that_goes_amid_a_write_refuses_the_rest
                a_region_that_goes_amid_a_read_refuses_the_rest
                a_region_deregistered_amid_a_write_is_not_written_on
                a_region_deregistered_amid_a_read_is_not_read_on
                keys_and_addresses_of_living_regions_differ
            }
            revocation {
                a_deregistered_region_is_out_of_reach
                a_deregistered_region_is_out_of_reach_of_atomics
                its_owner_keeps_what_peers_left_in_it
                nothing_more_is_posted_with_a_deregistered_region
                a_region_that_a_request_holds_is_not_deregistered
                after_the_fence_and_the_drain_a_region_is_deregistered
                a_part_has_keys_of_its_own_and_lets_nobody_reach_further
                parts_that_live_do_not_overlap
                the_key_of_a_part_dies_and_its_memory_is_used_again
            }
            data {
                a_message_of_any_size_arrives_whole
                a_write_of_any_size_arrives_whole
                a_read_of_any_size_arrives_whole
                a_megabyte_goes_both_ways
                a_message_is_gathered_and_scattered_in_list_order
                a_write_is_gathered_and_a_read_is_scattered_in_list_order
                inline_data_is_copied_by_the_post
                immediate_data_arrives_with_the_message
                immediate_data_of_a_write_consumes_a_receive
                a_plain_write_consumes_no_receive
                a_message_may_be_shorter_than_its_buffer
                a_message_that_fits_exactly_arrives
                a_message_longer_than_its_buffer_fails_on_both_sides
                a_message_of_several_packets_longer_than_its_buffer_fails_on_both_sides
                a_receive_without_buffers_takes_an_empty_message
                both_directions_work_at_once
                a_completion_names_operation_length_and_queue_pair
            }
            ordering {
                requests_complete_in_post_order
                messages_arrive_in_the_order_sent
                a_read_sees_the_write_before_it
                a_message_follows_the_write_before_it
                an_atomic_sees_the_write_before_it
                a_fenced_send_waits_for_the_read_before_it
                a_fenced_send_waits_for_the_atomic_before_it
                a_fenced_write_does_not_disturb_the_read_before_it
                a_fence_with_nothing_before_it_is_nothing
                a_stuck_queue_pair_holds_up_no_other
            }
            atomics {
                a_compare_and_swap_that_matches_swaps_and_returns_the_old_value
                a_compare_and_swap_that_differs_changes_nothing_and_returns_the_old_value
                a_fetch_and_add_adds_and_returns_the_old_value
                a_fetch_and_add_wraps_at_two_to_the_64
                an_atomic_touches_no_byte_beside_its_word
                more_atomics_than_may_be_in_flight_wait_their_turn
                more_in_flight_than_the_peer_serves_is_never_done_twice
                atomics_of_one_queue_pair_execute_in_order
                additions_of_many_nodes_are_each_counted_once
                swaps_of_many_nodes_each_win_once
            }
            retries {
                as_many_losses_as_retries_are_survived
                one_loss_more_than_retries_is_fatal
                lost_acknowledgements_count_like_lost_requests
                the_request_is_sent_once_and_once_more_a_retry
                progress_gives_all_retries_back
                a_time_out_comes_after_one_to_four_times_its_span
                exhaustion_takes_one_to_four_spans_for_each_attempt
                without_a_time_out_a_lost_request_waits_for_ever
                a_short_cut_is_survived
                a_long_cut_exhausts_the_retries_of_what_is_posted
                a_cut_does_not_touch_an_idle_connection
            }
            gaps {
                a_lost_packet_amid_a_message_is_sent_again
                a_later_packet_reveals_a_lost_one_without_a_time_out
                a_gap_is_reported_once
                a_sequence_error_costs_a_retry
                a_lost_sequence_nak_is_made_up_for
                a_lost_acknowledgement_is_covered_by_the_next
                an_answer_to_a_read_acknowledges_what_came_before_it
                a_lost_read_answer_is_asked_for_again
                a_lost_first_or_last_part_of_a_read_is_asked_for_again
                a_lost_answer_costs_a_retry
                a_lost_answer_is_asked_for_once
                nothing_is_sent_twice_where_nothing_is_lost
            }
            duplicates {
                a_duplicate_atomic_is_answered_from_the_record
                every_atomic_in_flight_has_its_record
                a_duplicate_read_is_executed_again
                a_duplicate_write_is_not_executed_again
                a_duplicate_message_consumes_no_second_receive
                every_packet_may_arrive_twice
                every_packet_may_arrive_much_later
                a_request_given_up_may_be_executed_yet
                the_error_state_fences_requests_on_their_way
                an_acknowledgement_of_an_old_connection_is_ignored
                a_refusal_of_an_old_connection_is_ignored
                a_packet_of_an_old_connection_does_not_enter_the_new
            }
            rnr {
                a_message_waits_for_its_receive_buffer
                a_write_with_immediate_data_waits_for_its_receive_buffer
                a_plain_write_needs_no_receive_buffer
                exhausted_rnr_retries_are_fatal
                a_write_that_found_no_buffer_for_its_end_may_have_written
                as_many_rnr_retries_as_allowed_are_made
                the_last_rnr_retry_still_succeeds
                seven_rnr_retries_are_without_end
                the_rnr_timer_is_respected
                an_updated_rnr_timer_is_told_from_then_on
                progress_gives_all_rnr_retries_back
                a_doubled_answer_of_not_ready_counts_once
                what_follows_a_message_that_waits_is_dropped_in_silence
                rnr_retries_and_transport_retries_count_apart
                a_message_that_waits_keeps_its_place
                receives_fed_one_by_one_carry_everything
            }
            flush {
                the_error_state_flushes_both_queues_in_order
                receives_of_an_unconnected_queue_pair_are_flushed
                the_first_error_carries_the_true_status
                unsignaled_requests_are_flushed_aloud
                requests_before_the_first_error_keep_their_success
                posts_to_a_queue_pair_in_error_are_flushed
                flushed_requests_free_their_slots
                a_peer_learns_by_its_own_retries
                an_idle_peer_learns_nothing
                a_request_in_flight_is_flushed_and_its_answer_ignored
                an_error_on_one_queue_pair_leaves_others_alone
                a_flush_lets_the_memory_go
            }
            cq {
                a_queue_holds_at_least_what_was_asked_for
                a_poll_brings_at_most_what_was_asked_for
                a_poll_of_nothing_brings_nothing
                completions_are_appended_to_what_was_there
                a_completion_is_polled_once
                two_queue_pairs_may_share_a_queue
                sends_and_receives_may_share_a_queue
                each_work_queue_has_the_queue_it_was_given
                an_overrun_is_an_error_and_an_event
                a_queue_may_be_filled_to_the_brim
                a_queue_that_grows_keeps_its_completions_in_order
                a_queue_shrinks_to_what_it_holds_and_no_further
                a_destroyed_queue_pair_leaves_no_false_completions
            }
            wake {
                an_armed_queue_raises_an_event_for_the_next_completion
                an_unarmed_queue_raises_none
                arming_says_nothing_of_completions_already_there
                one_arming_yields_one_event
                arming_twice_yields_one_event
                an_event_names_its_queue
                queues_on_one_channel_raise_their_own_events
                a_queue_without_a_channel_can_be_polled
                solicited_arming_waits_for_a_solicited_message
                an_error_counts_as_solicited
                arming_for_all_outlasts_arming_for_solicited
                a_parked_node_that_polls_is_woken_by_a_completion
                a_parked_node_that_armed_is_woken_by_the_next_completion
                a_node_that_armed_and_did_not_poll_again_is_woken_by_nothing_else
                a_node_that_sleeps_unarmed_is_not_woken_by_completions
                an_event_that_was_not_taken_ends_the_next_wait
                a_deadline_wakes_a_node
                a_node_that_asks_for_another_step_gets_it
                a_node_that_is_done_is_not_stepped_again
            }
            shapes {
                a_node_can_connect_to_itself
                a_queue_pair_can_connect_to_itself
                loopback_keeps_the_transports_rules
                packet_numbers_wrap
                packet_numbers_wrap_amid_losses
                packet_numbers_wrap_amid_a_read
                many_connections_between_two_nodes_do_not_mix
                many_connections_on_one_node_pass_a_token_around
                numbers_of_destroyed_queue_pairs_do_no_harm
                a_packet_to_a_queue_pair_that_is_gone_is_dropped
                packets_of_a_stranger_are_dropped
            }
            sqd {
                an_idle_send_queue_is_drained_at_once
                what_is_in_flight_ends_and_nothing_new_begins
                the_event_comes_after_the_last_completion
                without_asking_there_is_no_event
                posts_to_a_drained_queue_wait_for_its_return
                a_drained_queue_pair_still_answers_its_peer
                a_drained_queue_pair_flushes_what_waits_in_it
                an_error_while_draining_leads_to_the_error_state
            }
            events {
                a_refused_key_is_an_access_error_at_the_responder
                a_request_that_cannot_be_executed_is_a_request_error_at_the_responder
                the_first_message_before_ready_to_send_is_told
                a_peaceful_life_raises_no_event
                events_go_to_the_context_of_their_object
            }
            ports {
                a_device_describes_itself
                a_device_has_the_capabilities_that_its_harness_names
                two_nodes_have_devices_of_their_own
                a_nodes_clock_never_runs_backwards
                random_words_differ
                a_port_that_fails_says_so
                a_port_that_comes_back_says_so
                requests_outlive_a_short_port_failure
                requests_outlive_a_port_that_fails_at_any_moment
                each_port_has_addresses_of_its_own
                each_port_fails_by_itself
                two_ports_of_one_device_reach_each_other
                a_failed_port_does_not_change_queue_pairs
            }
            devices {
                devices_of_one_node_have_names_and_addresses_of_their_own
                objects_of_another_device_are_foreign
                each_device_carries_traffic
                devices_of_one_node_reach_each_other
                a_device_keeps_running_when_the_others_port_fails
                each_device_has_a_connection_manager_of_its_own
                a_completion_on_any_device_wakes_the_node
                additions_by_two_devices_to_two_words_are_all_counted
            }
            migration {
                both_ends_arm_once_both_have_rearmed
                alternate_paths_may_be_given_with_the_connection
                a_state_of_migration_is_refused_out_of_turn
                a_connection_moves_to_its_alternate_path_when_asked
                a_moved_connection_no_longer_needs_its_first_path
                a_connection_whose_retries_are_used_up_moves
                a_connection_that_is_not_armed_does_not_move
                retries_begin_anew_on_the_alternate_path
                the_alternate_paths_time_out_holds_on_it
                a_moved_connection_can_be_armed_again
                a_peer_that_moves_elsewhere_is_not_followed
                packets_left_on_the_old_path_do_no_harm
                a_cut_cable_moves_a_busy_connection_without_a_trace
            }
            datagrams {
                a_datagram_arrives_and_names_its_sender
                a_datagram_with_another_queue_key_is_dropped
                a_datagram_that_finds_no_room_is_dropped
                a_datagram_longer_than_a_packet_never_leaves
                a_datagram_as_long_as_a_packet_arrives_whole
                a_lost_datagram_is_not_sent_again
                one_queue_pair_hears_many_and_answers_each
                a_send_that_fails_stops_the_send_queue_and_not_the_receives
                datagram_queue_pairs_take_datagrams_and_connections_do_not
                an_address_of_another_domain_is_refused
                an_error_flushes_a_datagram_queue_pair
                a_queue_key_can_change_in_use
            }
            shared_receives {
                two_queue_pairs_draw_from_one_shared_queue
                a_shared_queue_says_once_that_it_runs_low
                a_shared_queue_that_is_armed_low_says_so
                an_error_does_not_flush_a_shared_queue
                a_queue_pair_in_error_says_that_it_draws_no_more
                an_empty_shared_queue_is_not_ready
                a_full_shared_queue_takes_no_more
                long_messages_at_once_get_a_buffer_each
                writes_with_immediate_data_draw_too
                datagrams_draw_from_a_shared_queue
                a_datagram_too_long_costs_a_shared_receive_and_no_more
                a_shared_queue_outlives_the_queue_pairs_that_draw
            }
            memory {
                a_new_region_is_zeroed_and_named
                a_region_for_which_no_machine_has_memory_is_refused
                copies_stay_within_the_region
                words_are_aligned_and_within_the_region
                words_and_bytes_are_the_same_memory
                a_remote_range_stays_within_the_region
                a_region_lives_while_a_handle_does
                a_region_lives_while_a_request_holds_it
                a_destroyed_queue_pair_lets_its_regions_go
                a_reset_queue_pair_lets_its_regions_go
                a_region_outlives_its_domains_handle
                brought_memory_serves_like_any_other
                brought_memory_keeps_what_was_in_it
                brought_memory_is_given_back
            }
            cm {
                a_connection_is_made_and_carries_data_both_ways
                private_data_arrives_with_each_message
                private_data_beyond_its_bound_is_refused
                the_passive_side_may_reject
                nobody_listening_is_a_rejection
                a_disconnected_peer_is_told
                a_disconnection_does_not_touch_the_queue_pair
                a_forgotten_identity_is_refused
                a_queue_pair_that_is_not_in_init_is_refused
                a_second_listener_on_a_service_is_refused
                many_connections_can_be_made_to_one_listener
                both_sides_can_connect_at_once
                a_node_can_connect_to_itself_through_the_manager
                receives_posted_before_the_connection_take_its_first_messages
                agreed_limits_are_the_smaller_of_both
                packets_are_no_larger_than_the_ports_can
            }
            cm_trouble {
                an_unknown_node_is_unreachable
                a_node_that_is_cut_off_is_unreachable
                lost_messages_are_repeated
                doubled_messages_make_one_connection
                a_lost_disconnection_is_repeated
                an_acceptance_that_comes_too_late_ends_unreachable
                an_attempt_that_was_given_up_leaves_no_connection
                an_acceptance_of_an_attempt_that_is_given_up_ends_unreachable
            }
            reliability {
                any_program_runs_as_written_on_a_quiet_fabric
                any_program_runs_as_written_under_loss
                any_program_runs_as_written_under_duplication
                any_program_runs_as_written_under_delay
                any_program_runs_as_written_under_all_of_them
                any_program_runs_as_written_on_a_loopback
                a_failure_is_a_clean_cut
            }
            optional {
                what_a_device_lacks_it_refuses_by_name
                each_port_carries_traffic
            }
            streams {
                a_byte_stream_carries_bytes_both_ways
                a_stream_keeps_its_bytes_in_order_whatever_happens_to_packets
                a_stream_outlives_a_short_cut
                a_stream_that_was_shut_down_still_reads
                a_writer_waits_for_its_reader
                what_was_written_arrives_although_the_writer_is_gone
                a_stream_dropped_with_bytes_unread_is_reset
                writing_to_a_peer_that_is_gone_fails
                a_service_that_nobody_listens_on_refuses
                a_second_listener_on_a_service_of_streams_is_refused
                a_machine_that_is_not_there_is_not_reached
                many_streams_to_one_listener_do_not_mix
                a_machine_can_stream_to_itself
                readiness_steps_the_node_and_wakes_the_task
            }
            disks {
                what_was_written_is_read
                a_transfer_reaches_registered_memory_and_nothing_beside_it
                bytes_that_nobody_wrote_are_zero_and_there_are_none_behind_the_end
                objects_are_made_listed_and_removed_by_name
                what_is_cut_off_is_zero_if_it_is_there_again
                what_cannot_be_done_is_refused_by_its_reason
                calls_that_are_under_way_at_once_all_end
                a_call_whose_handle_is_dropped_goes_on
                an_end_steps_the_node_and_wakes_the_task
            }
            statuses {
                a_response_that_does_not_fit_its_request_is_bad
                a_read_that_may_never_be_in_flight_fails_locally
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::conformance::{CAUSES, Cause};

    macro_rules! names {
        ($($group:ident { $($case:ident)* })*) => {
            [$($((stringify!($group), stringify!($case))),*),*]
        };
    }

    #[test]
    fn every_status_has_a_case_that_provokes_it_or_a_reason_for_none() {
        let listed = conformance_cases!(names);
        for status in crate::WcError::ALL {
            let (_, cause) = CAUSES.iter().find(|(s, _)| *s == status).expect("a status without a row");
            if let Cause::Case(group, name) = cause {
                assert!(listed.contains(&(group, name)), "{status:?}: no case {group}::{name}");
            }
        }
    }
}
