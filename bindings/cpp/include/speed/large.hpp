// Payloads that are too large to be held in memory: read from a file to be sent, or from the store of the node that
// received them (Message::large). Both are a segment::Source, so what came can be sent on.
#pragma once

#include <functional>
#include <string>

#include "speed/export.hpp"
#include "speed/segment.hpp"

namespace speed {

// The bytes of a regular file as they are when it is opened. ConfigurationError if it cannot be read, or shrinks.
// Threads: may be read by several.
class SPEED_EXPORT FileSource : public segment::Source {
 public:
  explicit FileSource(const std::string& path);
  ~FileSource() override;
  std::size_t size() const override { return size_; }
  ByteView read(std::size_t begin, std::size_t end, Bytes& room) const override;

 private:
  int fd_;
  std::size_t size_ = 0;
};

// Writes a payload into a file, which is made or replaced; in bounded memory. StorageError.
SPEED_EXPORT void save(const segment::Source& payload, const std::string& path);

// Told after each segment: bytes of the payload that were written, and all of them.
using Progress = std::function<void(std::size_t written, std::size_t total)>;

}  // namespace speed
