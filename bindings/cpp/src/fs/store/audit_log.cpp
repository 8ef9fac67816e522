#include "speed/audit_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "speed/error.hpp"
#include "wire/mutex.hpp"

namespace speed {

namespace {

// A FIFO that nobody reads is refused, and not waited for.
constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
constexpr mode_t others_write = 022;

// UTC with milliseconds, as Python's isoformat writes it.
std::string now() {
  const std::int64_t at_ms = fs::unix_ms();
  const std::time_t seconds = at_ms / 1000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  const std::string fraction = std::to_string(1000 + at_ms % 1000).substr(1);
  return std::string(text.data(), size) + "." + fraction + "+00:00";
}

void rename_if_there(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) fs::throw_errno("rename");
}

}  // namespace

struct SPEED_LOCAL AuditLog::State {
  const std::string path;
  const std::uint64_t max_bytes;
  const unsigned kept;
  Mutex lock = {};
  fs::Fd file SPEED_GUARDED_BY(lock) = {};
  bool is_torn SPEED_GUARDED_BY(lock) = false;  // a write broke off in the middle of a line

  void open() SPEED_REQUIRES(lock);
  void make_room(std::size_t bytes) SPEED_REQUIRES(lock);
  void rotate() SPEED_REQUIRES(lock);
  void append(const std::string& line) SPEED_REQUIRES(lock);

  [[noreturn]] void fail(const std::string& why) const {
    throw StorageError("the audit log " + path + " cannot be written: " + why + "; nothing was done");
  }
};

void AuditLog::State::open() {
  fs::Fd opened(::open(path.c_str(), flags, fs::private_file));
  if (!opened) fs::throw_errno("open");
  const struct stat status = fs::status_of(opened.get());
  const bool is_own = status.st_uid == geteuid() || status.st_uid == 0;
  if (!S_ISREG(status.st_mode) || !is_own || (status.st_mode & others_write) != 0) {
    fail("it is no regular file of this user, which nobody else may write");
  }
  file = std::move(opened);
}

// After a failure there may be no file at hand.
void AuditLog::State::make_room(std::size_t bytes) {
  if (!file) open();
  if (fs::file_bytes(file.get()) + bytes > max_bytes) rotate();
}

void AuditLog::State::rotate() {
  file.close();
  for (unsigned number = kept - 1; number > 0; --number) {
    rename_if_there(path + "." + std::to_string(number), path + "." + std::to_string(number + 1));
  }
  rename_if_there(path, path + ".1");
  is_torn = false;
  open();
}

// In one write: a line of another thread or process never stands in the middle.
void AuditLog::State::append(const std::string& line) {
  make_room(line.size());
  const std::string data = is_torn ? "\n" + line : line;
  const ssize_t written = ::write(file.get(), data.data(), data.size());
  if (written < 0) fs::throw_errno("write");
  const bool is_whole = static_cast<std::size_t>(written) == data.size();
  is_torn = !is_whole && (is_torn || written > 0);
  if (!is_whole) fail("a line did not fit");
}

AuditLog::AuditLog(const std::string& path, std::uint64_t max_bytes, unsigned kept)
    : state_(new State{std::filesystem::absolute(path).string(), max_bytes, kept}) {
  if (max_bytes < 1 || kept < 1) {
    throw ConfigurationError("an audit log keeps at least one byte, and one file beside its own");
  }
  try {
    state_->open();
  } catch (const std::system_error& error) {
    state_->fail(error.code().message());
  }
}

AuditLog::~AuditLog() = default;

void AuditLog::write(std::string_view object) {
  const std::string line = R"({"time":")" + now() + R"(",)" + std::string(object.substr(1)) + "\n";
  const MutexLock guard(state_->lock);
  try {
    state_->append(line);
  } catch (const std::system_error& error) {
    state_->fail(error.code().message());
  }
}

}  // namespace speed
