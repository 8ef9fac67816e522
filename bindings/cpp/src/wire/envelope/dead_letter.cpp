#include "wire/envelope/dead_letter.hpp"

#include <algorithm>

#include "speed/error.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::string_view magic = "SPDL";
constexpr std::size_t key_at = 8;
constexpr std::size_t random_at = 16;
constexpr std::size_t smallest = limits::nonce_bytes + limits::tag_bytes;

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_PAYLOAD", why); }

// What a chunk is bound to: the file, its place in it, and whether it is the last.
Block<29> aad_of(const Block<24>& header, std::uint32_t number, bool is_last) {
  Block<29> aad;
  std::ranges::copy(header, aad.begin());
  store(aad.data() + header.size(), number);
  aad[aad.size() - 1] = static_cast<std::byte>(is_last ? 1 : 0);
  return aad;
}

std::string text_in(const Map& members, const char* key) {
  const Value* const value = members.find(key);
  const auto* const found = value == nullptr ? nullptr : value->get_if<std::string>();
  if (found == nullptr) refuse("a dead letter lacks a text");
  return *found;
}

std::uint64_t number_in(const Map& members, const char* key) {
  const Value* const value = members.find(key);
  if (value != nullptr) {
    if (const auto* const large = value->get_if<std::uint64_t>()) return *large;
    const auto* const number = value->get_if<std::int64_t>();
    if (number != nullptr && *number >= 0) return static_cast<std::uint64_t>(*number);
  }
  refuse("a dead letter lacks a number");
}

DeadLetter letter_in(ByteView data) {
  const Map members = unpack_map(data, "dead letter");
  DeadLetter letter;
  const std::string type = text_in(members, "type");
  if (type != "MESSAGE" && type != "EVENT") refuse("a dead letter is neither MESSAGE nor EVENT");
  letter.is_event = type == "EVENT";
  letter.source = text_in(members, "source");
  letter.sequence = number_in(members, "sequence");
  letter.timestamp_ms = static_cast<std::int64_t>(number_in(members, "timestamp"));
  letter.deliveries = static_cast<std::int64_t>(number_in(members, "deliveries"));
  letter.error_code = text_in(members, "errorCode");
  letter.error_message = text_in(members, "errorMessage");
  letter.died_at_ms = static_cast<std::int64_t>(number_in(members, "diedAt"));
  letter.payload_bytes = number_in(members, "payloadBytes");
  if (letter.payload_bytes > limits::max_segmented_bytes)
    refuse("a dead letter says that its payload is larger than any");
  return letter;
}

}  // namespace

LetterWriter::LetterWriter(const Keyring& keyring, const NodeId& node, RandomSource random, Sink sink)
    : LetterWriter(keyring, keyring.key_id(), node, std::move(random), std::move(sink)) {}

LetterWriter::LetterWriter(const Keyring& keyring, const KeyId& key_id, const NodeId& node, RandomSource random,
                           Sink sink)
    : aead_(keyring.dead_letters_key(key_id, node), Aead::Direction::seal),
      random_(std::move(random)),
      sink_(std::move(sink)) {
  copy_to(header_.data(), view(magic));
  header_[magic.size()] = std::byte{1};
  copy_to(header_.data() + key_at, key_id);
  random_(std::span(header_).subspan(random_at));
  sink_(header_);
}

void LetterWriter::head(const DeadLetter& letter) {
  seal(pack(Map{{"type", letter.is_event ? "EVENT" : "MESSAGE"},
                {"source", letter.source},
                {"sequence", letter.sequence},
                {"timestamp", letter.timestamp_ms},
                {"deliveries", letter.deliveries},
                {"errorCode", letter.error_code},
                {"errorMessage", readable(letter.error_message)},
                {"diedAt", letter.died_at_ms},
                {"payloadBytes", letter.payload_bytes}}),
       letter.payload_bytes == 0);
}

void LetterWriter::piece(ByteView payload, bool is_last) { seal(payload, is_last); }

void LetterWriter::seal(ByteView chunk, bool is_last) {
  Nonce nonce;
  random_(nonce);
  Bytes sealed(sizeof(std::uint32_t) + nonce.size() + chunk.size() + limits::tag_bytes);
  store(sealed.data(), static_cast<std::uint32_t>(sealed.size() - sizeof(std::uint32_t)));
  copy_to(sealed.data() + sizeof(std::uint32_t), nonce);
  aead_.seal(nonce, aad_of(header_, number_++, is_last), chunk,
             std::span(sealed).subspan(sizeof(std::uint32_t) + nonce.size()));
  sink_(sealed);
}

LetterReader::LetterReader(const Keyring& keyring, const NodeId& node, Read read) : read_(std::move(read)) {
  const bool whole = read_(header_) == header_.size();
  const Block<4> version{std::byte{1}};
  if (!whole || text(ByteView(header_).first(magic.size())) != magic ||
      !std::ranges::equal(ByteView(header_).subspan(magic.size(), version.size()), version)) {
    refuse("no dead letter of version 1");
  }
  KeyId id;
  copy_to(id.data(), ByteView(header_).subspan(key_at, id.size()));
  aead_.emplace(keyring.dead_letters_key(id, node), Aead::Direction::open);
  const std::optional<Bytes> sealed = next_sealed();
  if (!sealed) refuse("a dead letter without a word");
  following_ = next_sealed();
  letter_ = letter_in(open(*sealed, !following_));
  left_ = letter_.payload_bytes;
}

bool LetterReader::next(Bytes& piece) {
  if (!following_) {
    if (left_ != 0) refuse("a dead letter whose payload has another size than it says");
    return false;
  }
  const Bytes sealed = std::move(*following_);
  following_ = next_sealed();
  piece = open(sealed, !following_);
  if (piece.size() > left_) refuse("a dead letter whose payload has another size than it says");
  left_ -= piece.size();
  return true;
}

std::optional<Bytes> LetterReader::next_sealed() {
  Block<4> length;
  const std::size_t got = read_(length);
  if (got == 0) return std::nullopt;
  const std::size_t size = got == length.size() ? load<std::uint32_t>(length.data()) : 0;
  if (size < smallest || size > letter_chunk_bytes + smallest) refuse("a dead letter has no chunk where one should be");
  Bytes sealed(size);
  if (read_(sealed) != size) refuse("a dead letter is cut");
  return sealed;
}

Bytes LetterReader::open(const Bytes& sealed, bool is_last) {
  Nonce nonce;
  copy_to(nonce.data(), ByteView(sealed).first(nonce.size()));
  Bytes opened(sealed.size() - smallest);
  if (!aead_->open(nonce, aad_of(header_, number_++, is_last), ByteView(sealed).subspan(nonce.size()), opened)) {
    refuse("a chunk of a dead letter was altered, moved or cut off");
  }
  return opened;
}

}  // namespace speed::wire
