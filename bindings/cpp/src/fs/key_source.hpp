// The key file of a running node: looked at again, and its keys taken, while the node goes on (W-20).
// Threads: all methods may be called from any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "wire/keyring.hpp"

namespace speed::fs {

class KeySource {
 public:
  explicit KeySource(const std::string& path);  // KeyFileError if the file is not sound
  KeySource(const KeySource&) = delete;
  KeySource& operator=(const KeySource&) = delete;
  ~KeySource() = default;

  const wire::Keyring& keyring() const { return keyring_; }

  // Takes the keys that are in the file now; what is wrong with it, if the keys of before go on, else nothing.
  std::string look();
  void look_soon();  // the same, unless somebody looked just before: a stranger names as many keys as it likes

 private:
  std::string path_;
  std::mutex lock_;
  std::atomic<double> next_ = 0;  // monotonic seconds
  wire::Keyring keyring_;
};

}  // namespace speed::fs
