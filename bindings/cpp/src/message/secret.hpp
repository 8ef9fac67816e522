// Bytes that are wiped when they go.
#pragma once

#include <sodium.h>

#include <utility>

#include "wire/value/bytes.hpp"

namespace speed::message {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::size_t size) : bytes_(size) {}
  explicit Secret(ByteView from) : bytes_(from.begin(), from.end()) {}
  Secret(Secret&&) noexcept = default;
  Secret& operator=(Secret&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Secret(const Secret& other) = default;
  Secret& operator=(const Secret& other) {
    Secret copy(other);
    std::swap(bytes_, copy.bytes_);
    return *this;
  }
  ~Secret() { sodium_memzero(bytes_.data(), bytes_.size()); }

  static Secret random(std::size_t size) {
    Secret made(size);
    randombytes_buf(made.bytes_.data(), size);
    return made;
  }

  // One after the other.
  static Secret joined(ByteView one, ByteView other) {
    Secret both(one.size() + other.size());
    wire::copy_to(both.bytes_.data(), one);
    wire::copy_to(both.bytes_.data() + one.size(), other);
    return both;
  }

  std::span<std::byte> span() { return bytes_; }
  ByteView view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  Bytes bytes_;
};

}  // namespace speed::message
