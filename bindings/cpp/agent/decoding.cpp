#include "decoding.hpp"

#include <map>
#include <stdexcept>

#include "speed/error.hpp"
#include "speed/segment.hpp"
#include "vector_guard.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/envelope/seal.hpp"
#include "wire/message/message.hpp"
#include "wire/value/control.hpp"
#include "wire/value/spc.hpp"
#include "wire/value/topic_record.hpp"

namespace agent {

namespace wire = speed::wire;
using speed::ByteView;

namespace {

using Decoder = void (*)(ByteView);

// 32 bytes that count up.
wire::Key key_from(std::size_t first) {
  wire::Key key;
  for (std::size_t at = 0; at < key.size(); ++at) key[at] = static_cast<std::byte>(first + at);
  return key;
}

const wire::NodeId& source() {
  static const wire::NodeId id = wire::node_id("analytics");
  return id;
}

const wire::NodeId& target() {
  static const wire::NodeId id = wire::node_id("billing");
  return id;
}

const wire::Keyring& ring() {
  static const wire::Keyring keys({key_from(0), key_from(32)});
  return keys;
}

void require(wire::Refusal refusal) {
  if (refusal != wire::Refusal::ok) throw speed::WireError(wire::code_of(refusal), "refused");
}

void require(bool holds, wire::Refusal otherwise) {
  if (!holds) require(otherwise);
}

// As a receiver of the lane does: header, ids, length, tag (W-5, W-12).
void open_envelope(ByteView data) {
  wire::Header header;
  require(wire::read_headers(data, header));
  require(header.source == source(), wire::Refusal::wrong_source);
  require(header.target == target(), wire::Refusal::wrong_target);
  const std::size_t whole = header.payload_bytes + wire::envelope_overhead;
  require(whole <= data.size(), wire::Refusal::truncated);
  speed::Bytes sealed(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(whole));
  require(wire::LinkOpener(ring(), source(), target()).open(header, sealed));
}

void open_protected(ByteView data) {
  static const speed::message::Guard guard = speed::test::vector_guard();
  guard.open(wire::MessageView(speed::Bytes(data.begin(), data.end())), speed::test::vector_clock_ms);
}

const std::map<std::string, Decoder>& decoders() {
  static const std::map<std::string, Decoder> table{
      {"envelope", open_envelope},
      {"entry", [](ByteView data) { wire::decode_entry(wire::text(data), ring().registry_keys()); }},
      {"cursor", [](ByteView data) { wire::decode_cursor(data, ring().lane_keys(source(), target())); }},
      {"fence", [](ByteView data) { wire::decode_fence(data, ring().lane_keys(source(), target())); }},
      {"value", [](ByteView data) { wire::unpack(data); }},
      {"request", [](ByteView data) { wire::decode_arguments(data, wire::decode_head(data)); }},
      {"response", [](ByteView data) { wire::decode_response(data); }},
      {"control", [](ByteView data) { wire::decode_control(data); }},
      {"message", [](ByteView data) { wire::MessageView(speed::Bytes(data.begin(), data.end())); }},
      {"segment", [](ByteView data) { speed::segment::read_segment(data); }},
      {"keyfile", [](ByteView data) { wire::parse_key_file(wire::text(data)); }},
      {"protected", open_protected},
      {"topic", [](ByteView data) { wire::read_topic_record(data); }},
  };
  return table;
}

}  // namespace

std::string verdict(const std::string& kind, const speed::Bytes& data) {
  const auto found = decoders().find(kind);
  if (found == decoders().end()) throw std::invalid_argument("there is no such kind");
  try {
    found->second(data);
    return "OK";
  } catch (const speed::WireError& refused) {
    return std::string(refused.reason());
  } catch (const speed::KeyFileError&) {
    return "BAD_KEY_FILE";
  } catch (const speed::MessageError& refused) {
    return std::string(refused.code());
  }
}

}  // namespace agent
