#include "wire/value/stream.hpp"

#include <algorithm>
#include <cmath>

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/value/spc.hpp"

namespace speed::wire {

namespace {

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_PAYLOAD", why); }

// What follows in the front of an envelope, value by value.
class Front {
 public:
  explicit Front(ByteView payload) : data_(payload.first(std::min(payload.size(), limits::max_head_bytes))) {}

  std::size_t at() const { return at_; }

  std::uint64_t map_header() { return header(0x80, 0xde, "a stream envelope is no map"); }
  std::uint64_t array_header() { return header(0x90, 0xdc, "items are no array"); }

  std::string text() {
    const Value value = next();
    const auto* const found = value.get_if<std::string>();
    if (found == nullptr) refuse("a key of a stream envelope is no text");
    return *found;
  }
  Value next() { return unpack_next(data_, at_, "a stream envelope", 1); }

 private:
  unsigned byte(std::size_t ahead) const {
    if (at_ + ahead >= data_.size()) refuse("a stream envelope ends early");
    return std::to_integer<unsigned>(data_[at_ + ahead]);
  }
  // Of up to 15 in one byte, else in two or four behind `wide` and the next one.
  std::uint64_t header(unsigned narrow, unsigned wide, const char* why) {
    const unsigned first = byte(0);
    if ((first & 0xf0U) == narrow) return passed(1, first & 0x0fU);
    if (first != wide && first != wide + 1) refuse(why);
    const std::size_t size = first == wide ? 2 : 4;
    std::uint64_t count = 0;
    for (std::size_t digit = 1; digit <= size; ++digit) count = count << 8U | byte(digit);
    return passed(1 + size, count);
  }
  std::uint64_t passed(std::size_t bytes, std::uint64_t count) {
    at_ += bytes;
    return count;
  }

  ByteView data_;
  std::size_t at_ = 0;
};

// `whole`: it came as an integer.
double checked_amount(const Value& value, bool& whole) {
  if (const auto* const number = value.get_if<std::int64_t>()) {
    whole = true;
    if (*number < 0) refuse("an amount is below 0");
    return static_cast<double>(*number);
  }
  const auto* const number = value.get_if<double>();
  constexpr double most = 9223372036854775808.0;
  if (number == nullptr || !(*number >= 0) || !(*number < most)) refuse("an amount is no number from 0");
  return *number;
}

void read_items(Front& front, std::uint64_t count, StreamPart& part) {
  part.number = checked_credit(front.next());
  std::string key = front.text();
  part.last = key == "last";
  if (part.last) {
    if (front.next() != Value(true)) refuse("last of a stream envelope is not true");
    key = front.text();
  }
  if (key != "items" || count != (part.last ? 4U : 3U)) refuse("items are not what ends a stream envelope");
  part.items = front.array_header();
  part.items_at = front.at();
}

StreamProgress read_progress(const Map& members) {
  StreamProgress progress;
  const Value* const total = members.find("total");
  const Value* const note = members.find("note");
  progress.done = checked_amount(*members.find("done"), progress.whole_done);
  if (total != nullptr && !total->is_nil()) progress.total = checked_amount(*total, progress.whole_total);
  const auto* const text = note == nullptr ? nullptr : note->get_if<std::string>();
  if (text == nullptr || readable_characters(*text, limits::max_summary_characters) != *text) {
    refuse("the note of a progress is no short text");
  }
  progress.note = *text;
  return progress;
}

Value amount(double number, bool whole) { return whole ? Value(static_cast<std::int64_t>(number)) : Value(number); }

}  // namespace

StreamPart decode_stream(ByteView payload) {
  Front front(payload);
  const std::uint64_t count = front.map_header();
  if (count < 2 || front.text() != "requestId") refuse("a stream envelope does not begin with a requestId");
  StreamPart part{.request_id = front.text()};
  if (!is_request_id(part.request_id)) refuse("requestId is no text of 1 to 64 bytes");
  std::string key = front.text();
  if (key == "number") {
    read_items(front, count, part);
    return part;
  }
  const std::string kind = key;
  Map members;
  members.set(key, front.next());
  for (std::uint64_t left = count - 2; left > 0; --left) {
    key = front.text();
    members.set(key, front.next());
  }
  if (front.at() != payload.size()) refuse("something stands behind a stream envelope");
  if (kind == "creditItems") {
    const Value* const bytes = members.find("creditBytes");
    part.credit_items = checked_credit(*members.find(kind));
    part.credit_bytes = checked_credit(bytes == nullptr ? Value() : *bytes);
    return part;
  }
  if (kind != "done") refuse("a stream envelope holds neither items, nor credit, nor progress");
  part.progress = read_progress(members);
  return part;
}

Array decode_items(ByteView payload, const StreamPart& part) {
  Map members = unpack_map(payload, "a stream envelope");
  const Value* const found = members.find("items");
  const auto* const items = found == nullptr ? nullptr : found->get_if<Array>();
  if (items == nullptr || items->size() != part.items) refuse("an envelope has other items than it says");
  return std::move(const_cast<Array&>(*items));  // `members` is ours
}

void encode_items_front(const std::string& request_id, std::uint64_t number, std::uint32_t items, bool last,
                        Buffer& out) {
  pack_map_header(last ? 4 : 3, out);
  pack_text("requestId", out);
  pack_text(request_id, out);
  pack_text("number", out);
  pack_integer(number, out);
  if (last) {
    pack_text("last", out);
    pack(Value(true), out, "last");
  }
  pack_text("items", out);
  pack_array_header(items, out);
}

Bytes encode_credit(const std::string& request_id, std::uint64_t items, std::uint64_t bytes) {
  return pack(Map{{"requestId", request_id}, {"creditItems", items}, {"creditBytes", bytes}});
}

Bytes encode_progress(const std::string& request_id, const StreamProgress& progress) {
  const Value total = progress.total ? amount(*progress.total, progress.whole_total) : Value();
  return pack(Map{{"requestId", request_id},
                  {"done", amount(progress.done, progress.whole_done)},
                  {"total", total},
                  {"note", readable_characters(progress.note, limits::max_summary_characters)}});
}

}  // namespace speed::wire
