#include "fs/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "core/trust.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"
#include "speed/large.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int sound_flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr int read_flags = O_RDONLY | sound_flags;
constexpr int most_tries = 1000;
constexpr int make_flags = O_CREAT | O_NOFOLLOW | O_CLOEXEC;

Fd checked(int fd, const std::string& doing) {
  if (fd < 0) throw_errno(doing);
  return Fd(fd);
}

const char* why_untrusted(const struct stat& status, const Owners& owners) {
  if (!S_ISREG(status.st_mode)) return "not a regular file";
  if (!owners.hold(status.st_uid)) return "foreign owner";
  return status.st_nlink > 1 ? "has several names" : nullptr;
}

bool is_directory(int dir_fd, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat status{};
  return fstatat(dir_fd, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

Fd open_any(int dir_fd, const std::string& name, const Owners& owners, bool writable) {
  Fd fd(openat(dir_fd, name.c_str(), writable ? O_RDWR | sound_flags : read_flags));
  if (fd) return fd;
  const std::system_error error(errno, std::generic_category(), name);
  struct stat status{};
  if (is_gone(error) || fstatat(dir_fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) throw error;
  if (const char* const why = why_untrusted(status, owners)) throw UntrustedFileError(why);
  if ((status.st_mode & S_IRUSR) == 0) throw UntrustedFileError("not readable");
  throw error;  // a sound file: it was the system that failed
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// While `take` wants more.
void walk(int dir_fd, const std::function<bool(const dirent&)>& take) {
  Fd own = open_directory_at(dir_fd, ".");  // a duplicate would share its reading position
  const std::unique_ptr<DIR, CloseDirectory> directory(fdopendir(own.get()));
  if (directory == nullptr) throw_errno("fdopendir");
  own.release();  // `directory` closes it
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr && errno != 0) throw_errno("readdir");  // half a listing would hide files
    if (entry == nullptr) return;
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !take(*entry)) return;
  }
}

}  // namespace

int above_standard(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int why = errno;
  ::close(fd);
  errno = why;
  return own;
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void throw_errno(const std::string& doing) { throw std::system_error(errno, std::generic_category(), doing); }

Owners owners_of(int dir_fd) {
  const struct stat status = status_of(dir_fd);
  return {status.st_uid, geteuid(), core::is_shared(status.st_mode)};
}

Fd open_directory(const std::string& path) { return checked(::open(path.c_str(), directory_flags), path); }

Fd open_directory_at(int dir_fd, const std::string& name) {
  return checked(openat(dir_fd, name.c_str(), directory_flags), name);
}

Fd open_regular(int dir_fd, const std::string& name, const Owners& owners, bool writable) {
  for (int tries = 0; tries < most_tries; ++tries) {
    Fd fd = open_any(dir_fd, name, owners, writable);
    const struct stat status = status_of(fd.get());
    if (const char* const why = why_untrusted(status, owners)) throw UntrustedFileError(why);
    if (status.st_nlink > 0) return fd;
    sched_yield();  // it is being replaced or removed
  }
  throw std::system_error(ENOENT, std::generic_category(), name);
}

Fd create_file(int dir_fd, const std::string& name, bool append) {
  return open_or_make(dir_fd, name, O_WRONLY | O_EXCL | (append ? O_APPEND : 0));
}

Fd open_or_make(int dir_fd, const std::string& name, int flags) {
  const bool shared = dir_fd == AT_FDCWD ? is_groups(directory_of(name)) : core::is_shared(status_of(dir_fd).st_mode);
  Fd fd = checked(openat(dir_fd, name.c_str(), flags | make_flags, shared ? shared_file : private_file), name);
  if (shared) share(fd.get(), shared_file);
  return fd;
}

void share(int fd, mode_t mode) {
  const struct stat status = status_of(fd);
  const bool lacks = (status.st_mode & ~static_cast<mode_t>(S_IFMT)) != mode && status.st_uid == geteuid();
  if (lacks && fchmod(fd, mode) != 0) throw_errno("fchmod");
}

Fd duplicate(const Fd& fd) {
  if (!fd) return {};
  Fd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) throw_errno("dup");
  return copy;
}

struct stat status_of(int fd) {
  struct stat status{};
  if (fstat(fd, &status) != 0) throw_errno("fstat");
  return status;
}

std::uint64_t file_bytes(int fd) { return static_cast<std::uint64_t>(status_of(fd).st_size); }

std::uint64_t end_of(int fd) noexcept { return static_cast<std::uint64_t>(std::max<off_t>(0, lseek(fd, 0, SEEK_END))); }

void write_all(int fd, ByteView data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write");
    data = data.subspan(static_cast<std::size_t>(written));
  }
}

void write_at_start(int fd, ByteView data) {
  const ssize_t written = pwrite(fd, data.data(), data.size(), 0);
  if (written < 0) throw_errno("pwrite");
  if (static_cast<std::size_t>(written) < data.size()) throw std::system_error(EIO, std::generic_category(), "pwrite");
}

std::size_t read_at(int fd, std::span<std::byte> data, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t count = pread(fd, data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("pread");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

bool is_gone(const std::system_error& error) {
  return error.code().value() == ENOENT || dynamic_cast<const UntrustedFileError*>(&error) != nullptr;
}

void put_in_place(int dir_fd, const std::string& temporary, const std::string& name) {
  if (renameat(dir_fd, temporary.c_str(), dir_fd, name.c_str()) == 0) return;
  const int error = errno;
  const Fd old(openat(dir_fd, temporary.c_str(), read_flags));
  if (!old && errno == ENOENT) return;
  if (!old) throw UnclearRenameError(error);
  throw std::system_error(error, std::generic_category(), name);
}

std::string unique_name(const std::string& token) {
  std::array<std::byte, 8> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) throw_errno("getrandom");
  return wire::temporary_name(token + "-" + std::to_string(getpid()) + "-" + wire::to_hex(random));
}

Fd replace_file(int dir_fd, const std::string& name, ByteView data, bool durable) {
  const std::string temporary = wire::temporary_name(name);
  unlink_quietly(dir_fd, temporary);  // left by a killed predecessor of the same role
  Fd fd = create_file(dir_fd, temporary, false);
  try {
    write_all(fd.get(), data);
    if (durable && fsync(fd.get()) != 0) throw_errno(name);
    put_in_place(dir_fd, temporary, name);
    if (durable && fsync(dir_fd) != 0) throw_errno(name);
  } catch (const std::system_error&) {
    unlink_quietly(dir_fd, temporary);
    throw;
  }
  return fd;
}

bool unlink_quietly(int dir_fd, const std::string& name) { return unlinkat(dir_fd, name.c_str(), 0) == 0; }

Bytes read_small(int dir_fd, const std::string& name, const Owners& owners, std::size_t limit) {
  const Fd fd = open_regular(dir_fd, name, owners);
  Bytes data(limit);
  data.resize(read_at(fd.get(), data, 0));
  return data;
}

std::vector<DirectoryEntry> list_directory(int dir_fd, std::size_t limit) {
  std::vector<DirectoryEntry> entries;
  walk(dir_fd, [&](const dirent& entry) {
    entries.push_back({entry.d_name, is_directory(dir_fd, entry)});
    return entries.size() < limit;
  });
  return entries;
}

void for_each_name(int dir_fd, const std::function<void(const char*)>& take) {
  walk(dir_fd, [&](const dirent& entry) {
    take(entry.d_name);
    return true;
  });
}

bool is_groups(const std::string& directory) {
  struct stat status{};
  if (::stat(directory.c_str(), &status) != 0) throw_errno(directory);
  return core::is_shared(status.st_mode);
}

void make_directory(const std::string& path) {
  if (mkdir(path.c_str(), private_directory) != 0) {
    if (errno != EEXIST) throw_errno(path);
    return;
  }
  if (is_groups(directory_of(path))) share(open_directory(path).get(), shared_directory);
}

void ensure_directory(const std::string& path) {
  try {
    make_directory(path);
  } catch (const std::system_error& error) {
    throw RootError("cannot make the directory " + path + ": " + error.code().message());
  }
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw RootError(path + " is not a directory; remove it");
  }
  if (status.st_uid != geteuid() && !core::is_shared(status.st_mode)) {
    throw RootError(path + " belongs to user " + std::to_string(status.st_uid) + "; remove it or use another root");
  }
}

void sync_directory(const std::string& path) {
  const Fd fd = open_directory(path);
  if (fsync(fd.get()) != 0) throw_errno(path);
}

namespace {

constexpr Duration pause = 5ms;  // nothing tells when a lock is let go of

}  // namespace

std::optional<Lock> Lock::take(const std::string& path, Duration timeout) {
  const TimePoint until = monotonic_now() + timeout;
  while (true) {
    if (std::optional<Lock> lock = try_once(path)) return lock;
    if (monotonic_now() >= until) return std::nullopt;
    std::this_thread::sleep_for(pause);
    look_for_interruption();
  }
}

std::optional<Lock> Lock::try_once(const std::string& path) {
  Fd fd = open_or_make(AT_FDCWD, path, O_RDWR | O_NONBLOCK);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
    throw_errno(path);
  }
  if (status_of(fd.get()).st_nlink == 0)
    return std::nullopt;  // somebody removed it: the lock of a file that nobody finds
  return Lock(std::move(fd));
}

Lock::~Lock() {
  if (fd_) flock(fd_.get(), LOCK_UN);
}

}  // namespace speed::fs

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
