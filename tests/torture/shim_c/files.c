/* Opening files, and their attributes. */
#include "shim.h"

#include <dlfcn.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/vfs.h>

/* --- opening --- */

static const char *told_instead(const char *path, char *other) {
  const char *file = !is_mount                                                ? NULL
                     : strcmp(path, "/proc/self/mounts") == 0               ? "mounts"
                     : strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? "boot_id"
                                                                            : NULL;
  if (file == NULL) return path;
  snprintf(other, PATH_MAX + 16, "%s/%s", host, file);
  return other;
}

static int open_at(int dir, const char *name, int flags, mode_t mode) {
  char path[PATH_MAX], other[PATH_MAX + 16];
  struct memory known;
  name = told_instead(name, other);
  if (!is_remote(dir, name, path)) return (int)syscall(SYS_openat, dir, name, flags, mode);
  bool creates = (flags & O_CREAT) != 0;
  if (is_mount && !creates && recalled(path, ABSENT, &known)) return errno = ENOENT, -1;
  if (fault("open", path) == FAILED) return -1;
  int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
  if (fd >= 0 && creates) changed(path);
  if (fd >= 0) opened(path, fd);
  if (is_mount && fd < 0 && errno == ENOENT) {
    remember(path, (struct memory){.kind = ABSENT, .error = ENOENT});
    errno = ENOENT;
  }
  return fd;
}

#define MODE(flags)               \
  mode_t mode = 0;                \
  if ((flags) & O_CREAT) {        \
    va_list rest;                 \
    va_start(rest, flags);        \
    mode = va_arg(rest, mode_t);  \
    va_end(rest);                 \
  }
int open64(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags) return open_at(dir, path, flags, mode); }
int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat64_2(int dir, const char *path, int flags) { return open_at(dir, path, flags, 0); }
int open(const char *, int, ...) __attribute__((alias("open64")));
int openat(int, const char *, int, ...) __attribute__((alias("openat64")));
int __open_2(const char *, int) __attribute__((alias("__open64_2")));
int __openat_2(int, const char *, int) __attribute__((alias("__openat64_2")));

FILE *fopen64(const char *path, const char *mode) {
  char other[PATH_MAX + 16];
  return ((FILE * (*)(const char *, const char *)) real_dlsym(RTLD_NEXT, "fopen64"))(told_instead(path, other), mode);
}
FILE *fopen(const char *, const char *) __attribute__((alias("fopen64")));

/* --- attributes --- */

static int status_at(int dir, const char *name, int flags, enum kind kind, unsigned mask, void *told) {
  char path[PATH_MAX], key[PATH_MAX];
  size_t size = kind == STAT ? sizeof(struct stat) : sizeof(struct statx);
  struct memory known = {.kind = kind};
  bool remote = is_remote(dir, name, path), is_fd = name[0] == '\0';
  if (remote && fault("stat", path) == FAILED) return -1;
  remote = remote && is_mount;
  /* What this host writes itself it knows. */
  if (remote && is_fd && (syscall(SYS_fcntl, dir, F_GETFL) & O_ACCMODE) != O_RDONLY) remote = false;
  if (remote && is_fd) inode_key(dir, key);
  const char *place = is_fd ? key : path;
  if (remote && !is_fd && recalled(path, ABSENT, &known)) return errno = ENOENT, -1;
  if (remote && recalled(place, kind, &known)) {
    memcpy(told, &known.told, size);
    return 0;
  }
  long result = kind == STAT ? syscall(SYS_newfstatat, dir, name, told, flags)
                             : syscall(SYS_statx, dir, name, flags, mask, told);
  if (remote && result == 0) {
    memcpy(&known.told, told, size);
    known.kind = kind;
    remember(place, known);
  } else if (remote && errno == ENOENT && !is_fd) {
    remember(path, (struct memory){.kind = ABSENT, .error = ENOENT});
    errno = ENOENT;
  }
  return (int)result;
}

int fstatat64(int dir, const char *name, struct stat64 *told, int flags) {
  return status_at(dir, name, flags, STAT, 0, told);
}
int stat64(const char *path, struct stat64 *told) { return status_at(AT_FDCWD, path, 0, STAT, 0, told); }
int lstat64(const char *path, struct stat64 *told) {
  return status_at(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STAT, 0, told);
}
int fstat64(int fd, struct stat64 *told) { return status_at(fd, "", AT_EMPTY_PATH, STAT, 0, told); }
int fstatat(int dir, const char *name, struct stat *told, int flags) {
  return status_at(dir, name, flags, STAT, 0, told);
}
int stat(const char *path, struct stat *told) { return status_at(AT_FDCWD, path, 0, STAT, 0, told); }
int lstat(const char *path, struct stat *told) {
  return status_at(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STAT, 0, told);
}
int fstat(int fd, struct stat *told) { return status_at(fd, "", AT_EMPTY_PATH, STAT, 0, told); }
int statx(int dir, const char *name, int flags, unsigned mask, struct statx *told) {
  return status_at(dir, name, flags, STATX, mask, told);
}

int statfs64(const char *path, struct statfs64 *told) {
  char whole[PATH_MAX];
  int result = (int)syscall(SYS_statfs, path, told);
  if (result == 0 && is_mount && is_remote(AT_FDCWD, path, whole)) told->f_type = NFS_SUPER_MAGIC;
  return result;
}
int statfs(const char *, struct statfs *) __attribute__((alias("statfs64")));
