// Garbage gives one named error and nothing else: no crash, no hang, no memory beyond the bytes at hand.
#include <sodium.h>
#include <time.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "core/lane_decoder.hpp"
#include "decoders.hpp"
#include "speed/error.hpp"
#include "speed/segment.hpp"
#include "vector_guard.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/message/batch.hpp"
#include "wire/message/content.hpp"
#include "wire/message/message.hpp"
#include "wire/message/message_parts.hpp"
#include "wire/value/control.hpp"
#include "wire/value/spc.hpp"
#include "wire/value/topic_record.hpp"

namespace {

using namespace speed;
using fuzz::Decoder;

constexpr double most_seconds = 1;  // for one input, whatever else the machine does

double processor_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

void require(bool holds) {
  if (!holds) __builtin_trap();
}

// The link and the keys of the vectors.
struct Link {
  wire::NodeId source = wire::node_id("analytics");
  wire::NodeId target = wire::node_id("billing");
  wire::Keyring keyring{{counting_key(0), counting_key(32)}};
  std::vector<wire::Key> lane_keys = keyring.lane_keys(source, target);

  static wire::Key counting_key(std::size_t first) {
    wire::Key key;
    for (std::size_t at = 0; at < key.size(); ++at) key[at] = static_cast<std::byte>(first + at);
    return key;
  }
};

const Link& link_of_vectors() {
  static const Link link;
  return link;
}

// L-16: every byte is settled exactly once, in order, and never more of them than there are.
void read_lane(ByteView data) {
  const Link& link = link_of_vectors();
  wire::LinkOpener opener(link.keyring, link.source, link.target);
  core::LaneDecoder decoder(link.source, link.target, opener);
  Bytes lane(data.begin(), data.end());
  const core::Scan scan = decoder.scan({lane, 0, 7, true, true}, 64);
  std::uint64_t settled = 0;
  for (const core::Item& item : scan.items) {
    require(item.start == settled && item.end > item.start);
    settled = item.end;
    const auto size = static_cast<std::size_t>(item.end - item.start);
    const ByteView bytes = ByteView(lane).subspan(static_cast<std::size_t>(item.start), size);
    if (item.is_damage()) require(std::ranges::equal(bytes, data.subspan(static_cast<std::size_t>(item.start), size)));
  }
  require(settled == scan.consumed && scan.consumed <= data.size());
}

void read_envelope(ByteView data) {
  if (data.size() < wire::limits::aad_bytes) return read_lane(data);
  const Link& link = link_of_vectors();
  wire::Headers headers;
  std::ranges::copy(data.first(headers.size()), headers.begin());
  std::ranges::copy(link.keyring.key_id(), headers.begin() + wire::limits::header_bytes);
  const auto generation = wire::generation_of(wire::load<std::uint64_t>(headers.data() + 8));
  const wire::Key key = wire::link_key(link.keyring.sealing_key(), link.source, link.target, generation);
  wire::Nonce nonce;
  std::copy_n(headers.end() - nonce.size(), nonce.size(), nonce.begin());
  const ByteView plain = data.subspan(headers.size());
  Bytes envelope(headers.begin(), headers.end());
  envelope.resize(headers.size() + plain.size() + wire::limits::tag_bytes);
  wire::Aead(key, wire::Aead::Direction::seal).seal(nonce, headers, plain, std::span(envelope).subspan(headers.size()));
  read_lane(envelope);
}

// What was read can be written, and is then read as the same.
void read_entry(ByteView data) {
  const auto& keys = link_of_vectors().keyring.registry_keys();
  const std::string_view line = wire::text(data).substr(0, wire::text(data).find('\n'));
  const wire::Mac mac = wire::hmac(keys[0], wire::view(line));
  const wire::Entry entry = wire::decode_entry(std::string(line) + "\n" + wire::to_base64(mac) + "\n", keys);
  try {
    require(wire::decode_entry(wire::encode_entry(entry, keys[0]), keys) == entry);
  } catch (const ConfigurationError&) {  // its text grew beyond the limit
  }
}

Bytes with_lane_mac(ByteView data) {
  Bytes authentic(data.begin(), data.end());
  wire::append(authentic, ByteView(wire::hmac(link_of_vectors().lane_keys[0], data)).first(wire::short_mac_bytes));
  return authentic;
}

void read_cursor(ByteView data) {
  const auto& keys = link_of_vectors().lane_keys;
  const wire::Cursor cursor = wire::decode_cursor(with_lane_mac(data), keys);
  require(wire::decode_cursor(wire::encode_cursor(cursor, keys[0]), keys) == cursor);
}

void read_fence(ByteView data) {
  const auto& keys = link_of_vectors().lane_keys;
  const wire::Fence fence = wire::decode_fence(with_lane_mac(data), keys);
  require(wire::decode_fence(wire::encode_fence(fence, keys[0]), keys) == fence);
}

void read_value(ByteView data) {
  const Bytes packed = wire::pack(wire::unpack(data));
  require(wire::pack(wire::unpack(packed)) == packed);
}

void read_message(ByteView data) {
  const wire::MessageView message(Bytes(data.begin(), data.end()));
  message.labels();
  message.extensions();
  message.traceparent();
  message.is_expired(message.published_at_ms());
  message.payload();
}

// M-30: the parts lie one behind the other, and are all there is but their number and lengths.
void read_batch(ByteView data) {
  const std::byte* settled = data.data() + sizeof(std::uint32_t);
  for (const wire::BatchPart& part : wire::split_batch(data)) {
    require(part.data.data() >= settled + 2 * sizeof(std::uint32_t) + part.type_url.size());
    settled = part.data.data() + part.data.size();
  }
  require(settled == data.data() + data.size());
  wire::decode_batch(data);
}

void read_content(ByteView data) {
  const std::string_view all = wire::text(data);
  const std::size_t end = std::min(all.find('\0'), all.size());
  const ByteView content = data.subspan(std::min(end + 1, all.size()));
  if (all.substr(0, end) == wire::batch_type) return read_batch(content);
  wire::decode_content(all.substr(0, end), content);
}

// L-1, R-4: a file name that is taken is the one that its meaning is written as, and leads nowhere else.
void read_name(ByteView data) {
  const std::string_view name = wire::text(data);
  if (const auto segment = wire::parse_lane_file(name)) require(wire::lane_file_name(*segment) == name);
  if (const auto cursor = wire::parse_cursor(name)) require(wire::cursor_name(*cursor) == name);
  if (const auto fence = wire::parse_fence(name)) require(wire::fence_name(*fence) == name);
  if (const auto claim = wire::parse_claim(name)) {
    require(wire::claim_path("/r", claim->first, claim->second) == "/r/speed_registry/.claims/" + std::string(name));
  }
  if (const auto entry = wire::parse_entry_file(name)) require(wire::is_node_name(*entry));
  if (!wire::is_node_name(name)) return wire::check_grant(name);
  require(wire::matches(name, name) && !wire::is_temporary(name));
  require(name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos && name.front() != '.');
}

// G-1, G-2: what was read can be written, and is then read as the same.
void read_segment(ByteView data) {
  const segment::Segment one = segment::read_segment(data);
  const Bytes written = segment::write_segment(one);
  const segment::Segment again = segment::read_segment(written);
  require(written.size() <= one.payload.size() + segment::max_head_bytes);
  require(again.hash == one.hash && again.slot() == one.slot() && again.parity_count == one.parity_count);
  require(again.is_parity == one.is_parity && std::ranges::equal(again.payload, one.payload));
}

// G-12, G-13: whatever comes in whatever order, a payload that is delivered has its hash, and is delivered once.
void read_segments(ByteView data) {
  segment::Limits limits;
  limits.sender_reconstructions = 4;
  limits.sender_buffered_bytes = 1 << 14;
  segment::Assembler assembler(limits);
  std::set<segment::Hash> delivered;
  for (TimePoint now; data.size() >= 2; now += 1s) {
    const std::size_t size = std::min<std::size_t>(wire::load<std::uint16_t>(data.data()), data.size() - 2);
    const ByteView one = data.subspan(2, size);
    data = data.subspan(2 + size);
    try {
      const segment::Outcome outcome = assembler.receive("sender", one, now);
      if (!outcome.payload) continue;
      const segment::Hash hash = segment::keccak256(*outcome.payload);
      require(hash == segment::read_segment(one).hash && delivered.insert(hash).second);
    } catch (const WireError&) {
    }
  }
}

// G-18: the value begins within the message, and the head is a message.
void read_front(ByteView data) {
  const wire::MessageFront front = wire::read_front(data, data.size());
  require(front.start <= data.size());
}

// M-25: signature, clearance, cipher, compression.
void read_protected(ByteView data) {
  static const message::Guard guard = test::vector_guard();
  const message::Opened opened = guard.open(wire::MessageView(Bytes(data.begin(), data.end())), test::vector_clock_ms);
  if (opened.plain) require(opened.plain->size() <= wire::limits::max_payload_bytes);
}

void read(Decoder decoder, ByteView data) {
  switch (decoder) {
    case Decoder::lane: return read_lane(data);
    case Decoder::envelope: return read_envelope(data);
    case Decoder::entry: return read_entry(data);
    case Decoder::cursor: return read_cursor(data);
    case Decoder::fence: return read_fence(data);
    case Decoder::value: return read_value(data);
    case Decoder::request: wire::decode_arguments(data, wire::decode_head(data)); return;
    case Decoder::response: wire::decode_response(data); return;
    case Decoder::control: wire::decode_control(data); return;
    case Decoder::message: return read_message(data);
    case Decoder::content: return read_content(data);
    case Decoder::key_file: wire::parse_key_file(wire::text(data)); return;
    case Decoder::name: return read_name(data);
    case Decoder::segment: return read_segment(data);
    case Decoder::segments: return read_segments(data);
    case Decoder::front: return read_front(data);
    case Decoder::protected_: return read_protected(data);
    case Decoder::topic: wire::read_topic_record(data); return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return sodium_init() < 0 ? 1 : 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const double begin = processor_seconds();
  try {
    read(static_cast<Decoder>(data[0] % fuzz::decoders), std::as_bytes(std::span(data + 1, size - 1)));
  } catch (const WireError&) {
  } catch (const KeyFileError&) {
  } catch (const InvalidNameError&) {
  } catch (const MessageError&) {
  }
  require(processor_seconds() - begin < most_seconds);
  return 0;
}
