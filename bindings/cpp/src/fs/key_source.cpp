#include "fs/key_source.hpp"

#include <filesystem>

#include "fs/clock.hpp"
#include "fs/key_store.hpp"
#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr double pause_seconds = 1.0;  // between two looks that others can bring about

}  // namespace

KeySource::KeySource(const std::string& path)
    : path_(std::filesystem::absolute(path).string()), keyring_(read_key_file(path_)) {
  keyring_.look_with([this] { look_soon(); });
}

std::string KeySource::look() {
  const std::lock_guard guard(lock_);
  next_ = monotonic_seconds() + pause_seconds;
  try {
    keyring_.take(read_key_file(path_));
  } catch (const KeyFileError& error) {
    return error.what();
  } catch (const std::system_error& error) {
    return "cannot read the key file " + path_ + ": " + error.code().message();
  }
  return {};
}

void KeySource::look_soon() {
  if (monotonic_seconds() >= next_) look();
}

}  // namespace speed::fs
