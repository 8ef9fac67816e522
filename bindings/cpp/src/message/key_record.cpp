// A key written as one JSON object (M-26).
#include <algorithm>
#include <array>
#include <set>

#include "message/key.hpp"
#include "speed/message_error.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/value/json.hpp"

namespace speed {

namespace {

using message::Secret;
using wire::Json;

constexpr std::size_t max_depth = 2;  // of one record
constexpr std::size_t max_set_keys = 64;
constexpr std::array<std::string_view, 9> fields{"id",     "algorithm",  "secret",        "public",      "namespaces",
                                                 "topics", "publishers", "not_before_ms", "not_after_ms"};

[[noreturn]] void refuse(const std::string& id, std::string_view field, const char* why) {
  throw KeyRefusedError("key '" + id + "': " + std::string(field) + " is " + why);
}

std::string text_of(const Json& record, const char* field) {
  const auto found = record.find(field);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Secret> from_base64(const std::string& text) {
  Secret bytes(text.size() / 4 * 3 + 3);
  std::size_t size = 0;
  const int failed = sodium_base642bin(wire::raw(bytes.span()), bytes.size(), text.data(), text.size(), nullptr, &size,
                                       nullptr, sodium_base64_VARIANT_ORIGINAL);
  if (failed != 0) return std::nullopt;
  return Secret(bytes.view().first(size));
}

Secret bytes_of(const std::string& id, const Json& record, const char* field) {
  const auto found = record.find(field);
  if (found == record.end()) return {};
  std::optional<Secret> bytes;
  if (found->is_string()) bytes = from_base64(found->get_ref<const std::string&>());
  if (!bytes || bytes->size() == 0) refuse(id, field, "not Base64");
  return std::move(*bytes);
}

void read_texts(const std::string& id, const Json& record, const char* field, std::vector<std::string>& to) {
  const auto found = record.find(field);
  if (found == record.end()) return;
  const bool is_list =
      found->is_array() && std::ranges::all_of(*found, [](const Json& one) { return one.is_string(); });
  if (!is_list) refuse(id, field, "not a list of texts");
  found->get_to(to);
}

std::optional<std::int64_t> time_of(const std::string& id, const Json& record, const char* field) {
  const auto found = record.find(field);
  if (found == record.end()) return std::nullopt;
  if (!found->is_number_integer()) refuse(id, field, "not a number of milliseconds");
  return found->get<std::int64_t>();
}

KeyBounds bounds_of(const std::string& id, const Json& record) {
  KeyBounds bounds;
  read_texts(id, record, "namespaces", bounds.namespaces);
  read_texts(id, record, "topics", bounds.topics);
  read_texts(id, record, "publishers", bounds.publishers);
  bounds.not_before_ms = time_of(id, record, "not_before_ms").value_or(0);
  bounds.not_after_ms = time_of(id, record, "not_after_ms");
  return bounds;
}

MessageKey key_of(const Json& record) {
  for (const auto& [field, value] : record.items()) {
    if (std::ranges::find(fields, field) == fields.end()) throw KeyRefusedError("a key has no field '" + field + "'");
  }
  const std::string id = text_of(record, "id");
  if (!message::is_key_id(id)) return message::make_key({id});  // refuses
  const Secret known = bytes_of(id, record, "public");
  return message::make_key({id, &message::algorithm_of(text_of(record, "algorithm")), bytes_of(id, record, "secret"),
                            Bytes(known.view().begin(), known.view().end()), bounds_of(id, record)});
}

bool has_twins(const std::vector<MessageKey>& keys) {
  std::set<std::string_view> ids;
  return !std::ranges::all_of(keys, [&](const MessageKey& key) { return ids.insert(key.id()).second; });
}

}  // namespace

std::vector<MessageKey> message::parse_key_set(std::string_view json) {
  const std::optional<Json> found = wire::parse_json(json, max_depth + 1);
  if (!found) throw KeyRefusedError("is not JSON");
  const Json records = found->is_array() ? *found : Json::array({*found});
  const bool is_set = !records.empty() && records.size() <= max_set_keys &&
                      std::ranges::all_of(records, [](const Json& one) { return one.is_object(); });
  if (!is_set) throw KeyRefusedError("is no record nor a list of 1 to " + std::to_string(max_set_keys));
  std::vector<MessageKey> keys;
  for (const Json& record : records) keys.push_back(key_of(record));
  if (has_twins(keys)) throw KeyRefusedError("a key id stands there twice");
  return keys;
}

MessageKey MessageKey::parse(std::string_view json) {
  const std::optional<Json> record = wire::parse_json(json, max_depth);
  if (!record || !record->is_object()) throw KeyRefusedError("a key is one JSON object: `id`, `algorithm`, its bytes");
  return key_of(*record);
}

std::string MessageKey::to_json() const {
  const State& key = *state_;
  const KeyBounds usual;
  const KeyBounds& own = bounds();
  Json record{{"id", key.id}, {"algorithm", key.algorithm->name}};
  if (key.has_secret()) {
    record["secret"] = wire::to_base64(key.secret.view());
  } else {
    record["public"] = wire::to_base64(key.public_bytes);
  }
  if (own.namespaces != usual.namespaces) record["namespaces"] = own.namespaces;
  if (own.topics != usual.topics) record["topics"] = own.topics;
  if (!own.publishers.empty()) record["publishers"] = own.publishers;
  if (own.not_before_ms != 0) record["not_before_ms"] = own.not_before_ms;
  if (own.not_after_ms) record["not_after_ms"] = *own.not_after_ms;
  return record.dump();
}

}  // namespace speed
