/* Listings, as old as the host remembers them: one buffer of linux_dirent64, which is what readdir64 returns as well. */
#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>

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

void end_stream(const void *directory) {
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

const void *by_number(int fd) { return (const void *)(uintptr_t)(fd + 1); }

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
