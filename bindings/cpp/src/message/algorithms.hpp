// The algorithms of the contract: a table, their aliases, and what is refused (M-17, M-19, M-24).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "speed/message_key.hpp"

namespace speed::message {

inline constexpr std::size_t iv_bytes = 12;
inline constexpr std::size_t tag_bytes = 16;
inline constexpr std::size_t data_key_bytes = 32;
inline constexpr std::size_t wrapped_key_bytes = data_key_bytes + tag_bytes;
inline constexpr std::size_t max_recipients = 64;
inline constexpr std::size_t min_rsa_bits = 3072;
inline constexpr std::size_t max_key_id_bytes = 128;
inline constexpr std::uint64_t max_key_uses = std::uint64_t{1} << 32;
inline constexpr std::int64_t future_tolerance_ms = 300'000;

// What kind of keys an algorithm has.
enum class Family { symmetric, rsa, x25519, ml_kem, hybrid, x_wing, ed25519, hmac };
enum class CipherName { none, aes_256_gcm, chacha20_poly1305 };

// One row. Lengths in bytes; 0 for none, or where the key's own structure says it.
struct Algorithm {
  std::string_view name;
  Family family;
  int type;  // EncryptionType of the contract; 0 for signatures
  CipherName cipher;
  std::size_t output;  // of the encapsulated key, or of the signature
  std::size_t secret;
  std::size_t public_part;
  bool strict;  // whether NIST approves it

  bool signs() const { return type == 0; }
  bool is_symmetric() const { return family == Family::symmetric || family == Family::hmac; }
};

std::span<const Algorithm> algorithms();

// The algorithm of that name or alias. WeakAlgorithmError and UnknownAlgorithmError (M-24).
const Algorithm& algorithm_of(std::string_view name, FipsMode mode = FipsMode::off);

}  // namespace speed::message
