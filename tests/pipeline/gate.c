/* A gate in front of files that get their names: preloaded into a process, it stops there whoever names a file it waits for.
 *
 * Spark, delta-rs and mqflow make a file count by giving it its name: a rename, or a link. A kill -9 just before or just after
 * that is the kill that hurts, and chance hits it seldom.
 *   GATE_AT=before:/commits/;after:/_delta_log/   what the new name must have in it; the name itself begins with a digit
 *   GATE_SKIP=n      lets the first n of each pass, in each process
 *   GATE_MARKS=path  a folder, in which a file says who stands at the gate; whoever stands there waits to be killed
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GATES = 32 };
static struct { int after; char what[200]; int passed; } gates[GATES];
static int count, skip;
static const char *marks;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int (*real_rename)(const char *, const char *);
static int (*real_renameat)(int, const char *, int, const char *);
static int (*real_renameat2)(int, const char *, int, const char *, unsigned);
static int (*real_link)(const char *, const char *);
static int (*real_linkat)(int, const char *, int, const char *, int);

__attribute__((constructor)) static void start(void) {
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_renameat = dlsym(RTLD_NEXT, "renameat");
    real_renameat2 = dlsym(RTLD_NEXT, "renameat2");
    real_link = dlsym(RTLD_NEXT, "link");
    real_linkat = dlsym(RTLD_NEXT, "linkat");
    marks = getenv("GATE_MARKS");
    if (getenv("GATE_SKIP")) skip = atoi(getenv("GATE_SKIP"));
    const char *at = getenv("GATE_AT");
    while (marks && at && *at && count < GATES) {
        size_t length = strcspn(at, ";");
        const char *what = memchr(at, ':', length);
        size_t size = what ? (size_t)(at + length - what - 1) : sizeof gates[count].what;
        if (size < sizeof gates[count].what) {
            gates[count].after = at[0] == 'a';
            memcpy(gates[count].what, what + 1, size);
            count++;
        }
        at += length + (at[length] == ';');
    }
}

static void stand(const char *name, int after) {
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    if (!count || last[0] < '0' || last[0] > '9') return;
    for (int gate = 0; gate < count; gate++) {
        if (gates[gate].after != after || !strstr(name, gates[gate].what)) continue;
        pthread_mutex_lock(&one_at_a_time);
        int stops = gates[gate].passed++ >= skip;
        pthread_mutex_unlock(&one_at_a_time);
        if (!stops) continue;
        char mark[4200];
        snprintf(mark, sizeof mark, "%s/%d-%d-%d", marks, (int)getpid(), (int)gettid(), gate);
        int fd = open(mark, O_WRONLY | O_CREAT, 0600);
        dprintf(fd, "%s %s\n", after ? "after" : "before", name);
        close(fd);
        for (;;) pause();
    }
}

int rename(const char *from, const char *to) {
    stand(to, 0);
    int result = real_rename(from, to);
    if (!result) stand(to, 1);
    return result;
}

int renameat(int folder, const char *from, int other, const char *to) {
    stand(to, 0);
    int result = real_renameat(folder, from, other, to);
    if (!result) stand(to, 1);
    return result;
}

int renameat2(int folder, const char *from, int other, const char *to, unsigned flags) {
    stand(to, 0);
    int result = real_renameat2(folder, from, other, to, flags);
    if (!result) stand(to, 1);
    return result;
}

int link(const char *from, const char *to) {
    stand(to, 0);
    int result = real_link(from, to);
    if (!result) stand(to, 1);
    return result;
}

int linkat(int folder, const char *from, int other, const char *to, int flags) {
    stand(to, 0);
    int result = real_linkat(folder, from, other, to, flags);
    if (!result) stand(to, 1);
    return result;
}
