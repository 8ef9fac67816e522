// Constants and codes are those of registry_spec/limits.json and codes.json (W-0).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/limits.hpp"

namespace speed {
namespace {

using test::Json;
namespace limits = wire::limits;

TEST(Limits, every_number_equals_limits_json) {
  const Json ours{{"protocol_version", limits::protocol_version},
                  {"header_bytes", limits::header_bytes},
                  {"security_header_bytes", limits::security_header_bytes},
                  {"aad_bytes", limits::aad_bytes},
                  {"tag_bytes", limits::tag_bytes},
                  {"nonce_bytes", limits::nonce_bytes},
                  {"key_bytes", limits::key_bytes},
                  {"key_id_bytes", limits::key_id_bytes},
                  {"node_id_bytes", limits::node_id_bytes},
                  {"node_id_namespace_hex", limits::node_id_namespace_hex},
                  {"generation_bits", limits::generation_bits},
                  {"counter_bits", limits::counter_bits},
                  {"max_payload_bytes", limits::max_payload_bytes},
                  {"max_name_bytes", limits::max_name_bytes},
                  {"max_message_id_bytes", limits::max_message_id_bytes},
                  {"max_namespace_bytes", limits::max_namespace_bytes},
                  {"max_topic_bytes", limits::max_topic_bytes},
                  {"max_request_id_bytes", limits::max_request_id_bytes},
                  {"max_head_bytes", limits::max_head_bytes},
                  {"max_control_bytes", limits::max_control_bytes},
                  {"max_discovery_bytes", limits::max_discovery_bytes},
                  {"max_call_bytes", limits::max_call_bytes},
                  {"max_error_characters", limits::max_error_characters},
                  {"max_details_bytes", limits::max_details_bytes},
                  {"max_withdrawn_ids", limits::max_withdrawn_ids},
                  {"max_blocked_workers", limits::max_blocked_workers},
                  {"max_keys", limits::max_keys},
                  {"max_links", limits::max_links},
                  {"max_entry_bytes", limits::max_entry_bytes},
                  {"max_claim_bytes", limits::max_claim_bytes},
                  {"min_entry_bytes", limits::min_entry_bytes},
                  {"max_remembered_junk", limits::max_remembered_junk},
                  {"segment_bytes", limits::segment_bytes},
                  {"lane_window_bytes", limits::lane_window_bytes},
                  {"max_lanes", limits::max_lanes},
                  {"max_open_files", limits::max_open_files},
                  {"max_reopens", limits::max_reopens},
                  {"lanes_at_rest_a_scan", limits::lanes_at_rest_a_scan},
                  {"max_junk_a_scan", limits::max_junk_a_scan},
                  {"max_lane_segments", limits::max_lane_segments},
                  {"max_unfinished", limits::max_unfinished},
                  {"max_unfinished_bytes", limits::max_unfinished_bytes},
                  {"max_in_hand", limits::max_in_hand},
                  {"max_deliveries", limits::max_deliveries},
                  {"max_deliveries_listed", limits::max_deliveries_listed},
                  {"max_dead_letters", limits::max_dead_letters},
                  {"max_dead_bytes", limits::max_dead_bytes},
                  {"dead_letter_chunk_bytes", limits::dead_letter_chunk_bytes},
                  {"max_quarantine_files", limits::max_quarantine_files},
                  {"max_quarantine_bytes", limits::max_quarantine_bytes},
                  {"max_quarantined_bytes", limits::max_quarantined_bytes},
                  {"max_value_depth", limits::max_value_depth},
                  {"max_value_items", limits::max_value_items},
                  {"max_json_depth", limits::max_json_depth},
                  {"max_zstd_window_bytes", limits::max_zstd_window_bytes},
                  {"column_extension", limits::column_extension},
                  {"journal_block_records", limits::journal_block_records},
                  {"journal_block_bytes", limits::journal_block_bytes},
                  {"max_journal_block_bytes", limits::max_journal_block_bytes},
                  {"journal_segment_bytes", limits::journal_segment_bytes},
                  {"max_journal_lanes", limits::max_journal_lanes},
                  {"max_segments", limits::max_segments},
                  {"data_segment_bytes", limits::data_segment_bytes},
                  {"parity_rate", limits::parity_rate},
                  {"min_length_trials", limits::min_length_trials},
                  {"max_segmented_bytes", limits::max_segmented_bytes},
                  {"max_segmented_head_bytes", limits::max_segmented_head_bytes},
                  {"file_backed_bytes", limits::file_backed_bytes},
                  {"max_reconstructions", limits::max_reconstructions},
                  {"max_sender_reconstructions", limits::max_sender_reconstructions},
                  {"max_buffered_bytes", limits::max_buffered_bytes},
                  {"max_sender_buffered_bytes", limits::max_sender_buffered_bytes},
                  {"max_completions", limits::max_completions},
                  {"max_sender_completions", limits::max_sender_completions},
                  {"reconstruction_idle_seconds", limits::reconstruction_idle_seconds},
                  {"reconstruction_seconds", limits::reconstruction_seconds},
                  {"completion_seconds", limits::completion_seconds},
                  {"lease_seconds", limits::lease_seconds},
                  {"heartbeat_seconds", limits::heartbeat_seconds},
                  {"call_timeout_seconds", limits::call_timeout_seconds},
                  {"call_grace_seconds", limits::call_grace_seconds},
                  {"full_scan_seconds", limits::full_scan_seconds},
                  {"listing_seconds", limits::listing_seconds},
                  {"lane_check_seconds", limits::lane_check_seconds},
                  {"clock_tick_seconds", limits::clock_tick_seconds},
                  {"sweep_seconds", limits::sweep_seconds},
                  {"sweeping_lease_seconds", limits::sweeping_lease_seconds},
                  {"temporary_seconds", limits::temporary_seconds},
                  {"remote_late_seconds", limits::remote_late_seconds},
                  {"ungranted_lane_grace_seconds", limits::ungranted_lane_grace_seconds},
                  {"unclaimed_event_seconds", limits::unclaimed_event_seconds},
                  {"retry_first_seconds", limits::retry_first_seconds},
                  {"retry_most_seconds", limits::retry_most_seconds},
                  {"default_priority", limits::default_priority}};
  const Json theirs = test::spec_file("limits.json");
  EXPECT_EQ(ours.size(), theirs.size());
  for (const auto& [name, number] : theirs.items()) EXPECT_EQ(ours.value(name, Json()), number) << name;
}

template <class... Errors>
std::set<std::string> codes_of() {
  return {std::string(Errors("x").code())...};
}

std::set<std::string> listed(const char* list) {
  const Json codes = test::spec_file("codes.json");
  return codes[list].get<std::set<std::string>>();
}

TEST(Codes, every_spc_code_has_one_exception_class_s_8) {
  EXPECT_EQ((codes_of<ServiceNotFoundError, AccessDeniedError, InvalidArgumentsError, ExecutionFailedError,
                      CallTimeoutError, InternalError, SegmentsLostError, CallWithdrawnError, NodeLeavingError>()),
            listed("spc"));
}

TEST(Codes, every_local_code_has_an_exception_class) {
  EXPECT_EQ((codes_of<Error, ConfigurationError, KeyFileError, RootError, InvalidNameError, DurabilityError,
                      RegistrationError, NameTakenError, LeaseLostError, NodeClosedError, ForkedNodeError,
                      DeliveryError, UnknownNodeError, NodeLeftError, InboxFullError, StorageError,
                      PayloadTooLargeError, UnserialisableError, NotAcknowledgedError, ServiceExistsError, CallError,
                      SegmentStoreError>()),
            listed("local"));
}

TEST(Codes, every_refusal_of_an_envelope_is_a_wire_code_w_5) {
  const std::set<std::string> wire_codes = listed("wire");
  for (int refusal = 1; refusal <= static_cast<int>(wire::Refusal::bad_tag); ++refusal) {
    EXPECT_TRUE(wire_codes.contains(std::string(code_of(static_cast<wire::Refusal>(refusal))))) << refusal;
  }
}

}  // namespace
}  // namespace speed
