// The way to a root or a key file: each step of it is one that no other user can change.
#pragma once

#include <sys/stat.h>

#include <stdexcept>
#include <string>

#include "core/trust.hpp"

namespace speed::fs {

// What was found, and the command that mends it, if one does.
class UntrustedError : public std::runtime_error {
 public:
  explicit UntrustedError(const std::string& found, std::string cure = "")
      : std::runtime_error(found), cure_(std::move(cure)) {}

  // What was found and what to do: the cure, or else `otherwise`.
  std::string text(const std::string& otherwise) const {
    return what() + (cure_.empty() ? ": " : ": " + cure_ + ", or ") + otherwise;
  }

 private:
  std::string cure_;
};

core::User who();  // this process

struct stat look_at(const std::string& path);  // at a link itself; std::system_error
core::Step step_of(const struct stat& status);

// Where the path leads once its links are followed. UntrustedError for a step that others can change,
// std::system_error. The last step is judged by its owner alone: whoever asks knows what it should be.
std::string followed(const std::string& path);

}  // namespace speed::fs
