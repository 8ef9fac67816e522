/* Changing names and contents; and the way in for who asks the C library itself. */
#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/uio.h>

/* --- changes: a request may be repeated after it was carried out --- */

static int answered(enum fault fault, long result, int repeated) {
  if (result == 0 && fault == ANSWER_LOST) return errno = repeated, -1;
  return (int)result;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  char path[PATH_MAX], new_path[PATH_MAX];
  bool remote = is_remote(from_dir, from, path) & is_remote(to_dir, to, new_path);
  if (!remote) return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
  enum fault what = fault("rename", new_path);
  if (what == FAILED) return -1;
  size_t length = strlen(to);
  if (lies && length > 5 && strcmp(to + length - 5, ".lane") == 0) return unlinkat(from_dir, from, 0);
  long result = syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
  int before = errno;
  changed(path);
  changed(new_path);
  errno = before;
  return answered(what, result, ENOENT);
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
  return renameat2(from_dir, from, to_dir, to, 0);
}
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

static int change(const char *call, int dir, const char *name, int repeated, long number, long argument) {
  char path[PATH_MAX];
  if (!is_remote(dir, name, path)) return (int)syscall(number, dir, name, argument);
  enum fault what = fault(call, path);
  if (what == FAILED) return -1;
  long result = syscall(number, dir, name, argument);
  int before = errno;
  changed(path);
  errno = before;
  return answered(what, result, repeated);
}
int mkdirat(int dir, const char *name, mode_t mode) { return change("mkdir", dir, name, EEXIST, SYS_mkdirat, mode); }
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int unlinkat(int dir, const char *name, int flags) {
  return change("unlink", dir, name, ENOENT, SYS_unlinkat, flags);
}
int fchmodat(int dir, const char *name, mode_t mode, int flags) {
  (void)flags;
  return change("chmod", dir, name, 0, SYS_fchmodat, mode);
}
int chmod(const char *path, mode_t mode) { return fchmodat(AT_FDCWD, path, mode, 0); }
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int linkat(int from_dir, const char *from, int dir, const char *name, int flags) {
  char path[PATH_MAX];
  bool remote = is_remote(dir, name, path);
  enum fault what = remote ? fault("link", path) : NONE;
  if (what == FAILED) return -1;
  long result = syscall(SYS_linkat, from_dir, from, dir, name, flags);
  int before = errno;
  if (remote) changed(path);
  errno = before;
  return answered(what, result, EEXIST);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int mkfifoat(int dir, const char *name, mode_t mode) {
  char path[PATH_MAX];
  bool remote = is_remote(dir, name, path);
  if (remote && is_mount) return errno = EOPNOTSUPP, -1;
  if (remote && fault("fifo", path) == FAILED) return -1;
  return (int)syscall(SYS_mknodat, dir, name, mode | S_IFIFO, 0);
}
int mkfifo(const char *path, mode_t mode) { return mkfifoat(AT_FDCWD, path, mode); }

/* --- contents --- */

static size_t shortened(size_t size) { return size > 1 ? 1 + drawn(size - 1) : size; }

ssize_t write(int fd, const void *data, size_t size) {
  enum fault what = fault_of("write", fd);
  if (what == FAILED) return -1;
  return syscall(SYS_write, fd, data, what == CUT_SHORT ? shortened(size) : size);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  enum fault what = fault_of("write", fd);
  if (what == FAILED) return -1;
  struct iovec first = {parts[0].iov_base, what == CUT_SHORT ? shortened(parts[0].iov_len) : parts[0].iov_len};
  return what == CUT_SHORT ? syscall(SYS_writev, fd, &first, 1) : syscall(SYS_writev, fd, parts, count);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
  enum fault what = fault_of("pwrite", fd);
  if (what == FAILED) return -1;
  if (what == ANSWER_LOST) syscall(SYS_pwrite64, fd, data, size, offset); /* and once more */
  return syscall(SYS_pwrite64, fd, data, what == CUT_SHORT ? shortened(size) : size, offset);
}
ssize_t pwrite(int, const void *, size_t, off_t) __attribute__((alias("pwrite64")));
ssize_t read(int fd, void *data, size_t size) {
  enum fault what = fault_of("read", fd);
  if (what == FAILED) return -1;
  return syscall(SYS_read, fd, data, what == CUT_SHORT ? shortened(size) : size);
}
ssize_t pread64(int fd, void *data, size_t size, off_t offset) {
  enum fault what = fault_of("read", fd);
  if (what == FAILED) return -1;
  return syscall(SYS_pread64, fd, data, what == CUT_SHORT ? shortened(size) : size, offset);
}
ssize_t pread(int, void *, size_t, off_t) __attribute__((alias("pread64")));
int fsync(int fd) { return fault_of("fsync", fd) == FAILED ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return fault_of("fsync", fd) == FAILED ? -1 : (int)syscall(SYS_fdatasync, fd); }

/* --- who asks the C library itself, as JNA does, gets the functions above --- */

#define OWN(name) {#name, (void *)(uintptr_t)name}
static const struct {
  const char *name;
  void *function;
} own[] = {OWN(open),      OWN(open64),   OWN(openat), OWN(openat64), OWN(close),  OWN(read),       OWN(pread),
           OWN(pread64),   OWN(write),    OWN(writev), OWN(pwrite),   OWN(pwrite64), OWN(statx),    OWN(lseek),
           OWN(getdents64), OWN(mkdirat), OWN(mkdir),  OWN(unlinkat), OWN(unlink), OWN(renameat),   OWN(rename),
           OWN(linkat),    OWN(link),     OWN(mkfifo), OWN(fsync),    OWN(fdatasync), OWN(fstatat64), OWN(fstat64),
           OWN(stat64),    OWN(lstat64),  OWN(chmod)};

void *dlsym(void *library, const char *name) {
  if (real_dlsym == NULL) begin();
  for (size_t one = 0; root_length && library != RTLD_NEXT && one < sizeof own / sizeof *own; ++one)
    if (strcmp(own[one].name, name) == 0) return own[one].function;
  return real_dlsym(library, name);
}
