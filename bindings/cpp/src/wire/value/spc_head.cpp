// The head of a request: read key by key, so that nothing is decoded for who has no grant.
#include <algorithm>
#include <array>
#include <vector>

#include "speed/error.hpp"
#include "wire/names/names.hpp"
#include "wire/value/spc.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t front_bytes = 256;  // a first key and an id of the longest kind lie within

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_PAYLOAD", why); }

bool is_plain(const Value& value) {
  if (const auto* const items = value.get_if<Array>()) return std::ranges::all_of(*items, is_plain);
  if (const auto* const map = value.get_if<Map>()) {
    return std::ranges::all_of(map->begin(), map->end(), [](const Member& member) { return is_plain(member.value); });
  }
  return value.get_if<Instant>() == nullptr && value.get_if<Column>() == nullptr;
}

// A walk over a msgpack map whose values are read one by one.
class Walk {
 public:
  explicit Walk(ByteView data) : data_(data) {}

  std::size_t at() const { return at_; }

  // How many pairs follow; null if there is no map.
  std::optional<std::size_t> map_header() {
    const unsigned first = byte(0);
    if (first >= 0x80 && first <= 0x8f) return passed(1, first & 0x0f);
    if (first == 0xde && has(3)) return passed(3, load<std::uint16_t>(data_.data() + at_ + 1));
    if (first == 0xdf && has(5)) return passed(5, load<std::uint32_t>(data_.data() + at_ + 1));
    return std::nullopt;
  }

  // The text that stands here, null if it is no text, or not whole.
  std::optional<std::string_view> text_here() {
    const unsigned first = byte(0);
    if (first >= 0xa0 && first <= 0xbf) return text_of(1, first & 0x1f);
    if (first == 0xd9 && has(2)) return text_of(2, byte(1));
    if (first == 0xda && has(3)) return text_of(3, load<std::uint16_t>(data_.data() + at_ + 1));
    return std::nullopt;
  }

  Value value_here() {
    Value value = unpack_next(data_, at_, "request", 1);
    if (!is_plain(value)) refuse("the head of a request holds an extension");
    return value;
  }

 private:
  bool has(std::size_t size) const { return data_.size() - at_ >= size; }
  unsigned byte(std::size_t ahead) const {
    return at_ + ahead < data_.size() ? std::to_integer<unsigned>(data_[at_ + ahead]) : 0xc1;  // which is never used
  }
  std::size_t passed(std::size_t bytes, std::size_t result) {
    at_ += bytes;
    return result;
  }
  std::optional<std::string_view> text_of(std::size_t head, std::size_t size) {
    if (!has(head + size)) return std::nullopt;
    const std::string_view found = text(data_.subspan(at_ + head, size));
    if (!is_utf8(found)) return std::nullopt;
    at_ += head + size;
    return found;
  }

  ByteView data_;
  std::size_t at_ = 0;
};

constexpr std::array<std::string_view, 10> known_keys{"requestId",  "service",     "caller",   "bootId",
                                                      "generation", "traceparent", "deadline", "bootDeadline",
                                                      "repeated",   "stream"};

// The keys that a head may have.
struct Fields {
  std::optional<std::string> request_id;
  std::optional<std::string> service;
  std::optional<std::string> caller;
  std::optional<std::string> boot_id;
  std::optional<std::string> traceparent;
  std::optional<std::int64_t> deadline;
  std::optional<std::int64_t> boot_deadline;
  std::optional<std::int64_t> generation;
  std::optional<StreamOffer> stream;
  bool repeated = false;

  std::optional<std::string>* text_field(std::string_view key) {
    if (key == "requestId") return &request_id;
    if (key == "service") return &service;
    if (key == "caller") return &caller;
    if (key == "bootId") return &boot_id;
    return key == "traceparent" ? &traceparent : nullptr;
  }
  std::optional<std::int64_t>* number_field(std::string_view key) {
    if (key == "deadline") return &deadline;
    if (key == "generation") return &generation;
    return key == "bootDeadline" ? &boot_deadline : nullptr;
  }
};

void take(Fields& fields, std::string_view key, Walk& walk) {
  if (auto* const place = fields.text_field(key)) {
    if (const auto found = walk.text_here()) {
      *place = std::string(*found);
    } else if (!walk.value_here().is_nil()) {
      refuse("requestId, service, caller, bootId or traceparent is no text");
    }
    return;
  }
  const Value value = walk.value_here();
  if (key == "stream") fields.stream = stream_offer(value);
  if (key == "repeated" && !value.is_nil()) {
    const auto* const repeated = value.get_if<bool>();
    if (repeated == nullptr) refuse("repeated is neither true nor false");
    fields.repeated = *repeated;
  }
  auto* const place = fields.number_field(key);
  if (place == nullptr || value.is_nil()) return;
  const auto* const number = value.get_if<std::int64_t>();
  if (number == nullptr || *number < 0) refuse("deadline or bootDeadline is no time in ms, or generation is none");
  *place = *number;
}

// The spelling under which a key that is no text is compared with others.
std::string spelling(const Value& key) {
  if (const auto* const number = key.get_if<std::int64_t>()) return "\xff" + std::to_string(*number);
  if (const auto* const number = key.get_if<std::uint64_t>()) return "\xff" + std::to_string(*number);
  refuse("a request has a key that is neither text nor an integer");
}

// The keys that were read; none may stand twice.
class Keys {
 public:
  bool takes_known(std::string_view key) {
    const auto found = std::ranges::find(known_keys, key);
    if (found == known_keys.end()) return false;
    const unsigned bit = 1U << (found - known_keys.begin());
    is_twice_ |= (seen_ & bit) != 0;
    seen_ |= bit;
    return true;
  }
  void take(std::string key) { others_.push_back(std::move(key)); }

  void check_once() {
    std::ranges::sort(others_);
    if (is_twice_ || std::ranges::adjacent_find(others_) != others_.end()) refuse("a key of a request stands twice");
  }

 private:
  unsigned seen_ = 0;
  bool is_twice_ = false;
  std::vector<std::string> others_;
};

// Reads up to where the arguments begin.
Fields read_fields(Walk& walk) {
  const auto count = walk.map_header();
  if (!count) refuse("request is no map");
  Fields fields;
  Keys keys;
  for (std::size_t left = *count; left > 0; --left) {
    const auto key = walk.text_here();
    if (key == "arguments") {
      if (left > 1) refuse("something stands behind the arguments of a request");
      keys.check_once();
      return fields;
    }
    if (!key || !keys.takes_known(*key)) keys.take(key ? std::string(*key) : spelling(walk.value_here()));
    take(fields, key.value_or(""), walk);
  }
  refuse("a request has no arguments");
}

}  // namespace

std::uint64_t checked_credit(const Value& value) {
  const auto* const number = value.get_if<std::int64_t>();
  if (number == nullptr || *number < 0 || static_cast<std::uint64_t>(*number) > max_credit) {
    refuse("a credit is no integer from 0 to 2^53");
  }
  return static_cast<std::uint64_t>(*number);
}

std::optional<StreamOffer> stream_offer(const Value& value) {
  if (value.is_nil()) return std::nullopt;
  const auto* const members = value.get_if<Map>();
  if (members == nullptr) refuse("stream is no map");
  StreamOffer offer;
  const auto credit = [&](const char* key) {
    const Value* const found = members->find(key);
    return found == nullptr || found->is_nil() ? 0 : checked_credit(*found);
  };
  const auto flag = [&](const char* key) {
    const Value* const found = members->find(key);
    if (found == nullptr || found->is_nil()) return false;
    const auto* const is_set = found->get_if<bool>();
    if (is_set == nullptr) refuse("sends or progress of stream is neither true nor false");
    return *is_set;
  };
  offer.items = credit("items");
  offer.bytes = credit("bytes");
  offer.sends = flag("sends");
  offer.progress = flag("progress");
  return offer;
}

Map as_map(const StreamOffer& offer) {
  Map map;
  if (offer.items > 0) map.set("items", offer.items);
  if (offer.bytes > 0) map.set("bytes", offer.bytes);
  if (offer.sends) map.set("sends", true);
  if (offer.progress) map.set("progress", true);
  return map;
}

bool is_request_id(std::string_view id) { return !id.empty() && id.size() <= limits::max_request_id_bytes; }

RequestHead decode_head(ByteView payload) {
  Walk walk(payload.first(std::min(payload.size(), limits::max_head_bytes)));
  Fields fields = read_fields(walk);
  if (!fields.request_id || !is_request_id(*fields.request_id)) refuse("requestId is no text of 1 to 64 bytes");
  if (!fields.service || !fields.caller || !is_service_name(*fields.service) || !is_node_name(*fields.caller)) {
    refuse("service or caller is no name");
  }
  if (!fields.deadline) refuse("deadline is no time in ms");
  if (!fields.generation || *fields.generation < 1 || *fields.generation > max_generation) refuse("generation is none");
  RequestHead head{.request_id = std::move(*fields.request_id),
                   .service = std::move(*fields.service),
                   .caller = std::move(*fields.caller),
                   .generation = static_cast<std::uint32_t>(*fields.generation),
                   .deadline = {.unix_ms = *fields.deadline},
                   .traceparent = std::move(fields.traceparent),
                   .repeated = fields.repeated,
                   .stream = fields.stream,
                   .arguments_at = walk.at()};
  if (fields.boot_id && fields.boot_deadline) {
    head.deadline.boot_id = std::move(*fields.boot_id);
    head.deadline.boot_ms = *fields.boot_deadline;
  }
  return head;
}

std::optional<std::string> id_at_front(ByteView payload) {
  Walk walk(payload.first(std::min(payload.size(), front_bytes)));
  const auto count = walk.map_header();
  if (!count || *count == 0 || walk.text_here() != "requestId") return std::nullopt;
  const auto id = walk.text_here();
  if (!id || !is_request_id(*id)) return std::nullopt;
  return std::string(*id);
}

}  // namespace speed::wire
