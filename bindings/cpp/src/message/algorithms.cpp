#include "message/algorithms.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "speed/message_error.hpp"

namespace speed::message {

namespace {

constexpr auto aes = CipherName::aes_256_gcm;
constexpr auto chacha = CipherName::chacha20_poly1305;
constexpr auto no_cipher = CipherName::none;
constexpr int symmetric = 1;
constexpr int asymmetric = 2;
constexpr int post_quantum = 3;
constexpr int hybrid = 4;

constexpr std::array<Algorithm, 11> rows{{
    {"aes-256-gcm", Family::symmetric, symmetric, aes, 32, 32, 0, true},
    {"chacha20-poly1305", Family::symmetric, symmetric, chacha, 32, 32, 0, false},
    {"rsa-oaep-3072", Family::rsa, asymmetric, aes, 384, 0, 0, true},
    {"rsa-oaep-4096", Family::rsa, asymmetric, aes, 512, 0, 0, true},
    {"x25519-chacha20-poly1305", Family::x25519, asymmetric, chacha, 32, 32, 32, false},
    {"ml-kem-768", Family::ml_kem, post_quantum, aes, 1088, 64, 1184, true},
    {"ml-kem-1024", Family::ml_kem, post_quantum, aes, 1568, 64, 1568, true},
    {"x25519-ml-kem-1024", Family::hybrid, hybrid, aes, 1600, 96, 1600, true},
    {"x-wing", Family::x_wing, hybrid, aes, 1120, 32, 1216, false},
    {"ed25519", Family::ed25519, 0, no_cipher, 64, 32, 32, true},
    {"hmac-sha256", Family::hmac, 0, no_cipher, 32, 32, 0, true},
}};

constexpr std::array<std::array<std::string_view, 2>, 4> aliases{{
    {"kyber768", "ml-kem-768"},
    {"kyber1024", "ml-kem-1024"},
    {"x25519-kyber1024", "x25519-ml-kem-1024"},
    {"rsa4096-kyber768", "x25519-ml-kem-1024"},
}};

constexpr std::array<std::string_view, 13> refused{
    "aes-128-gcm", "rsa-oaep-1024", "rsa-oaep-2048", "rsa-2048", "rsa-oaep-sha1", "rsa-pkcs1", "3des",
    "des",         "rc4",           "md5",           "sha-1",    "hmac-md5",      "hmac-sha1"};

constexpr std::size_t shown_bytes = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::span<const Algorithm> algorithms() { return rows; }

const Algorithm& algorithm_of(std::string_view name, FipsMode mode) {
  std::string wanted(name.substr(0, shown_bytes));
  std::ranges::transform(wanted, wanted.begin(), lower);
  if (std::ranges::find(refused, wanted) != refused.end()) {
    throw WeakAlgorithmError(
        wanted + " is deprecated or too weak, and no setting allows it: use x-wing, aes-256-gcm or ed25519");
  }
  for (const auto& [alias, meant] : aliases) {
    if (wanted == alias) wanted = meant;
  }
  const auto* const found = std::ranges::find(rows, std::string_view(wanted), &Algorithm::name);
  if (found == rows.end()) throw UnknownAlgorithmError("no algorithm is called '" + wanted + "'");
  if (mode == FipsMode::strict && !found->strict) {
    throw WeakAlgorithmError(wanted + " is not approved by NIST, and the FIPS mode is strict");
  }
  return *found;
}

}  // namespace speed::message
