// HMAC-SHA256 under one key that is used often: what depends on the key alone is hashed once.
// Threads: not thread-safe; the lock of its owner guards it.
#pragma once

#include <memory>

#include "wire/keyring.hpp"

namespace speed::wire {

class MacKey {
 public:
  explicit MacKey(const Key& key);
  MacKey(MacKey&&) noexcept;
  MacKey& operator=(MacKey&&) noexcept;
  ~MacKey();

  Mac of(ByteView data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace speed::wire
