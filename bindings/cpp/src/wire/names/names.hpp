// Names, node ids and every path SPEED uses (W-1 to W-3, L-1, R-1). No other file builds a path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/limits.hpp"
#include "wire/value/bytes.hpp"

namespace speed::wire {

using NodeId = Block<limits::node_id_bytes>;

struct NodeIdHash {
  std::size_t operator()(const NodeId& id) const noexcept {  // an id is a hash already
    std::size_t value = 0;
    std::memcpy(&value, id.data(), sizeof value);
    return value;
  }
};

bool is_node_name(std::string_view name);
bool is_service_name(std::string_view name);
bool is_topic(std::string_view topic);
bool is_grant(std::string_view pattern);
bool is_fingerprint(std::string_view text);  // 40 lower-case hexadecimal digits; never the name of a host
bool names_identity(std::string_view grant);  // `name@fingerprint` (I-8)
bool is_topic_pattern(std::string_view pattern);
inline bool is_family(std::string_view pattern) { return pattern.ends_with(".*"); }
// The nodes that share events: of `pricing.1` they are `pricing.*`, of `pricing` it alone (S-42).
std::string family_of(std::string_view name);

// These throw InvalidNameError that says why not.
void check_node_name(std::string_view name);
void check_service_name(std::string_view name);
void check_topic(std::string_view topic);
void check_grant(std::string_view pattern);
void check_topic_pattern(std::string_view pattern);

// Whether a pattern (exact, `prefix.*` or `*`) covers a name.
bool matches(std::string_view pattern, std::string_view name);

NodeId node_id(std::string_view name);

inline constexpr std::uint32_t max_generation = (1U << limits::generation_bits) - 1;

// A file of a lane; ordered as the bytes in them are.
struct LaneFileName {
  std::uint32_t generation = 0;
  std::uint32_t number = 0;
  auto operator<=>(const LaneFileName&) const = default;
};

std::string registry_dir(std::string_view root);
std::string claims_dir(std::string_view root);
std::string observers_path(std::string_view root);
std::string entry_path(std::string_view root, std::string_view name);
std::string claim_path(std::string_view root, std::string_view name, std::uint32_t generation);
inline constexpr char floor_name[] = "floor";  // in the directory of the claims
std::string floor_lock_path(std::string_view root);  // held by whoever raises the floor of generations
std::string node_dir(std::string_view root, std::string_view name);
std::string bell_path(std::string_view root, std::string_view name);
std::string inbox_dir(std::string_view root, std::string_view name);
std::string lane_dir(std::string_view root, std::string_view target, std::string_view source);
std::string statement_path(std::string_view root, std::string_view name);  // whose name it is, by its owner (I-6)
std::string known_path(std::string_view identity_file);  // what its node remembers of others (I-7)
std::string quarantine_dir(std::string_view root, std::string_view name);
std::string dead_letters_dir(std::string_view root, std::string_view name);  // what a node could not handle (S-18)
std::string segments_dir(std::string_view root, std::string_view name);  // what a node received in segments (G-14)
std::string default_key_path(std::string_view root);
std::string temporary_key_path(std::string_view path);       // where the next content of a key file is written
std::string lock_path(std::string_view path);  // the lock of a file; no node has such a name
std::string child_path(std::string_view directory, std::string_view filename);

std::string temporary_name(std::string_view token);
std::string lane_file_name(LaneFileName file);
std::string cursor_name(std::uint32_t generation);
std::string start_name(std::uint32_t generation);
std::string fence_name(std::uint32_t generation);
std::string slot_name(LaneFileName slot);
std::string deliveries_name(std::uint32_t generation);

// What opens a bound link (I-4).
struct OpeningName {
  std::uint32_t generation = 0;
  Block<limits::key_id_bytes> key_id{};
};
std::string opening_name(const OpeningName& opening);
std::optional<std::uint32_t> parse_deliveries(std::string_view filename);

// A dead letter's file: kept, asked for again, or being tried again.
enum class LetterState { letter, retry, trying };
struct LetterName {
  std::uint64_t number = 0;
  LetterState state = LetterState::letter;
};
std::string letter_name(const LetterName& name);
std::optional<LetterName> parse_letter(std::string_view filename);

inline constexpr std::string_view segment_index_name = "index.sqlite";
std::string shards_name(const Block<16>& payload_id);  // the file that holds the segments of one payload
bool is_shards(std::string_view filename);
bool is_temporary(std::string_view filename);

// Null for a file name of another form, or of another spelling of the same number (L-1).
std::optional<std::string> parse_entry_file(std::string_view filename);
std::optional<std::pair<std::string, std::uint32_t>> parse_claim(std::string_view filename);
std::optional<LaneFileName> parse_lane_file(std::string_view filename);
std::optional<std::uint32_t> parse_cursor(std::string_view filename);
std::optional<std::uint32_t> parse_start(std::string_view filename);
std::optional<std::uint32_t> parse_fence(std::string_view filename);
std::optional<LaneFileName> parse_slot(std::string_view filename);
std::optional<OpeningName> parse_opening(std::string_view filename);

// Names across hosts: `billing@hostb`, and patterns such as `etl.*@hosta` (H-1, H-9).

inline constexpr char gateway_node[] = "speedd.hosts";  // carries to other hosts
inline constexpr std::size_t max_host_characters = 32;

inline bool is_remote(std::string_view target) { return target.find('@') != std::string_view::npos; }

bool is_host_name(std::string_view name);

// Both halves of `node@host`; InvalidNameError.
void check_remote(std::string_view target);

// A grant as nodes of this root know it: `etl.*@hosta` is about stand-ins; one of an identity stays as it is.
// InvalidNameError for no pattern of a host.
std::string local_grant(const std::string& pattern);
std::vector<std::string> local_grants(const std::vector<std::string>& patterns);

}  // namespace speed::wire
