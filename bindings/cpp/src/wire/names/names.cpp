#include "wire/names/names.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "speed/error.hpp"
#include "wire/names/harmless.hpp"

namespace speed::wire {

namespace {

constexpr std::array<std::string_view, 8> reserved_names{"speed_registry", "speed.key", "speed.key.new", "journal",
                                                         "topics",         "bell",      "inbox",         "quarantine"};
constexpr char rule[] = "use letters, digits, '_', '-' and single dots between them";

bool is_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// Parts of letters, joined by single dots.
bool is_dotted(std::string_view text, std::size_t limit) {
  if (text.empty() || text.size() > limit || text.front() == '.' || text.back() == '.') return false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '.' ? text[at + 1] == '.' : !is_letter(text[at])) return false;
  }
  return true;
}

// Shows a name in a message without letting it break the line.
std::string shown(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 64)) out += is_letter(c) || c == '.' || c == '*' ? c : '?';
  return "'" + out + "'";
}

void check(bool good, const char* what, std::string_view name) {
  if (!good) throw InvalidNameError(std::string(what) + " " + shown(name) + " is not allowed: " + rule);
}

template <class T>
std::optional<T> parse_number(std::string_view digits, std::size_t width, std::uint64_t most) {
  std::uint64_t number = 0;
  if (digits.size() < width || digits.size() > 18 || (digits.size() > width && digits.front() == '0')) return {};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number < 1 || number > most) return {};
  return static_cast<T>(number);
}

std::optional<std::uint32_t> parse_generation(std::string_view digits) {
  return parse_number<std::uint32_t>(digits, 6, max_generation);
}

std::string padded(std::uint64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string path;
  for (const std::string_view part : parts) path += part;
  return path;
}

}  // namespace

bool is_service_name(std::string_view name) { return is_dotted(name, limits::max_name_bytes) && name.front() != '-'; }

bool is_node_name(std::string_view name) {
  return is_service_name(name) && std::ranges::find(reserved_names, name) == reserved_names.end();
}

bool is_topic(std::string_view topic) { return is_dotted(topic, limits::max_topic_bytes); }

bool is_grant(std::string_view pattern) {
  return is_node_name(is_family(pattern) ? pattern.substr(0, pattern.size() - 2) : pattern);
}

bool is_fingerprint(std::string_view text) {
  return text.size() == 2 * limits::fingerprint_bytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool names_identity(std::string_view grant) {
  const std::size_t at = grant.rfind('@');
  return at != std::string_view::npos && is_fingerprint(grant.substr(at + 1));
}

std::string family_of(std::string_view name) {
  const std::size_t point = name.rfind('.');
  return point == std::string_view::npos ? std::string(name) : std::string(name.substr(0, point)) + ".*";
}

bool is_topic_pattern(std::string_view pattern) {
  return pattern == "*" || is_topic(is_family(pattern) ? pattern.substr(0, pattern.size() - 2) : pattern);
}

void check_node_name(std::string_view name) { check(is_node_name(name), "node name", name); }
void check_service_name(std::string_view name) { check(is_service_name(name), "service name", name); }
void check_topic(std::string_view topic) { check(is_topic(topic), "topic", topic); }
void check_topic_pattern(std::string_view pattern) { check(is_topic_pattern(pattern), "topic pattern", pattern); }

void check_grant(std::string_view pattern) {
  if (pattern == "*") {
    throw InvalidNameError("'*' would allow everyone: name each node, or a family such as 'etl.*'");
  }
  check(is_grant(pattern), "grant", pattern);
}

bool matches(std::string_view pattern, std::string_view name) {
  if (!is_family(pattern)) return pattern == name || pattern == "*";
  const std::string_view prefix = pattern.substr(0, pattern.size() - 1);
  return name.starts_with(prefix) && name.size() > prefix.size();
}

NodeId node_id(std::string_view name) {
  const Bytes name_space = *from_hex(limits::node_id_namespace_hex);
  Block<crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, raw(ByteView(name_space)), name_space.size());
  crypto_hash_sha256_update(&state, raw(view(name)), name.size());
  crypto_hash_sha256_final(&state, raw(std::span<std::byte>(digest)));
  NodeId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  id[6] = (id[6] & std::byte{0x0f}) | std::byte{0x80};
  id[8] = (id[8] & std::byte{0x3f}) | std::byte{0x80};
  return id;
}

std::string registry_dir(std::string_view root) { return joined({root, "/speed_registry"}); }
std::string claims_dir(std::string_view root) { return joined({root, "/speed_registry/.claims"}); }

std::string observers_path(std::string_view root) { return joined({root, "/speed_registry/.observers"}); }

std::string entry_path(std::string_view root, std::string_view name) {
  return joined({root, "/speed_registry/", name, ".node"});
}

std::string claim_path(std::string_view root, std::string_view name, std::uint32_t generation) {
  return joined({root, "/speed_registry/.claims/", name, ".", padded(generation, 6)});
}

std::string floor_lock_path(std::string_view root) { return joined({root, "/speed_registry/.claims/.floor.lock"}); }

std::string node_dir(std::string_view root, std::string_view name) { return joined({root, "/", name}); }
std::string bell_path(std::string_view root, std::string_view name) { return joined({root, "/", name, "/bell"}); }
std::string inbox_dir(std::string_view root, std::string_view name) { return joined({root, "/", name, "/inbox"}); }

std::string lane_dir(std::string_view root, std::string_view target, std::string_view source) {
  return joined({root, "/", target, "/inbox/", source});
}

std::string statement_path(std::string_view root, std::string_view name) {
  return joined({root, "/speed_registry/.identities/", name});
}

std::string known_path(std::string_view identity_file) { return joined({identity_file, ".known"}); }

std::string quarantine_dir(std::string_view root, std::string_view name) {
  return joined({root, "/", name, "/quarantine"});
}

std::string dead_letters_dir(std::string_view root, std::string_view name) {
  return joined({root, "/", name, "/dead"});
}

std::string segments_dir(std::string_view root, std::string_view name) {
  return joined({root, "/", name, "/segments"});
}

std::string default_key_path(std::string_view root) { return joined({root, "/speed.key"}); }

std::string temporary_key_path(std::string_view path) { return joined({path, ".new"}); }

std::string lock_path(std::string_view path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 without a slash
  return joined({path.substr(0, name), ".", path.substr(name), ".lock"});
}

std::string child_path(std::string_view directory, std::string_view filename) {
  return joined({directory, "/", filename});
}

std::string temporary_name(std::string_view token) { return joined({".tmp-", token}); }
std::string shards_name(const Block<16>& payload_id) { return to_hex(payload_id) + ".shards"; }

bool is_shards(std::string_view filename) {
  constexpr std::string_view ending = ".shards";
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return filename.size() == 32 + ending.size() && filename.ends_with(ending) &&
         std::ranges::all_of(filename.substr(0, 32), is_digit);
}

bool is_temporary(std::string_view filename) { return filename.starts_with(".tmp-"); }

std::string lane_file_name(LaneFileName file) {
  return padded(file.generation, 6) + "-" + padded(file.number, 8) + ".lane";
}

std::string deliveries_name(std::uint32_t generation) { return "deliveries." + padded(generation, 6); }

std::optional<std::uint32_t> parse_deliveries(std::string_view filename) {
  return filename.starts_with("deliveries.") ? parse_generation(filename.substr(11)) : std::nullopt;
}

namespace {
constexpr std::string_view letter_states[] = {".letter", ".retry", ".trying"};
constexpr std::uint64_t max_letter = 999'999'999'999'999'999;
}  // namespace

std::string letter_name(const LetterName& name) {
  return padded(name.number, 8) + std::string(letter_states[static_cast<std::size_t>(name.state)]);
}

std::optional<LetterName> parse_letter(std::string_view filename) {
  for (const LetterState state : {LetterState::letter, LetterState::retry, LetterState::trying}) {
    const std::string_view ending = letter_states[static_cast<std::size_t>(state)];
    if (!filename.ends_with(ending)) continue;
    const auto number = parse_number<std::uint64_t>(filename.substr(0, filename.size() - ending.size()), 8, max_letter);
    return number ? std::optional(LetterName{*number, state}) : std::nullopt;
  }
  return std::nullopt;
}

std::string cursor_name(std::uint32_t generation) { return "cursor." + padded(generation, 6); }

std::string start_name(std::uint32_t generation) { return "start." + padded(generation, 6); }
std::string fence_name(std::uint32_t generation) { return padded(generation, 6) + ".fence"; }
std::string slot_name(LaneFileName slot) { return padded(slot.generation, 6) + "-" + padded(slot.number, 2) + ".slot"; }

std::string opening_name(const OpeningName& opening) {
  return padded(opening.generation, 6) + "-" + to_hex(opening.key_id) + ".opening";
}

std::optional<std::string> parse_entry_file(std::string_view filename) {
  if (!filename.ends_with(".node")) return {};
  const std::string_view name = filename.substr(0, filename.size() - 5);
  return is_node_name(name) ? std::optional<std::string>(name) : std::nullopt;
}

std::optional<std::pair<std::string, std::uint32_t>> parse_claim(std::string_view filename) {
  const std::size_t dot = filename.rfind('.');
  if (dot == std::string_view::npos || !is_node_name(filename.substr(0, dot))) return {};
  const auto generation = parse_generation(filename.substr(dot + 1));
  if (!generation) return {};
  return std::pair(std::string(filename.substr(0, dot)), *generation);
}

namespace {

// <generation>-<number><ending>, the number of `width` digits at least.
std::optional<LaneFileName> parse_numbered(std::string_view filename, std::string_view ending, std::size_t width,
                                           std::uint32_t most) {
  const std::size_t dash = filename.find('-');
  if (dash == std::string_view::npos || !filename.ends_with(ending)) return {};
  filename.remove_suffix(ending.size());
  if (filename.size() < dash + 1) return {};
  const auto generation = parse_generation(filename.substr(0, dash));
  const auto number = parse_number<std::uint32_t>(filename.substr(dash + 1), width, most);
  if (!generation || !number) return {};
  return LaneFileName{*generation, *number};
}

}  // namespace

std::optional<LaneFileName> parse_lane_file(std::string_view filename) {
  return parse_numbered(filename, ".lane", 8, UINT32_MAX);
}

std::optional<LaneFileName> parse_slot(std::string_view filename) {
  return parse_numbered(filename, ".slot", 2, limits::max_slots);
}

std::optional<OpeningName> parse_opening(std::string_view filename) {
  constexpr std::string_view ending = ".opening";
  constexpr std::size_t key_digits = 2 * limits::key_id_bytes;
  const std::size_t dash = filename.find('-');
  if (dash == std::string_view::npos || !filename.ends_with(ending)) return {};
  if (filename.size() != dash + 1 + key_digits + ending.size()) return {};
  const auto generation = parse_generation(filename.substr(0, dash));
  const std::string_view digits = filename.substr(dash + 1, key_digits);
  const auto key_id = from_hex(digits);
  if (!generation || !key_id || to_hex(*key_id) != digits) return {};
  OpeningName name{*generation};
  copy_to(name.key_id.data(), *key_id);
  return name;
}

std::optional<std::uint32_t> parse_cursor(std::string_view filename) {
  return filename.starts_with("cursor.") ? parse_generation(filename.substr(7)) : std::nullopt;
}

std::optional<std::uint32_t> parse_start(std::string_view filename) {
  return filename.starts_with("start.") ? parse_generation(filename.substr(6)) : std::nullopt;
}

std::optional<std::uint32_t> parse_fence(std::string_view filename) {
  if (!filename.ends_with(".fence")) return {};
  return parse_generation(filename.substr(0, filename.size() - 6));
}

namespace {

constexpr std::size_t shown_characters = 80;

bool is_letter_or_digit(char one) {
  return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9');
}

void check_host_name(std::string_view name) {
  if (is_host_name(name)) return;
  throw InvalidNameError("'" + harmless(name, shown_characters) + "' is no name of a host: use 1 to " +
                         std::to_string(max_host_characters) + " letters, digits, - and _");
}

}  // namespace

bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() <= max_host_characters && is_letter_or_digit(name.front()) &&
         std::ranges::all_of(name, [](char one) { return is_letter_or_digit(one) || one == '-' || one == '_'; });
}

void check_remote(std::string_view target) {
  const std::size_t at = target.find('@');
  check_node_name(target.substr(0, at));
  check_host_name(at == std::string_view::npos ? std::string_view() : target.substr(at + 1));
}

std::string local_grant(const std::string& pattern) {
  const std::size_t at = pattern.find('@');
  if (at == std::string::npos || names_identity(pattern)) return pattern;
  const std::string node = pattern.substr(0, at);
  const std::string host = pattern.substr(at + 1);
  check_host_name(host);
  if (node != "*") check_grant(node);
  std::string local = "at." + host + "." + node;
  check_grant(local);
  return local;
}

std::vector<std::string> local_grants(const std::vector<std::string>& patterns) {
  std::vector<std::string> local;
  std::ranges::transform(patterns, std::back_inserter(local), local_grant);
  return local;
}

}  // namespace speed::wire
