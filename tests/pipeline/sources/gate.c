/* A gate in front of files that get their names: preloaded into a process, it stops there whoever names a file it waits for,
 * or in the midst of writing it.
 *
 * Spark, delta-rs and mqflow make a file count by giving it its name: a rename, or a link. A kill -9 just before or just after
 * that is the kill that hurts, and chance hits it seldom.
 *   GATE_AT=before:/commits/;after:/_delta_log/   what the new name must have in it; the name itself begins with a digit
 *           within:/lanes/   of a file that is written, also of one that begins with `part-`: half of what a call writes is in it
 *           reads:/lanes/    of a file that is opened to be read
 *   GATE_SKIP=n      lets the first n of each pass, in each process
 *   GATE_OF=text     only processes with this text in their command line stop
 *   GATE_MARKS=path  a folder, in which a file says who stands at the gate; whoever stands there waits to be killed.
 *                    If it has a file `open`, everybody passes
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GATES = 32 };
enum { BEFORE = 'b', AFTER = 'a', WITHIN = 'w', READS = 'r' };
static struct { int moment; char what[200]; int passed; } gates[GATES];
static int count, skip, writes;
static const char *marks;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int (*real_rename)(const char *, const char *);
static int (*real_renameat)(int, const char *, int, const char *);
static int (*real_renameat2)(int, const char *, int, const char *, unsigned);
static int (*real_link)(const char *, const char *);
static int (*real_linkat)(int, const char *, int, const char *, int);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_open64)(const char *, int, ...);

/* Whether the command line of this process has the text of GATE_OF. */
static int is_meant(void) {
    char said[8192];
    const char *of = getenv("GATE_OF");
    if (!of) return 1;
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = file ? fread(said, 1, sizeof said - 1, file) : 0;
    if (file) fclose(file);
    for (size_t at = 0; at < length; at++) if (!said[at]) said[at] = ' ';
    said[length] = 0;
    return strstr(said, of) != NULL;
}

static int is_open(void) {
    char path[4200];
    snprintf(path, sizeof path, "%s/open", marks);
    return access(path, F_OK) == 0;
}

__attribute__((constructor)) static void start(void) {
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_renameat = dlsym(RTLD_NEXT, "renameat");
    real_renameat2 = dlsym(RTLD_NEXT, "renameat2");
    real_link = dlsym(RTLD_NEXT, "link");
    real_linkat = dlsym(RTLD_NEXT, "linkat");
    marks = is_meant() ? getenv("GATE_MARKS") : NULL;
    if (getenv("GATE_SKIP")) skip = atoi(getenv("GATE_SKIP"));
    const char *at = getenv("GATE_AT");
    while (marks && at && *at && count < GATES) {
        size_t length = strcspn(at, ";");
        const char *what = memchr(at, ':', length);
        size_t size = what ? (size_t)(at + length - what - 1) : sizeof gates[count].what;
        if (size < sizeof gates[count].what) {
            gates[count].moment = at[0];
            writes |= at[0] == WITHIN;
            memcpy(gates[count].what, what + 1, size);
            count++;
        }
        at += length + (at[length] == ';');
    }
}

/* The gate that this name stops at, at this moment; -1 for none. */
static int stops_at(const char *name, int moment) {
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    int is_part = moment == WITHIN && !strncmp(last, "part-", 5);
    if (!count || (!is_part && (last[0] < '0' || last[0] > '9'))) return -1;
    for (int gate = 0; gate < count; gate++) {
        if (gates[gate].moment != moment || !strstr(name, gates[gate].what) || is_open()) continue;
        pthread_mutex_lock(&one_at_a_time);
        int stops = gates[gate].passed++ >= skip;
        pthread_mutex_unlock(&one_at_a_time);
        if (stops) return gate;
    }
    return -1;
}

static void wait_at(int gate) {
    char mark[4200];
    snprintf(mark, sizeof mark, "%s/%d-%d-%d", marks, (int)getpid(), (int)gettid(), gate);
    close(open(mark, O_WRONLY | O_CREAT, 0600));
    for (;;) pause();
}

static void stand(const char *name, int moment) {
    int gate = stops_at(name, moment);
    if (gate >= 0) wait_at(gate);
}

int rename(const char *from, const char *to) {
    stand(to, BEFORE);
    int result = real_rename(from, to);
    if (!result) stand(to, AFTER);
    return result;
}

int renameat(int folder, const char *from, int other, const char *to) {
    stand(to, BEFORE);
    int result = real_renameat(folder, from, other, to);
    if (!result) stand(to, AFTER);
    return result;
}

int renameat2(int folder, const char *from, int other, const char *to, unsigned flags) {
    stand(to, BEFORE);
    int result = real_renameat2(folder, from, other, to, flags);
    if (!result) stand(to, AFTER);
    return result;
}

int link(const char *from, const char *to) {
    stand(to, BEFORE);
    int result = real_link(from, to);
    if (!result) stand(to, AFTER);
    return result;
}

int linkat(int folder, const char *from, int other, const char *to, int flags) {
    stand(to, BEFORE);
    int result = real_linkat(folder, from, other, to, flags);
    if (!result) stand(to, AFTER);
    return result;
}

ssize_t write(int fd, const void *data, size_t size) {
    if (!real_write) real_write = dlsym(RTLD_NEXT, "write");
    if (writes) {
        char link[64], name[4200];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, name, sizeof name - 1);
        if (length > 0) {
            name[length] = 0;
            int gate = stops_at(name, WITHIN);
            if (gate >= 0) {
                real_write(fd, data, size / 2);
                wait_at(gate);
            }
        }
    }
    return real_write(fd, data, size);
}

int open64(const char *name, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    if (!real_open64) real_open64 = dlsym(RTLD_NEXT, "open64");
    if ((flags & O_ACCMODE) == O_RDONLY) stand(name, READS);
    return real_open64(name, flags, mode);
}
