/* The limit: what two processes that meet in files cannot beat. Append an envelope's worth of bytes, ring a FIFO, read,
   answer in the same way; no format, no cryptography, no checks. Polling leaves the bell out: both sides read until
   something is there, which costs a core each; after POLL_NS of silence they block all the same, so that who waits for
   its turn to be measured disturbs nobody.
     limit server|client WORK [poll]      speaks as contenders/process.py does; built by bench/build */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ENVELOPE_BYTES = 300, RING_BYTES = 16, POLL_NS = 2000000 };

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

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void ring(struct way *way) {
    static char source[RING_BYTES];
    all_of(write(way->bell, source, RING_BYTES), RING_BYTES);
}

static void say(struct way *way) {
    static char envelope[ENVELOPE_BYTES];
    all_of(write(way->lane, envelope, ENVELOPE_BYTES), ENVELOPE_BYTES);
    if (!way->polls) ring(way);
}

/* What there is of one envelope: an append that crosses a page may be seen by halves. */
static ssize_t look(struct way *way, ssize_t taken) {
    static char envelope[ENVELOPE_BYTES];
    ssize_t more = read(way->lane, envelope + taken, ENVELOPE_BYTES - taken);
    all_of(more < 0, 0);
    return taken + more;
}

static void hear_the_bell(struct way *way) {
    static char source[RING_BYTES];
    all_of(read(way->bell, source, RING_BYTES), RING_BYTES);
}

/* `prompt` is rung where the other side may have stopped polling; NULL: the bell is this side's own. */
static void hear(struct way *way, struct way *prompt) {
    if (!way->polls) {
        hear_the_bell(way);
        all_of(look(way, 0), ENVELOPE_BYTES);
        return;
    }
    long long until = now_ns() + POLL_NS;
    for (ssize_t taken = 0; taken < ENVELOPE_BYTES; taken = look(way, taken)) {
        if (now_ns() < until) continue;
        if (prompt != NULL) {
            ring(prompt);
        } else {
            hear_the_bell(way);
        }
        until = now_ns() + POLL_NS;
    }
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
        hear(&requests, NULL);
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
            hear(&answers, &requests);
        }
        const char *comma = "{\"ns\": [";
        for (long count = member(line, "\"count\": "); count > 0; count--, comma = ", ") {
            long long began = now_ns();
            say(&requests);
            hear(&answers, &requests);
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
