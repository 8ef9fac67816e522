/* System calls on a directory that go wrong, for the process that loads this library with LD_PRELOAD.
 *
 * SHIM_ROOT is the directory, without links, and SHIM_HOST one that steers. While SHIM_HOST/faults exists, each call is
 * noted in SHIM_HOST/calls, as `call kind-of-file`, and may go wrong. The file holds `call kind errno use lasts`: from
 * that use on, once or as long as it lasts; errno 0 cuts a read or write short. Or it is empty: then SHIM_PERMILLE of
 * the calls fail, are cut short, or are carried out and then reported as failed, as where a network filesystem repeats a
 * request whose answer was lost.
 *
 * With SHIM_STALE_MS the directory is such a filesystem: each process is a host of its own, with SHIM_HOST/boot_id and
 * SHIM_HOST/mounts instead of those of /proc, and with a memory of attributes, names and absences that is up to so old.
 * As on NFS its own changes are seen at once, and opening a file asks the server. There are no FIFOs. SHIM_LIES: a
 * segment that is renamed into place is dropped (a mutation). SHIM_SEED decides what is left to chance.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static char root[PATH_MAX], host[PATH_MAX];
static size_t root_length;
static uint64_t stale_ms, permille, seed;
static bool lies, is_mount;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *(*real_dlsym)(void *, const char *);

static uint64_t number(const char *variable) {
  const char *given = getenv(variable);
  return given == NULL ? 0 : strtoull(given, NULL, 10);
}

__attribute__((constructor)) static void begin(void) {
  real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  const char *given = getenv("SHIM_ROOT");
  if (given == NULL || real_dlsym == NULL) return;
  snprintf(host, sizeof host, "%s", getenv("SHIM_HOST"));
  is_mount = getenv("SHIM_STALE_MS") != NULL;
  stale_ms = number("SHIM_STALE_MS");
  permille = number("SHIM_PERMILLE");
  seed = number("SHIM_SEED") * 2654435761u + 88172645463325252u;
  lies = getenv("SHIM_LIES") != NULL;
  snprintf(root, sizeof root, "%s", given);
  root_length = strlen(root);
}

static uint64_t drawn(uint64_t below) {
  pthread_mutex_lock(&lock);
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  uint64_t value = seed;
  pthread_mutex_unlock(&lock);
  return below ? value % below : 0;
}

static uint64_t now_ms(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- places --- */

static bool path_of(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = '\0';
  return length > 0;
}

/* Whether a name lies in the directory; `path` becomes its whole path. */
static bool is_remote(int dir, const char *name, char *path) {
  int before = errno;
  path[0] = '\0';
  if (root_length == 0) return false;
  if (name[0] == '/') {
    snprintf(path, PATH_MAX, "%s", name);
  } else if (dir != AT_FDCWD && path_of(dir, path) && name[0] != '\0' && strcmp(name, ".") != 0) {
    size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s", name);
  }
  errno = before;
  return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == '\0');
}

static bool is_remote_fd(int fd) {
  char path[PATH_MAX];
  return is_remote(fd, "", path);
}

/* --- faults --- */

enum fault { NONE, FAILED, CUT_SHORT, ANSWER_LOST };

static const char *kind_of(const char *path) {
  static const struct {
    const char *part, *kind;
  } kinds[] = {{"/.tmp-", "temporary"}, {".lane", "segment"}, {"/cursor.", "cursor"},      {".fence", "fence"},
               {"/bell", "bell"},       {".node", "entry"},   {"/.claims/", "claim"},      {"/.claims", "claims"},
               {"/quarantine", "quarantine"}, {"/inbox/", "lane"}, {"/inbox", "inbox"},
               {"/speed_registry", "registry"}, {"/speed.key", "key"}};
  for (size_t one = 0; one < sizeof kinds / sizeof *kinds; ++one)
    if (strstr(path + root_length, kinds[one].part) != NULL) return kinds[one].kind;
  return path[root_length] == '\0' ? "root" : "node";
}

/* The text of a file in the host's directory; false where there is none. */
static bool steered(const char *file, char *text, size_t size) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof path, "%s/%s", host, file);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return false;
  long length = syscall(SYS_read, fd, text, size - 1);
  text[length < 0 ? 0 : length] = '\0';
  syscall(SYS_close, fd);
  return true;
}

static void note(const char *call, const char *kind, const char *how) {
  char path[PATH_MAX + 16], line[64];
  snprintf(path, sizeof path, "%s/calls", host);
  int length = snprintf(line, sizeof line, "%s %s %s\n", call, kind, how);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  syscall(SYS_write, fd, line, length);
  syscall(SYS_close, fd);
}

/* Whether this is the use that the plan names; `error` becomes what it names. */
static bool is_planned(const char *plan, const char *call, const char *kind, int *error) {
  static char last[128];
  static int uses;
  char call_named[16], kind_named[16];
  int use, lasts;
  if (sscanf(plan, "%15s %15s %d %d %d", call_named, kind_named, error, &use, &lasts) != 5) return false;
  if (strcmp(call, call_named) != 0 || strcmp(kind, kind_named) != 0) return false;
  pthread_mutex_lock(&lock);
  if (strcmp(last, plan) != 0) uses = 0;
  snprintf(last, sizeof last, "%s", plan);
  ++uses;
  bool is_it = uses == use || (lasts && uses > use);
  pthread_mutex_unlock(&lock);
  return is_it;
}

static enum fault chosen(const char *plan, const char *call, const char *path, int *error) {
  if (plan[0] != '\0') {
    bool planned = is_planned(plan, call, kind_of(path), error);
    note(call, kind_of(path), planned ? "failed" : "passed");
    return !planned ? NONE : *error == 0 ? CUT_SHORT : FAILED;
  }
  if (drawn(1000) >= permille) return NONE;
  *error = drawn(2) ? EIO : ESTALE;
  return drawn(2) ? FAILED : drawn(2) ? CUT_SHORT : ANSWER_LOST;
}

/* What is to happen to a call on a path; sets errno for one that fails, and only then. */
static enum fault fault(const char *call, const char *path) {
  char plan[128];
  int before = errno, error = 0;
  enum fault what = steered("faults", plan, sizeof plan) ? chosen(plan, call, path, &error) : NONE;
  errno = what == FAILED ? error : before;
  return what;
}

static enum fault fault_of(const char *call, int fd) {
  char path[PATH_MAX];
  return root_length && is_remote(fd, "", path) ? fault(call, path) : NONE;
}

/* --- what this host remembers --- */

enum kind { STAT, STATX, ABSENT };
struct memory {
  char *path;
  enum kind kind;
  int error;
  uint64_t since, until;
  union {
    struct stat stat;
    struct statx statx;
  } told;
};
struct listing {
  char *path, *data;
  size_t size;
  uint64_t since, until;
};
#define SLOTS 4096
static struct memory memories[SLOTS];
static struct listing listings[SLOTS];

static size_t slot_of(const char *path, unsigned kind) {
  uint64_t hash = 1469598103934665603u + kind;
  for (; *path != '\0'; ++path) hash = (hash ^ (unsigned char)*path) * 1099511628211u;
  return hash % SLOTS;
}

static void parent_of(const char *path, char *parent) {
  snprintf(parent, PATH_MAX, "%s", path);
  char *slash = strrchr(parent, '/');
  if (slash != NULL) *slash = '\0';
}

static bool recalled(const char *path, enum kind kind, struct memory *found) {
  char parent[PATH_MAX];
  parent_of(path, parent);
  pthread_mutex_lock(&lock);
  const struct memory *one = &memories[slot_of(path, kind)];
  const struct listing *directory = &listings[slot_of(parent, 0)];
  bool is_there = one->path != NULL && one->kind == kind && strcmp(one->path, path) == 0 && now_ms() < one->until;
  /* A directory that was read again meanwhile shows what came. */
  if (is_there && one->error && directory->path != NULL && strcmp(directory->path, parent) == 0)
    is_there = one->since > directory->since;
  if (is_there) *found = *one;
  pthread_mutex_unlock(&lock);
  return is_there;
}

static void remember(const char *path, struct memory told) {
  uint64_t lasts = drawn(stale_ms + 1);
  pthread_mutex_lock(&lock);
  struct memory *one = &memories[slot_of(path, told.kind)];
  free(one->path);
  told.path = strdup(path);
  told.since = now_ms();
  told.until = told.since + lasts;
  *one = told;
  pthread_mutex_unlock(&lock);
}

static void forget_name(const char *path) {
  for (unsigned kind = STAT; kind <= ABSENT; ++kind) memories[slot_of(path, kind)].until = 0;
}

/* By number: what descriptors lead to. */
static void inode_key(int fd, char *key) {
  struct stat status = {0};
  syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH);
  snprintf(key, PATH_MAX, "#%lu", (unsigned long)status.st_ino);
}

static void opened(const char *path, int fd) {
  char key[PATH_MAX];
  inode_key(fd, key);
  pthread_mutex_lock(&lock);
  forget_name(path);
  forget_name(key);
  pthread_mutex_unlock(&lock);
}

/* A change of its own: the server's answer tells this host about name and directory. */
static void changed(const char *path) {
  char parent[PATH_MAX], key[PATH_MAX];
  struct stat status = {0};
  parent_of(path, parent);
  syscall(SYS_newfstatat, AT_FDCWD, parent, &status, 0);
  snprintf(key, sizeof key, "#%lu", (unsigned long)status.st_ino);
  pthread_mutex_lock(&lock);
  forget_name(path);
  forget_name(parent);
  forget_name(key);
  listings[slot_of(parent, 0)].until = 0;
  pthread_mutex_unlock(&lock);
}

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

/* --- listings: one buffer of linux_dirent64, which is what readdir64 returns as well --- */

struct stream {
  const void *directory; /* a DIR, or a descriptor as a number */
  char *data;
  size_t size, at;
  struct stream *next;
};
static struct stream *streams;

static char *read_all(int fd, size_t *size) {
  char link[64], *data = NULL;
  size_t room = 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int own = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  *size = 0;
  for (long count = 1; own >= 0 && count > 0; *size += (size_t)count) {
    if (room - *size < 65536) data = realloc(data, room += 1 << 20);
    count = syscall(SYS_getdents64, own, data + *size, room - *size);
    if (count < 0) count = 0;
  }
  if (own >= 0) syscall(SYS_close, own);
  return data;
}

/* A copy of what this host believes to lie in a directory. */
static struct stream *stream_of(int fd, const void *directory) {
  char path[PATH_MAX];
  uint64_t lasts = drawn(stale_ms + 1);
  path_of(fd, path);
  pthread_mutex_lock(&lock);
  struct stream *stream = streams;
  while (stream != NULL && stream->directory != directory) stream = stream->next;
  if (stream == NULL) {
    struct listing *known = &listings[slot_of(path, 0)];
    if (known->path == NULL || strcmp(known->path, path) != 0 || now_ms() >= known->until) {
      free(known->path);
      free(known->data);
      known->path = strdup(path);
      known->data = read_all(fd, &known->size);
      known->since = now_ms();
      known->until = known->since + lasts;
    }
    stream = calloc(1, sizeof *stream);
    *stream = (struct stream){directory, malloc(known->size + 1), known->size, 0, streams};
    memcpy(stream->data, known->data, known->size);
    streams = stream;
  }
  pthread_mutex_unlock(&lock);
  return stream;
}

static void end_stream(const void *directory) {
  pthread_mutex_lock(&lock);
  for (struct stream **place = &streams; *place != NULL; place = &(*place)->next) {
    struct stream *one = *place;
    if (one->directory != directory) continue;
    *place = one->next;
    free(one->data);
    free(one);
    break;
  }
  pthread_mutex_unlock(&lock);
}

static const void *by_number(int fd) { return (const void *)(uintptr_t)(fd + 1); }

struct dirent64 *readdir64(DIR *directory) {
  if (fault_of("list", dirfd(directory)) == FAILED) return NULL;
  if (!is_mount || !is_remote_fd(dirfd(directory)))
    return ((struct dirent64 * (*)(DIR *)) real_dlsym(RTLD_NEXT, "readdir64"))(directory);
  struct stream *stream = stream_of(dirfd(directory), directory);
  if (stream->at >= stream->size) return NULL;
  struct dirent64 *entry = (struct dirent64 *)(stream->data + stream->at);
  stream->at += entry->d_reclen;
  return entry;
}
struct dirent *readdir(DIR *directory) { return (struct dirent *)readdir64(directory); }

int closedir(DIR *directory) {
  end_stream(directory);
  return ((int (*)(DIR *))real_dlsym(RTLD_NEXT, "closedir"))(directory);
}

void rewinddir(DIR *directory) {
  end_stream(directory);
  ((void (*)(DIR *))real_dlsym(RTLD_NEXT, "rewinddir"))(directory);
}

ssize_t getdents64(int fd, void *buffer, size_t size) {
  if (fault_of("list", fd) == FAILED) return -1;
  if (!is_mount || !is_remote_fd(fd)) return syscall(SYS_getdents64, fd, buffer, size);
  struct stream *stream = stream_of(fd, by_number(fd));
  size_t taken = 0;
  while (stream->at + taken < stream->size) {
    size_t length = ((struct dirent64 *)(stream->data + stream->at + taken))->d_reclen;
    if (taken + length > size) break;
    taken += length;
  }
  memcpy(buffer, stream->data + stream->at, taken);
  stream->at += taken;
  return (ssize_t)taken;
}

off_t lseek(int fd, off_t offset, int whence) {
  if (root_length && offset == 0 && whence == SEEK_SET) end_stream(by_number(fd));
  return syscall(SYS_lseek, fd, offset, whence);
}
off_t lseek64(int, off_t, int) __attribute__((alias("lseek")));

int close(int fd) {
  if (root_length) end_stream(by_number(fd));
  return (int)syscall(SYS_close, fd);
}

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
