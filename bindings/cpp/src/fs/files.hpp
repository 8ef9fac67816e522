// Opening what others may have put there: no link is followed, nothing blocks, owners are checked (L-10).
// Failures are std::system_error unless said otherwise.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "wire/time.hpp"
#include "wire/value/bytes.hpp"

namespace speed::fs {

// The same file under a descriptor above those of standard input, output and error: a program that has closed these may
// write to them all the same, or open others in their place. None of none; errno tells why.
int above_standard(int fd) noexcept;

// An open descriptor, never one of the standard ones; closed when it goes.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(above_standard(fd)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { close(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void close() noexcept;
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// A file is not the regular, singly linked file of an expected owner that the rules ask for.
class UntrustedFileError : public std::system_error {
 public:
  explicit UntrustedFileError(const char* why) : std::system_error(EPERM, std::generic_category(), why) {}
};

inline constexpr mode_t private_directory = 0700;
inline constexpr mode_t private_file = 0600;
inline constexpr mode_t sealed_file = 0440;  // what is left of the bits of a file that nobody writes any more
inline constexpr mode_t shared_directory = 02770;
inline constexpr mode_t shared_file = 0660;

[[noreturn]] void throw_errno(const std::string& doing);

// Who may own the files of a directory: its owner and this user; in a group's, whoever could make them.
struct Owners {
  uid_t directory = 0;
  uid_t user = 0;
  bool anybody = false;
  bool hold(uid_t uid) const { return anybody || uid == directory || uid == user; }
};
Owners owners_of(int dir_fd);

Fd open_directory(const std::string& path);
Fd open_directory_at(int dir_fd, const std::string& name);
// UntrustedFileError for what is none, as far as the failure is not the system's.
Fd open_regular(int dir_fd, const std::string& name, const Owners& owners, bool writable = false);
Fd create_file(int dir_fd, const std::string& name, bool append);  // EEXIST when the name is taken
// A file that is made if it is not there: private, or the group's, whatever the umask.
Fd open_or_make(int dir_fd, const std::string& name, int flags);
// Gives the group its rights to what was made, unless another member made it.
void share(int fd, mode_t mode);
Fd duplicate(const Fd& fd);  // none of none
struct stat status_of(int fd);
bool is_gone(const std::system_error& error);  // whether there is no such file, or none that may be trusted
std::uint64_t file_bytes(int fd);
std::uint64_t end_of(int fd) noexcept;  // likewise, in a third of the time; moves the position of the descriptor

void write_all(int fd, ByteView data);
void write_at_start(int fd, ByteView data);  // one write, whole for every reader; a short one is an error
// Up to `data.size()` bytes from `offset`; fewer only at the end of the file.
std::size_t read_at(int fd, std::span<std::byte> data, std::uint64_t offset);

// A rename failed, and whether it took place all the same could not be found out.
class UnclearRenameError : public std::system_error {
 public:
  explicit UnclearRenameError(int error) : std::system_error(error, std::generic_category(), "rename") {}
};

// Renames. Only this process uses the name `temporary`. A network filesystem may repeat a request that was carried out,
// and report the failure of the repetition: opening the old name tells (L-24).
void put_in_place(int dir_fd, const std::string& temporary, const std::string& name);

// A temporary name that nobody else has, whatever the process, its threads and its namespace.
std::string unique_name(const std::string& token);

// Puts data in place under `name` by a temporary file and a rename; the descriptor stays with the new file. Durable: the
// file is flushed before the rename, or a power cut may keep the name without the data, and the directory after it.
Fd replace_file(int dir_fd, const std::string& name, ByteView data, bool durable = false);
bool unlink_quietly(int dir_fd, const std::string& name);
Bytes read_small(int dir_fd, const std::string& name, const Owners& owners, std::size_t limit);

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;  // a link to one is none
};
std::vector<DirectoryEntry> list_directory(int dir_fd, std::size_t limit);
// All names, one at a time: there may be a million.
void for_each_name(int dir_fd, const std::function<void(const char* name)>& take);

// Whether a directory is one of a group root: then what is made in it is the group's as well.
bool is_groups(const std::string& directory);
// Makes a directory unless something is there: private, or the group's, whatever the umask.
void make_directory(const std::string& path);
// The same; RootError for a link, or a foreign owner where it is no group's.
void ensure_directory(const std::string& path);
void sync_directory(const std::string& path);

// Locks between processes: the kernel holds them, so each goes with its process, however that ends.
// Threads: each object for one thread.

// flock(2) of a file, which stays and means nothing by itself.
class Lock {
 public:
  // Null while another has it for `timeout`; std::system_error.
  static std::optional<Lock> take(const std::string& path, Duration timeout);
  Lock(Lock&&) = default;
  Lock& operator=(Lock&&) = delete;
  ~Lock();  // a child that was forked meanwhile does not keep it

 private:
  explicit Lock(Fd fd) : fd_(std::move(fd)) {}
  static std::optional<Lock> try_once(const std::string& path);

  Fd fd_;
};

}  // namespace speed::fs
