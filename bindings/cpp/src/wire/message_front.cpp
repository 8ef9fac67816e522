#include "wire/message_front.hpp"

#include <algorithm>
#include <array>

#include "speed/error.hpp"
#include "wire/records.hpp"

namespace speed::wire {

namespace {

// As writers write them: M-2 asks for these very bytes, not for the numbers that they stand for.
constexpr std::array payload_tag{std::byte{0x9a}, std::byte{0x06}};
constexpr std::array url_tag{std::byte{0x0a}};
constexpr std::array value_tag{std::byte{0x12}};

[[noreturn]] void refuse() { throw WireError("BAD_MESSAGE", "payload: is not the last record, or begins too late"); }

// Tags and lengths from the front of bytes that end before the message does.
class Cursor {
 public:
  Cursor(ByteView data, std::size_t at, std::size_t total) : data_(data), at_(at), total_(total) {}

  bool takes(ByteView tag) {
    const ByteView rest = data_.subspan(at_);
    if (rest.size() < tag.size() || !std::ranges::equal(rest.first(tag.size()), tag)) return false;
    at_ += tag.size();
    return true;
  }
  std::size_t number() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 35 && at_ < data_.size(); shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(data_[at_++]);
      number |= (byte & 0x7f) << shift;
      if (byte < 0x80) return number;
    }
    refuse();
  }
  void skip(std::size_t size) {
    if (size > data_.size() - at_) refuse();
    at_ += size;
  }
  void ends_behind(std::size_t size) const {  // so many bytes more, and no others
    if (size != total_ - at_) refuse();
  }
  std::size_t at() const { return at_; }

 private:
  ByteView data_;
  std::size_t at_;
  std::size_t total_;
};

// Where the payload record begins; all before it lies within `data`.
std::size_t end_of_others(ByteView data) {
  std::size_t at = 0;
  try {
    while (at < data.size()) {
      if (Cursor(data, at, data.size()).takes(payload_tag)) return at;
      at = read_record(data, at).end;
    }
  } catch (const WireError&) {
    refuse();
  }
  refuse();
}

}  // namespace

MessageFront read_front(ByteView data, std::size_t total) {
  const std::size_t others = end_of_others(data);
  Cursor cursor(data, others, total);
  if (!cursor.takes(payload_tag)) refuse();
  cursor.ends_behind(cursor.number());
  const std::size_t begin = cursor.at();
  if (cursor.takes(url_tag)) cursor.skip(cursor.number());
  const ByteView url = data.subspan(begin, cursor.at() - begin);
  if (!cursor.takes(value_tag)) refuse();
  cursor.ends_behind(cursor.number());
  Buffer head;
  head.append(data.first(others));
  head.append(payload_tag);
  put_varint(url.size() + 2, head);
  head.append(url);
  head.append(value_tag);
  put_varint(0, head);
  return {MessageView(Bytes(head.view().begin(), head.view().end())), cursor.at()};
}

}  // namespace speed::wire
