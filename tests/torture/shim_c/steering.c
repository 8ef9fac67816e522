/* What the variables said, where a call goes, and what is to happen to it. */
#include "shim.h"

#include <dlfcn.h>
#include <time.h>

char root[PATH_MAX], host[PATH_MAX];
size_t root_length;
uint64_t stale_ms;
bool lies, is_mount;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void *(*real_dlsym)(void *, const char *);
static uint64_t permille, seed;

static uint64_t number(const char *variable) {
  const char *given = getenv(variable);
  return given == NULL ? 0 : strtoull(given, NULL, 10);
}

__attribute__((constructor)) void begin(void) {
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

uint64_t drawn(uint64_t below) {
  pthread_mutex_lock(&lock);
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  uint64_t value = seed;
  pthread_mutex_unlock(&lock);
  return below ? value % below : 0;
}

uint64_t now_ms(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- places --- */

bool path_of(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = '\0';
  return length > 0;
}

/* Whether a name lies in the directory; `path` becomes its whole path. */
bool is_remote(int dir, const char *name, char *path) {
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

bool is_remote_fd(int fd) {
  char path[PATH_MAX];
  return is_remote(fd, "", path);
}

/* --- faults --- */

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
enum fault fault(const char *call, const char *path) {
  char plan[128];
  int before = errno, error = 0;
  enum fault what = steered("faults", plan, sizeof plan) ? chosen(plan, call, path, &error) : NONE;
  errno = what == FAILED ? error : before;
  return what;
}

enum fault fault_of(const char *call, int fd) {
  char path[PATH_MAX];
  return root_length && is_remote(fd, "", path) ? fault(call, path) : NONE;
}
