// A dead letter as bytes: what is known of a message that could not be handled, and its payload, sealed (S-18).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "wire/envelope/seal.hpp"

namespace speed::wire {

// Times are Unix ms: `timestamp_ms` is the envelope's, `died_at_ms` when it was given up.
struct DeadLetter {
  bool is_event = false;
  std::string source = {};
  std::uint64_t sequence = 0;
  std::int64_t timestamp_ms = 0;
  std::int64_t deliveries = 0;
  std::string error_code = {};
  std::string error_message = {};
  std::int64_t died_at_ms = 0;
  std::uint64_t payload_bytes = 0;
};

inline constexpr std::size_t letter_chunk_bytes = 1 << 20;  // of the payload in one chunk

// Writes a letter piece by piece: its head, then the pieces of the payload, each told whether it is the last.
class LetterWriter {
 public:
  using Sink = std::function<void(ByteView)>;

  LetterWriter(const Keyring& keyring, const NodeId& node, RandomSource random, Sink sink);
  void head(const DeadLetter& letter);
  void piece(ByteView payload, bool is_last);

 private:
  LetterWriter(const Keyring& keyring, const KeyId& key_id, const NodeId& node, RandomSource random, Sink sink);
  void seal(ByteView chunk, bool is_last);

  Block<24> header_{};
  Aead aead_;
  RandomSource random_;
  Sink sink_;
  std::uint32_t number_ = 0;
};

// Reads one. All throw WireError: BAD_PAYLOAD for what is no letter or was altered or cut, UNKNOWN_KEY.
class LetterReader {
 public:
  // `read` fills as much of the room as there is, less only at the end of the file.
  using Read = std::function<std::size_t(std::span<std::byte>)>;

  LetterReader(const Keyring& keyring, const NodeId& node, Read read);
  const DeadLetter& letter() const { return letter_; }
  bool next(Bytes& piece);  // the next piece of the payload; false behind the last

 private:
  Bytes open(const Bytes& sealed, bool is_last);
  std::optional<Bytes> next_sealed();

  Read read_;
  Block<24> header_{};
  std::optional<Aead> aead_;
  std::uint32_t number_ = 0;
  std::optional<Bytes> following_;
  DeadLetter letter_;
  std::uint64_t left_ = 0;
};

}  // namespace speed::wire
