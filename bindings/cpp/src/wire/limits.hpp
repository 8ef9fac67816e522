// The numbers of registry_spec/limits.json; a test asserts that both are equal (W-0).
#pragma once

#include <cstddef>
#include <cstdint>

namespace speed::wire::limits {

inline constexpr std::uint8_t protocol_version = 1;
inline constexpr std::size_t header_bytes = 64;
inline constexpr std::size_t security_header_bytes = 24;
inline constexpr std::size_t aad_bytes = 88;
inline constexpr std::size_t tag_bytes = 16;
inline constexpr std::size_t nonce_bytes = 12;
inline constexpr std::size_t key_bytes = 32;
inline constexpr std::size_t key_id_bytes = 8;
inline constexpr std::size_t node_id_bytes = 16;
inline constexpr char node_id_namespace_hex[] = "53504545442f31206e6f646520696400";
inline constexpr unsigned generation_bits = 24;
inline constexpr unsigned counter_bits = 40;
inline constexpr std::size_t max_payload_bytes = 67108864;
inline constexpr std::size_t max_name_bytes = 128;
inline constexpr std::size_t max_message_id_bytes = 128;
inline constexpr std::size_t max_namespace_bytes = 128;
inline constexpr std::size_t max_topic_bytes = 255;
inline constexpr std::size_t max_request_id_bytes = 64;
inline constexpr std::size_t max_head_bytes = 4096;
inline constexpr std::size_t max_control_bytes = 65536;
inline constexpr std::size_t max_discovery_bytes = 1048576;
inline constexpr std::size_t max_call_bytes = 268435456;
inline constexpr std::size_t max_error_characters = 2000;
inline constexpr std::size_t max_details_bytes = 65536;
inline constexpr std::size_t max_withdrawn_ids = 64;
inline constexpr std::size_t max_blocked_workers = 64;
inline constexpr std::size_t max_keys = 16;
inline constexpr int max_links = 40;
inline constexpr std::size_t max_entry_bytes = 65536;
inline constexpr std::size_t max_claim_bytes = 4096;
inline constexpr std::size_t min_entry_bytes = 2048;
inline constexpr std::size_t max_remembered_junk = 4096;
inline constexpr std::size_t segment_bytes = 8388608;
inline constexpr std::size_t lane_window_bytes = 67108864;
inline constexpr std::size_t max_lanes = 65536;
inline constexpr std::size_t max_open_files = 8192;
inline constexpr int max_reopens = 1000;
inline constexpr std::size_t lanes_at_rest_a_scan = 64;
inline constexpr std::size_t max_junk_a_scan = 256;
inline constexpr std::size_t max_lane_segments = 32768;
inline constexpr std::size_t max_unfinished = 64;
inline constexpr std::uint64_t max_unfinished_bytes = 134'217'728;
inline constexpr std::size_t max_in_hand = 16384;
inline constexpr unsigned max_deliveries = 5;
inline constexpr std::size_t max_deliveries_listed = 4096;
inline constexpr std::size_t max_dead_letters = 1000;
inline constexpr std::size_t max_dead_bytes = 268435456;
inline constexpr std::size_t dead_letter_chunk_bytes = 1048576;
inline constexpr std::size_t max_quarantine_files = 256;
inline constexpr std::size_t max_quarantine_bytes = 67108864;
inline constexpr std::size_t max_quarantined_bytes = 1048576;
inline constexpr std::size_t max_value_depth = 32;
inline constexpr std::size_t max_value_items = 8388608;
inline constexpr std::size_t max_json_depth = 64;
inline constexpr std::size_t max_zstd_window_bytes = 8388608;
inline constexpr std::int8_t column_extension = 1;
inline constexpr std::size_t journal_block_records = 4096;
inline constexpr std::size_t journal_block_bytes = 262144;
inline constexpr std::size_t max_journal_block_bytes = 67174400;
inline constexpr std::size_t journal_segment_bytes = 8388608;
inline constexpr std::size_t max_journal_lanes = 4096;
inline constexpr std::size_t max_segments = 255;
inline constexpr std::size_t data_segment_bytes = 4194304;
inline constexpr double parity_rate = 0.125;
inline constexpr std::size_t min_length_trials = 65536;
inline constexpr std::size_t max_segmented_bytes = 1073741824;
inline constexpr std::size_t max_segmented_head_bytes = 65536;
inline constexpr std::size_t file_backed_bytes = 16777216;
inline constexpr std::size_t max_reconstructions = 256;
inline constexpr std::size_t max_sender_reconstructions = 16;
inline constexpr std::size_t max_buffered_bytes = 2281701376;
inline constexpr std::size_t max_sender_buffered_bytes = 1140850688;
inline constexpr std::size_t max_completions = 65536;
inline constexpr std::size_t max_sender_completions = 4096;
inline constexpr double reconstruction_idle_seconds = 60.0;
inline constexpr double reconstruction_seconds = 3600.0;
inline constexpr double completion_seconds = 600.0;
inline constexpr double lease_seconds = 30.0;
inline constexpr double heartbeat_seconds = 5.0;
inline constexpr double call_timeout_seconds = 30.0;
inline constexpr double call_grace_seconds = 0.25;
inline constexpr double full_scan_seconds = 0.5;
inline constexpr double listing_seconds = 0.1;
inline constexpr double lane_check_seconds = 0.25;
inline constexpr double clock_tick_seconds = 0.02;
inline constexpr double sweep_seconds = 5.0;
inline constexpr double sweeping_lease_seconds = 600.0;
inline constexpr double temporary_seconds = 600.0;
inline constexpr double remote_late_seconds = 60.0;
inline constexpr double ungranted_lane_grace_seconds = 30.0;
inline constexpr double unclaimed_event_seconds = 30.0;
inline constexpr double retry_first_seconds = 0.1;
inline constexpr double retry_most_seconds = 10.0;
inline constexpr int default_priority = 5;

}  // namespace speed::wire::limits
