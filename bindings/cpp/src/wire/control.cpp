#include "wire/control.hpp"

#include "speed/error.hpp"
#include "wire/spc.hpp"

namespace speed::wire {

namespace {

bool is_sequence(const Value& value) {
  const auto* const number = value.get_if<std::int64_t>();
  return value.get_if<std::uint64_t>() != nullptr || (number != nullptr && *number >= 0);
}

}  // namespace

Map decode_control(ByteView payload) {
  Map members = unpack_map(payload, "control payload");
  const Value* const id = members.find("requestId");
  if (id != nullptr && !id->is_nil()) request_id_in(members);
  const Value* const sequence = members.find("sequence");
  if (sequence != nullptr && !sequence->is_nil() && !is_sequence(*sequence)) {
    throw WireError("BAD_PAYLOAD", "sequence is no 64-bit integer");
  }
  return members;
}

Bytes encode_ack(std::uint64_t sequence) { return pack(Map{{"sequence", sequence}}); }

std::uint64_t decode_ack(ByteView payload) {
  const Map members = decode_control(payload);
  const Value* const sequence = members.find("sequence");
  if (sequence == nullptr || sequence->is_nil()) throw WireError("BAD_PAYLOAD", "an ACK names no sequence");
  return sequence->as<std::uint64_t>();
}

Bytes encode_refusal(std::string_view code, std::string_view message, std::uint64_t sequence) {
  return pack(Map{{"errorCode", code}, {"errorMessage", readable(message)}, {"sequence", sequence}});
}

std::string text_of(const Map& members, std::string_view key) {
  const Value* const value = members.find(key);
  const auto* const text = value == nullptr ? nullptr : value->get_if<std::string>();
  return text == nullptr ? std::string() : *text;
}

}  // namespace speed::wire
