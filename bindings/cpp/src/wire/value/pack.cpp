#include <bit>
#include <msgpack.hpp>

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

struct Sink {
  Buffer& out;
  void write(const char* data, std::size_t size) { out.append(view({data, size})); }
};

using Packer = msgpack::packer<Sink>;

constexpr std::int8_t timestamp_type = -1;

// The path to a part, built only when something is refused.
struct Path {
  const Path* parent;
  std::string_view name;
  std::size_t index;

  std::string text() const {
    if (parent == nullptr) return std::string(name);
    if (name.data() == nullptr) return parent->text() + "[" + std::to_string(index) + "]";
    return parent->text() + "." + std::string(name);
  }
};

[[noreturn]] void refuse(const Path& path, const char* why) { throw UnserialisableError(path.text() + why); }

std::uint32_t count(std::size_t size, const Path& path) {
  if (size > UINT32_MAX) refuse(path, " is too large");
  return static_cast<std::uint32_t>(size);
}

class Writer {
 public:
  explicit Writer(Buffer& out) : sink_{out}, packer_(sink_) {}

  void write(const Value& value, const Path& path, std::size_t depth) {
    std::visit([&](const auto& content) { put(content, path, depth); }, value.storage());
  }

  void write(const Map& map, const Path& path) { put(map, path, 0); }

 private:
  void put(std::monostate, const Path&, std::size_t) { packer_.pack_nil(); }
  void put(bool value, const Path&, std::size_t) { value ? packer_.pack_true() : packer_.pack_false(); }
  void put(std::int64_t value, const Path&, std::size_t) { packer_.pack_int64(value); }
  void put(std::uint64_t value, const Path&, std::size_t) { packer_.pack_uint64(value); }
  // By hand: the packer would write a whole float as an integer.
  void put(double value, const Path&, std::size_t) {
    Block<9> data{std::byte{0xcb}};
    store(data.data() + 1, std::bit_cast<std::uint64_t>(value));
    sink_.out.append(data);
  }

  void put(const std::string& value, const Path& path, std::size_t) {
    if (!is_utf8(value)) refuse(path, " is text that is not UTF-8: use Bytes");
    packer_.pack_str(count(value.size(), path));
    packer_.pack_str_body(value.data(), static_cast<std::uint32_t>(value.size()));
  }

  void put(const LentBytes& value, const Path& path, std::size_t) { put_bytes(value.bytes, path); }
  void put(const Bytes& value, const Path& path, std::size_t) { put_bytes(value, path); }

  void put_bytes(ByteView value, const Path& path) {
    packer_.pack_bin(count(value.size(), path));
    packer_.pack_bin_body(text(value).data(), static_cast<std::uint32_t>(value.size()));
  }

  void put(const Array& items, const Path& path, std::size_t depth) {
    check_depth(path, depth);
    check_items(path, items.size());
    packer_.pack_array(count(items.size(), path));
    for (std::size_t at = 0; at < items.size(); ++at) write(items[at], {&path, {}, at}, depth + 1);
  }

  void put(const Map& map, const Path& path, std::size_t depth) {
    check_depth(path, depth);
    check_items(path, map.size());
    packer_.pack_map(count(map.size(), path));
    for (const Member& member : map) {
      const auto* name = member.key.get_if<std::string>();
      const bool is_number =
          member.key.get_if<std::int64_t>() != nullptr || member.key.get_if<std::uint64_t>() != nullptr;
      if (name == nullptr && !is_number) refuse(path, " has a key that is neither text nor an integer");
      const std::string shown = name != nullptr ? *name : "<integer>";
      write(member.key, {&path, "<key>", 0}, depth + 1);
      write(member.value, {&path, shown, 0}, depth + 1);
    }
  }

  // The shortest of msgpack's timestamps: 32, 64 or 96 bits.
  void put(Instant instant, const Path& path, std::size_t) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(instant);
    const auto whole = seconds.time_since_epoch().count();
    if (whole < first_second || whole > last_second) refuse(path, " is an instant beyond the years 1 to 9999");
    const auto fraction = static_cast<std::uint32_t>(std::chrono::nanoseconds(instant - seconds).count());
    Block<12> data;
    std::size_t size = 12;
    if (whole < 0 || whole >> 34 != 0) {
      store(data.data(), fraction);
      store(data.data() + 4, static_cast<std::uint64_t>(whole));
    } else if (fraction == 0 && whole <= UINT32_MAX) {
      size = 4;
      store(data.data(), static_cast<std::uint32_t>(whole));
    } else {
      size = 8;
      store(data.data(), std::uint64_t{fraction} << 34 | static_cast<std::uint64_t>(whole));
    }
    packer_.pack_ext(size, timestamp_type);
    packer_.pack_ext_body(text(ByteView(data)).data(), static_cast<std::uint32_t>(size));
  }

  void put(const Column& column, const Path& path, std::size_t) {
    packer_.pack_ext(count(column.body().size(), path), limits::column_extension);
    packer_.pack_ext_body(text(column.body()).data(), static_cast<std::uint32_t>(column.body().size()));
  }

  static void check_depth(const Path& path, std::size_t depth) {
    static_assert(limits::max_value_depth == max_value_depth);
    if (depth >= limits::max_value_depth) refuse(path, " is nested deeper than 32");
  }

  void check_items(const Path& path, std::size_t more) {
    items_ += more;
    if (items_ > limits::max_value_items) {
      refuse(path, " has too many items: at most 8388608 travel in one value; a column takes more");
    }
  }

  Sink sink_;
  Packer packer_;
  std::size_t items_ = 0;  // of all containers so far
};

}  // namespace

void pack(const Value& value, Buffer& out, std::string_view what) { Writer(out).write(value, {nullptr, what, 0}, 0); }

void pack(const Map& map, Buffer& out, std::string_view what) { Writer(out).write(map, {nullptr, what, 0}); }

Bytes pack(const Value& value, std::string_view what) {
  Buffer out;
  pack(value, out, what);
  return {out.view().begin(), out.view().end()};
}

std::optional<ByteView> bytes_in(const Value& value) {
  if (const auto* const own = value.get_if<Bytes>()) return *own;
  if (const auto* const lent = value.get_if<LentBytes>()) return lent->bytes;
  return std::nullopt;
}

void pack_map_header(std::uint32_t members, Buffer& out) {
  Sink sink{out};
  Packer(sink).pack_map(members);
}

void pack_array_header(std::uint32_t items, Buffer& out) {
  Sink sink{out};
  Packer(sink).pack_array(items);
}

void pack_text(std::string_view text, Buffer& out) {
  Sink sink{out};
  Packer packer(sink);
  packer.pack_str(static_cast<std::uint32_t>(text.size()));
  packer.pack_str_body(text.data(), static_cast<std::uint32_t>(text.size()));
}

void pack_integer(std::uint64_t number, Buffer& out) {
  Sink sink{out};
  Packer(sink).pack_uint64(number);
}

}  // namespace speed::wire
