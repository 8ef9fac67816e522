#include <fcntl.h>

#include <algorithm>

#include "fs/files.hpp"
#include "speed/error.hpp"
#include "speed/large.hpp"

namespace speed {

namespace {

constexpr std::size_t copied_at_once = 1 << 20;

}  // namespace

FileSource::FileSource(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  fs::Fd file(fd_);
  if (!file) throw ConfigurationError("'" + path + "' cannot be sent: " + std::generic_category().message(errno));
  const struct stat status = fs::status_of(fd_);
  if (!S_ISREG(status.st_mode)) throw ConfigurationError("'" + path + "' cannot be sent: it is no regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  file.release();
}

FileSource::~FileSource() { fs::Fd(fd_).close(); }

ByteView FileSource::read(std::size_t begin, std::size_t end, Bytes& room) const {
  room.resize(end - begin);
  if (fs::read_at(fd_, room, begin) != room.size()) {
    throw ConfigurationError("the file changed while it was sent: send it again");
  }
  return room;
}

void save(const segment::Source& payload, const std::string& path) {
  const fs::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) throw StorageError("'" + path + "' cannot be written: " + std::generic_category().message(errno));
  Bytes room;
  try {
    for (std::size_t at = 0; at < payload.size(); at += copied_at_once) {
      fs::write_all(file.get(), payload.read(at, std::min(at + copied_at_once, payload.size()), room));
    }
  } catch (const std::system_error& error) {
    throw StorageError("'" + path + "' cannot be written: " + error.what());
  }
}

}  // namespace speed
