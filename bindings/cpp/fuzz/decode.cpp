// Garbage gives one named error and nothing else: no crash, no hang, no memory beyond the bytes at hand.
// The first byte of the input chooses the decoder. Bytes with a MAC get a right one, or nothing behind it is reached.
#include <sodium.h>

#include "core/lane_decoder.hpp"
#include "speed/error.hpp"
#include "wire/control.hpp"
#include "wire/cursor.hpp"
#include "wire/entry.hpp"
#include "wire/key_file.hpp"
#include "wire/message.hpp"
#include "wire/spc.hpp"

namespace {

using namespace speed;

const wire::Key key{};

void read_lane(ByteView data) {
  const wire::NodeId source = wire::node_id("analytics");
  const wire::NodeId target = wire::node_id("billing");
  const wire::Keyring keyring({key});
  wire::LinkOpener opener(keyring, source, target);
  core::LaneDecoder decoder(source, target, opener);
  wire::Buffer opened;
  const core::Scan whole = decoder.scan({data, 0, 7, true, true}, 64, opened);
  if (whole.consumed > data.size()) __builtin_trap();
}

void read_entry(ByteView data) {
  std::string line(wire::text(data));
  std::erase(line, '\n');
  wire::decode_entry(line + "\n" + wire::to_base64(wire::hmac(key, wire::view(line))) + "\n", {key});
}

void read_cursor(ByteView data) {
  Bytes signed_data(data.begin(), data.end());
  wire::append(signed_data, ByteView(wire::hmac(key, data)).first(wire::short_mac_bytes));
  wire::decode_cursor(signed_data, {key});
}

// What was read can be written, and is then read as the same (W-15).
void read_value(ByteView data) {
  const Value value = wire::unpack(data);
  const Bytes packed = wire::pack(value);
  if (wire::pack(wire::unpack(packed)) != packed) __builtin_trap();
}

void read(unsigned kind, ByteView data) {
  switch (kind) {
    case 0: return read_lane(data);
    case 1: return read_entry(data);
    case 2: return read_cursor(data);
    case 3: return read_value(data);
    case 4: wire::decode_request(data); return;
    case 5: wire::decode_response(data); return;
    case 6: wire::decode_control(data); return;
    case 7: wire::MessageView(Bytes(data.begin(), data.end())).payload(); return;
    default: wire::parse_key_file(wire::text(data)); return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return sodium_init() < 0 ? 1 : 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0] % 9, std::as_bytes(std::span(data + 1, size - 1)));
  } catch (const WireError&) {
  } catch (const ConfigurationError&) {
  }
  return 0;
}
