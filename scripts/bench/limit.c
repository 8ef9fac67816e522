/* The limit: what two processes that meet in files cannot beat. Append an envelope's worth of bytes, ring a FIFO, read,
   answer in the same way; no format, no cryptography, no checks. Polling leaves the bell out: both sides read until
   something is there, which costs a core each.
     limit server|client WORK [poll]      speaks as contenders/process.py does; built by scripts/bench/build */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ENVELOPE_BYTES = 300, RING_BYTES = 16 };

/* One direction: the sender appends and rings, the receiver is rung and reads. */
struct way {
    int lane, bell;
    int polls;
};

static int opened(const char *work, const char *name, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", work, name);
    int descriptor = open(path, flags, 0600);
    if (descriptor < 0) {
        perror(path);
        exit(1);
    }
    return descriptor;
}

static void make_bell(const char *work, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", work, name);
    if (mkfifo(path, 0600) != 0) {
        perror(path);
        exit(1);
    }
}

static struct way way_of(const char *work, const char *lane, const char *bell, int polls) {
    /* Read-write: neither side waits for the other to open its bell. */
    return (struct way){opened(work, lane, O_RDWR | O_CREAT | O_APPEND), opened(work, bell, O_RDWR), polls};
}

static void all_of(ssize_t moved, ssize_t wanted) {
    if (moved == wanted) return;
    fprintf(stderr, "limit: %zd of %zd bytes\n", moved, wanted);
    exit(1);
}

static void say(struct way *way) {
    static char envelope[ENVELOPE_BYTES];
    all_of(write(way->lane, envelope, ENVELOPE_BYTES), ENVELOPE_BYTES);
    if (!way->polls) all_of(write(way->bell, envelope, RING_BYTES), RING_BYTES);
}

static void hear(struct way *way) {
    static char envelope[ENVELOPE_BYTES], ring[RING_BYTES];
    if (!way->polls) all_of(read(way->bell, ring, RING_BYTES), RING_BYTES);
    ssize_t taken = 0;
    do { /* An append that crosses a page may be seen by halves. */
        ssize_t more = read(way->lane, envelope + taken, ENVELOPE_BYTES - taken);
        all_of(more < 0, 0);
        taken += more;
    } while (way->polls && taken < ENVELOPE_BYTES);
    all_of(taken, ENVELOPE_BYTES);
}

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void *end_with_input(void *unused) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);
    return unused;
}

static void serve(struct way requests, struct way answers) {
    pthread_t thread;
    pthread_create(&thread, NULL, end_with_input, NULL);
    for (;;) {
        hear(&requests);
        say(&answers);
    }
}

static long member(const char *line, const char *name) {
    const char *at = strstr(line, name);
    return at == NULL ? 0 : strtol(at + strlen(name), NULL, 10);
}

static void call(struct way requests, struct way answers) {
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        for (long warm = member(line, "\"warm\": "); warm > 0; warm--) {
            say(&requests);
            hear(&answers);
        }
        const char *comma = "{\"ns\": [";
        for (long count = member(line, "\"count\": "); count > 0; count--, comma = ", ") {
            long long began = now_ns();
            say(&requests);
            hear(&answers);
            printf("%s%lld", comma, now_ns() - began);
        }
        puts("]}");
        fflush(stdout);
    }
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "usage: %s server|client WORK [poll]\n", words[0]);
        return 2;
    }
    const char *work = words[2];
    int polls = count > 3 && strcmp(words[3], "poll") == 0, is_server = strcmp(words[1], "server") == 0;
    if (is_server) {
        make_bell(work, "requests.bell");
        make_bell(work, "answers.bell");
    }
    struct way requests = way_of(work, "requests.lane", "requests.bell", polls);
    struct way answers = way_of(work, "answers.lane", "answers.bell", polls);
    puts("ready");
    fflush(stdout);
    if (is_server) serve(requests, answers);
    call(requests, answers);
    return 0;
}
