/* What a host remembers of a network filesystem. */
#include "shim.h"

static struct memory memories[SLOTS];
struct listing listings[SLOTS];

size_t slot_of(const char *path, unsigned kind) {
  uint64_t hash = 1469598103934665603u + kind;
  for (; *path != '\0'; ++path) hash = (hash ^ (unsigned char)*path) * 1099511628211u;
  return hash % SLOTS;
}

static void parent_of(const char *path, char *parent) {
  snprintf(parent, PATH_MAX, "%s", path);
  char *slash = strrchr(parent, '/');
  if (slash != NULL) *slash = '\0';
}

bool recalled(const char *path, enum kind kind, struct memory *found) {
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

void remember(const char *path, struct memory told) {
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
void inode_key(int fd, char *key) {
  struct stat status = {0};
  syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH);
  snprintf(key, PATH_MAX, "#%lu", (unsigned long)status.st_ino);
}

void opened(const char *path, int fd) {
  char key[PATH_MAX];
  inode_key(fd, key);
  pthread_mutex_lock(&lock);
  forget_name(path);
  forget_name(key);
  pthread_mutex_unlock(&lock);
}

/* A change of its own: the server's answer tells this host about name and directory. */
void changed(const char *path) {
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
