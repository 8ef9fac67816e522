// The head of a message is read by hand; protobuf's own parser must find the same, in sound messages and in others.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "message.pb.h"
#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/message/content.hpp"
#include "wire/message/message.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {
namespace {

using test::bytes_of;
using test::Json;

using Texts = std::map<std::string, std::string>;

struct Meaning {
  std::vector<std::string> texts;
  std::vector<std::int64_t> numbers;
  Texts labels;
  Texts baggage;
  std::map<std::string, Bytes> extensions;
  bool operator==(const Meaning&) const = default;
};

std::string text_of(const std::optional<std::string_view>& text) { return text ? "=" + std::string(*text) : "none"; }

std::optional<Meaning> by_hand(const Bytes& data) {
  try {
    const MessageView message(data);
    return Meaning{{std::string(message.message_id()), std::string(message.topic()), std::string(message.name_space()),
                    message.content_type(), message.content_encoding(), text_of(message.correlation_id()),
                    text_of(message.causality_parent()), text_of(message.publisher_id())},
                   {message.published_at_ms(), message.priority(), message.ttl_seconds()},
                   message.labels(),
                   message.baggage(),
                   message.extensions()};
  } catch (const WireError&) {
    return std::nullopt;
  }
}

// A field that is a message itself, with its own such fields.
struct Nested {
  std::uint32_t field;
  std::vector<Nested> inside;
};

// metadata, security (encryption (recipients)), observability (baggage, labels), schema, extensions
const std::vector<Nested> nested{{1, {}}, {2, {{6, {{9, {}}}}}}, {3, {{5, {}}, {6, {}}}}, {4, {}}, {97, {}}};

// M-4 holds at every depth; protobuf's parser is not as strict.
void check_nested(ByteView message, const std::vector<Nested>& parts) {
  for (std::size_t at = 0; at < message.size();) {
    const Record record = read_record(message, at);
    at = record.end;
    const auto part = std::ranges::find(parts, record.tag >> 3, &Nested::field);
    if ((record.tag & 7) != 2 || part == parts.end()) continue;
    check_nested(message.subspan(record.value, record.end - record.value), part->inside);
  }
}

// The frame as M-4 wants it, everything in it but the payload as protobuf reads it.
struct Reference {
  message::v1::MessageEnvelope head;
  bool has_payload = false;
  bool has_type_url = false;

  bool read(const Bytes& data) {
    const ByteView all(data);
    std::string rest;
    for (std::size_t at = 0; at < all.size();) {
      const Record record = read_record(all, at);
      at = record.end;
      if (record.tag == bytes_tag(message::v1::MessageEnvelope::kPayloadFieldNumber)) {
        read_any(all.subspan(record.value, record.end - record.value));
      } else {
        rest += text(all.subspan(record.start, record.end - record.start));
      }
    }
    check_nested(view(rest), nested);
    return head.ParseFromString(rest);
  }

  void read_any(ByteView any) {
    has_payload = true;
    for (std::size_t at = 0; at < any.size();) {
      const Record record = read_record(any, at);
      at = record.end;
      if (record.tag != bytes_tag(1)) continue;  // type_url
      if (!is_utf8(text(any.subspan(record.value, record.end - record.value)))) throw WireError("BAD_MESSAGE", "url");
      has_type_url = record.end > record.value;
    }
  }
};

template <class Message>
std::string optional_of(bool has, const Message& text) {
  return has ? "=" + std::string(text) : "none";
}

std::optional<Meaning> by_protobuf(const Bytes& data) {
  try {
    Reference reference;
    if (!reference.read(data) || !reference.head.has_metadata() || !reference.has_payload) return std::nullopt;
    const auto& it = reference.head.metadata();
    check_metadata({it.message_id(), it.topic(), it.namespace_(), it.published_at_ms(), it.priority(), it.ttl_seconds(),
                    it.content_type(), it.content_type_custom(), it.content_encoding(), it.content_encoding_custom()});
    if (it.content_type() == 1 && !reference.has_type_url) return std::nullopt;
    const auto& security = reference.head.security();
    const auto& context = reference.head.observability();
    Meaning meaning{
        {it.message_id(), it.topic(), it.namespace_(), content_type_text(it.content_type(), it.content_type_custom()),
         content_encoding_text(it.content_encoding(), it.content_encoding_custom()),
         optional_of(it.has_correlation_id(), it.correlation_id()),
         optional_of(it.has_causality_parent(), it.causality_parent()),
         optional_of(security.has_publisher_id(), security.publisher_id())},
        {it.published_at_ms(), it.priority() == 0 ? 5 : it.priority(), it.ttl_seconds()},
        {context.labels().begin(), context.labels().end()},
        {context.baggage().begin(), context.baggage().end()},
        {}};
    for (const auto& [key, bytes] : reference.head.extensions()) {
      meaning.extensions[key] = Bytes(view(bytes).begin(), view(bytes).end());
    }
    return meaning;
  } catch (const WireError&) {
    return std::nullopt;
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> found;
  for (const char* validity : {"valid", "invalid"}) {
    for (const Json& item : test::cases("messages", validity)) found.push_back(bytes_of(item["hex"]));
  }
  return found;
}

TEST(MessageHead, the_vectors_are_read_as_protobuf_reads_them_m_4) {
  for (const Bytes& data : seeds()) EXPECT_EQ(by_hand(data), by_protobuf(data)) << to_hex(data);
}

// One to four small accidents: another byte, one more, one less, a piece of another message in between.
void spoil(Bytes& data, const std::vector<Bytes>& pieces, std::mt19937_64& random) {
  const auto below = [&](std::size_t most) { return static_cast<std::ptrdiff_t>(random() % most); };
  for (std::ptrdiff_t left = 1 + below(4); left > 0; --left) {
    const auto at = data.begin() + below(data.size() + 1);
    switch (below(4)) {
      case 0:
        if (at != data.end()) *at = static_cast<std::byte>(random());
        break;
      case 1: data.insert(at, static_cast<std::byte>(random())); break;
      case 2:
        if (at != data.end()) data.erase(at);
        break;
      default: {
        const Bytes& piece = pieces[static_cast<std::size_t>(below(pieces.size()))];
        const auto from = piece.begin() + below(piece.size() + 1);
        const Bytes part(from, from + below(static_cast<std::size_t>(piece.end() - from) + 1));
        data.insert(at, part.begin(), part.end());
      }
    }
  }
}

TEST(MessageHead, spoilt_messages_are_judged_as_protobuf_judges_them_m_4) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const std::vector<Bytes> whole = seeds();
  std::size_t accepted = 0;
  for (int turn = 0; turn < 200'000; ++turn) {
    Bytes data = whole[random() % whole.size()];
    spoil(data, whole, random);
    const std::optional<Meaning> expected = by_protobuf(data);
    accepted += expected ? 1 : 0;
    ASSERT_EQ(by_hand(data), expected) << "seed " << seed << ", turn " << turn << ": " << to_hex(data);
  }
  EXPECT_GT(accepted, 1000U) << "seed " << seed;  // or the accidents were too rough to prove anything
}

}  // namespace
}  // namespace speed::wire
