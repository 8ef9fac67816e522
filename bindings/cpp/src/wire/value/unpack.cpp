#include <msgpack.hpp>

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t reserved = 16;  // members
constexpr std::size_t lent_bytes = 32 << 10;
constexpr std::uint64_t nanoseconds = 1'000'000'000;

// Builds a Value while msgpack walks the bytes; memory grows only with the bytes at hand (W-16).
class Builder : public msgpack::null_visitor {
 public:
  Builder(std::size_t bytes, std::size_t depth, const Owner& owner) : bytes_(bytes), depth_(depth), owner_(owner) {}

  bool visit_nil() { return put({}); }
  bool visit_boolean(bool value) { return put(value); }
  bool visit_positive_integer(std::uint64_t value) { return put(value); }
  bool visit_negative_integer(std::int64_t value) { return put(value); }
  bool visit_float32(float value) { return put(value); }
  bool visit_float64(double value) { return put(value); }
  bool visit_bin(const char* data, std::uint32_t size) {
    const ByteView content = view({data, size});
    if (owner_ != nullptr && content.size() >= lent_bytes) return put(LentBytes{content, owner_});
    return put(Bytes(content.begin(), content.end()));
  }
  bool visit_str(const char* data, std::uint32_t size) {
    const std::string_view content(data, size);
    return is_utf8(content) ? put(content) : refuse("has text that is not UTF-8");
  }
  bool visit_ext(const char* data, std::uint32_t size);  // the type byte, then `size` - 1 bytes
  bool visit_column(ByteView body);

  bool start_array(std::uint32_t items) { return open(false, items); }
  bool end_array() { return close(); }
  bool start_map(std::uint32_t members) { return open(true, members); }
  bool end_map() { return close(); }

  void parse_error(std::size_t, std::size_t) { refuse("is no msgpack"); }
  void insufficient_bytes(std::size_t, std::size_t) { refuse("is cut short"); }

  const char* problem = nullptr;
  Value result;

 private:
  struct Level {
    bool is_map;
    Array items;
    std::vector<Member> members;
    bool key_is_next = true;
  };

  bool refuse(const char* why) {
    if (problem == nullptr) problem = why;
    return false;
  }

  bool open(bool is_map, std::uint32_t size);
  bool close();
  bool put(Value value);

  std::size_t bytes_;
  std::size_t depth_;      // of containers that the value lies in
  std::size_t items_ = 0;  // of all containers so far
  const Owner& owner_;     // of the bytes; null: what is built holds copies
  std::vector<Level> levels_;
};

bool Builder::open(bool is_map, std::uint32_t size) {
  if (levels_.size() + depth_ >= limits::max_value_depth) return refuse("is nested too deeply");
  if (size > bytes_) return refuse("is cut short");
  items_ += size;
  if (items_ > limits::max_value_items) return refuse("has too many items");
  if (!levels_.empty() && levels_.back().is_map && levels_.back().key_is_next) {
    return refuse("has a key that is neither text nor an integer");
  }
  Level& level = levels_.emplace_back(Level{is_map, {}, {}, true});
  // What the bytes claim is not believed beyond a little: each member costs more here than there.
  const std::size_t expected = std::min<std::size_t>(size, reserved);
  is_map ? level.members.reserve(expected) : level.items.reserve(expected);
  return true;
}

bool Builder::close() {
  Level level = std::move(levels_.back());
  levels_.pop_back();
  return level.is_map ? put(Map::from_pairs(std::move(level.members))) : put(std::move(level.items));
}

bool Builder::put(Value value) {
  if (levels_.empty()) {
    result = std::move(value);
    return true;
  }
  Level& level = levels_.back();
  if (!level.is_map) {
    level.items.push_back(std::move(value));
    return true;
  }
  if (level.key_is_next) {
    const bool is_key = value.get_if<std::string>() != nullptr || value.get_if<std::int64_t>() != nullptr ||
                        value.get_if<std::uint64_t>() != nullptr;
    if (!is_key) return refuse("has a key that is neither text nor an integer");
    level.members.push_back({std::move(value), {}});
  } else {
    level.members.back().value = std::move(value);
  }
  level.key_is_next = !level.key_is_next;
  return true;
}

bool Builder::visit_ext(const char* data, std::uint32_t size) {
  if (size >= 1 && data[0] == limits::column_extension) return visit_column(view({data + 1, size - 1}));
  if (size < 1 || data[0] != -1) return refuse("has an extension outside the table");
  const std::byte* const at = view({data, size}).data() + 1;
  std::int64_t seconds = 0;
  std::uint64_t fraction = 0;
  if (size == 5) {
    seconds = load<std::uint32_t>(at);
  } else if (size == 9) {
    const auto both = load<std::uint64_t>(at);
    fraction = both >> 34;
    seconds = static_cast<std::int64_t>(both & 0x3ffffffff);
  } else if (size == 13) {
    fraction = load<std::uint32_t>(at);
    seconds = static_cast<std::int64_t>(load<std::uint64_t>(at + 4));
  } else {
    return refuse("has a timestamp of another length");
  }
  if (fraction >= nanoseconds || seconds < first_second || seconds > last_second) {
    return refuse("has a timestamp out of range");
  }
  return put(Instant(std::chrono::seconds(seconds)) + std::chrono::microseconds(fraction / 1000));
}

bool Builder::visit_column(ByteView body) {
  try {
    return put(Column::parse(body));
  } catch (const WireError&) {
    return refuse("has a column that breaks a rule");
  }
}

}  // namespace

Value unpack_next(ByteView data, std::size_t& at, std::string_view what, std::size_t depth, const Owner& owner) {
  Builder builder(data.size() - at, depth, owner);
  const bool whole = msgpack::parse(text(data).data(), data.size(), at, builder);
  if (!whole && builder.problem == nullptr) builder.problem = "is no msgpack";
  if (builder.problem != nullptr) throw WireError("BAD_PAYLOAD", std::string(what) + " " + builder.problem);
  return std::move(builder.result);
}

Value unpack(ByteView data, std::string_view what, std::size_t depth, const Owner& owner) {
  std::size_t at = 0;
  Value value = unpack_next(data, at, what, depth, owner);
  if (at != data.size()) throw WireError("BAD_PAYLOAD", std::string(what) + " has bytes after its value");
  return value;
}

Map unpack_map(ByteView data, std::string_view what, const Owner& owner) {
  Value value = unpack(data, what, 0, owner);
  auto* const map = std::get_if<Map>(&value.storage());
  if (map == nullptr) throw WireError("BAD_PAYLOAD", std::string(what) + " is no map");
  return std::move(*map);
}

}  // namespace speed::wire
