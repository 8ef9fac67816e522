#include "wire/message/batch.hpp"

#include <limits>
#include <unordered_map>

#include "speed/message_error.hpp"
#include "wire/message/content.hpp"
#include "wire/names/names.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t size_bytes = sizeof(std::uint32_t);
constexpr std::size_t most_type_bytes = 256;
constexpr std::string_view protobuf_type = "application/protobuf";
constexpr std::string_view protobuf_before_url = "application/protobuf;type_url=";

// Reads a batch from its begin to its end; nothing is believed that the bytes do not bear out.
class BatchReader {
 public:
  explicit BatchReader(ByteView batch) : rest_(batch) {}

  std::size_t count() {
    const std::size_t said = size();
    if (said <= max_batch_payloads && said * 2 * size_bytes <= rest_.size()) return said;
    throw BatchError("a batch of " + std::to_string(size_bytes + rest_.size()) + " bytes says that it holds " +
                     std::to_string(said) + " payloads");
  }

  BatchPart part() {
    const std::string_view type = text(type_bytes());
    const std::size_t length = size();
    if (length > rest_.size()) throw BatchError("a payload of the batch reaches past its end");
    return part_of(type, take(length));
  }

  void end() const {
    if (!rest_.empty()) throw BatchError("the batch goes on behind its last payload");
  }

 private:
  ByteView take(std::size_t length) {
    const ByteView taken = rest_.first(length);
    rest_ = rest_.subspan(length);
    return taken;
  }

  std::size_t size() {
    if (rest_.size() < size_bytes) throw BatchError("the batch is truncated");
    return load<std::uint32_t>(take(size_bytes).data());
  }

  ByteView type_bytes() {
    const std::size_t length = size();
    if (length == 0 || length > most_type_bytes || length > rest_.size()) {
      throw BatchError("a content type of the batch has a length that cannot be");
    }
    return take(length);
  }

  static BatchPart part_of(std::string_view type, ByteView data) {
    if (!is_utf8(type)) throw BatchError("a content type of the batch is not UTF-8");
    if (type == batch_type || type == protobuf_type || type == protobuf_before_url) {
      throw BatchError("a batch holds no " + std::string(type));
    }
    if (!type.starts_with(protobuf_before_url)) return {type, {}, data};
    return {protobuf_type, type.substr(protobuf_before_url.size()), data};
  }

  ByteView rest_;
};

void put_size(std::byte* to, std::size_t size) {
  if (size > std::numeric_limits<std::uint32_t>::max()) {
    throw BatchError("a payload of " + std::to_string(size) + " bytes is too long for a batch: send it alone");
  }
  store(to, static_cast<std::uint32_t>(size));
}

}  // namespace

Batch::Batch() { put_size(bytes_.extend(size_bytes).data(), 0); }

void Batch::add(const Value& payload) {
  if (count_ == max_batch_payloads) {
    throw BatchError("too many payloads for one batch; at most " + std::to_string(max_batch_payloads));
  }
  const std::string_view type = media_type_of(payload);
  put_size(bytes_.extend(size_bytes).data(), type.size());
  bytes_.append(wire::view(type));
  const std::size_t before = bytes_.size();
  bytes_.extend(size_bytes);  // its length, which is known once it is written
  encode_content(payload, bytes_);
  put_size(bytes_.data() + before, bytes_.size() - before - size_bytes);
  put_size(bytes_.data(), ++count_);
}

std::vector<std::pair<std::string, Batch>> batches_of(const std::vector<std::pair<std::string, Value>>& payloads) {
  std::vector<std::pair<std::string, Batch>> batches;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const auto& [topic, payload] : payloads) {
    const auto [place, is_new] = places.try_emplace(topic, batches.size());
    if (is_new) {
      check_topic(topic);
      batches.emplace_back(topic, Batch());
    }
    batches[place->second].second.add(payload);
  }
  return batches;
}

std::vector<BatchPart> split_batch(ByteView batch) {
  BatchReader reader(batch);
  std::vector<BatchPart> parts(reader.count());
  for (BatchPart& part : parts) part = reader.part();
  reader.end();
  return parts;
}

std::vector<Value> decode_batch(ByteView batch) {
  std::vector<Value> values;
  for (const BatchPart& part : split_batch(batch)) values.push_back(decode_content(part.content_type, part.data));
  return values;
}

}  // namespace speed::wire
