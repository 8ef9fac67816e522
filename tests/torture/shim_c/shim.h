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
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

/* steering.c: what the variables said, where a call goes, and what is to happen to it */
extern char root[PATH_MAX], host[PATH_MAX];
extern size_t root_length;
extern uint64_t stale_ms;
extern bool lies, is_mount;
extern pthread_mutex_t lock;
extern void *(*real_dlsym)(void *, const char *);
enum fault { NONE, FAILED, CUT_SHORT, ANSWER_LOST };
void begin(void);
uint64_t drawn(uint64_t below);
uint64_t now_ms(void);
bool path_of(int fd, char *path);
bool is_remote(int dir, const char *name, char *path);
bool is_remote_fd(int fd);
enum fault fault(const char *call, const char *path);
enum fault fault_of(const char *call, int fd);

/* memory.c: what this host remembers */
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
extern struct listing listings[SLOTS];
size_t slot_of(const char *path, unsigned kind);
bool recalled(const char *path, enum kind kind, struct memory *found);
void remember(const char *path, struct memory told);
void inode_key(int fd, char *key);
void opened(const char *path, int fd);
void changed(const char *path);

/* listings.c */
void end_stream(const void *directory);
const void *by_number(int fd);

#pragma GCC visibility pop
