/* A disk that remembers, and that fails on request: preloaded into a process whose storage is under test.
 *
 * Only files below DISK_FOLDER are touched.
 *   DISK_LOG=path     every write, truncation, deletion and sync of *.db* files (with -wal and -synced) is appended there, in order
 *   DISK_SPACE=bytes  the folder is a file system of that size: beyond it writes fail with ENOSPC, and statvfs says so
 *   DISK_FULL=n       ... or with this error number, such as EDQUOT
 *   DISK_SYNC=n       the n-th sync and all later ones fail with EIO
 *   DISK_KILL=n       the process is killed half-way through the n-th write
 * disk_mark(n) appends a mark of the test's own; disk_kill(n) is DISK_KILL from now on. A record is: kind, file, offset, length (4 x int64), then the data.
 * disk_fault(kind, n, for_ever) makes the n-th call from now on fail, and with for_ever all later ones too. disk_calls(letters, size)
 * returns the number of calls since then, and a letter for each: r(ead), w(rite), t(runcate), s(ync), d(elete).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE = 2, SYNC = 3, DELETE = 4, MARK = 5 };
enum { NONE, KILL, KILL_HALFWAY, NO_SPACE, IO_ERROR, SHORT_WRITE };
enum { DATABASE = 0, LOG = 1, OTHER = 2, SYNCED = 4 };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static int log_fd = -1;
static int64_t full = ENOSPC, space = -1, fail_sync = -1, kill_write = -1, syncs, writes;
static int64_t fault_kind, fault_at, fault_for_ever, calls;
static char made[1 << 16];

static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fallocate)(int, off_t, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_unlink)(const char *);
static int (*real_statvfs)(const char *, struct statvfs *);

static int64_t number(const char *name) {
    const char *value = getenv(name);
    return value ? atoll(value) : -1;
}

__attribute__((constructor)) static void start(void) {
    real_pread = dlsym(RTLD_NEXT, "pread");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite");
    real_write = dlsym(RTLD_NEXT, "write");
    real_fallocate = dlsym(RTLD_NEXT, "posix_fallocate");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_statvfs = dlsym(RTLD_NEXT, "statvfs");
    folder = getenv("DISK_FOLDER");
    space = number("DISK_SPACE");
    if (number("DISK_FULL") > 0) full = number("DISK_FULL");
    fail_sync = number("DISK_SYNC");
    kill_write = number("DISK_KILL");
    if (getenv("DISK_LOG")) log_fd = open(getenv("DISK_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int below_folder(const char *path) { return folder && strncmp(path, folder, strlen(folder)) == 0; }

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below_folder(path);
}

static int file_of(const char *path) {
    const char *end = path + strlen(path);
    if (end - path > 4 && !strcmp(end - 4, "-wal")) return LOG;
    if (end - path > 7 && !strcmp(end - 7, "-synced")) return SYNCED;
    if (end - path > 3 && !strcmp(end - 3, ".db")) return DATABASE;
    return OTHER;
}

static void record(int64_t kind, int64_t file, int64_t offset, const void *data, int64_t length) {
    if (log_fd < 0 || file == OTHER) return;
    int64_t head[4] = {kind, file, offset, length};
    if (real_write(log_fd, head, sizeof head) < 0) abort();
    if (data && real_write(log_fd, data, length) < 0) abort();
}

static int64_t used(void) {
    DIR *files = opendir(folder);
    int64_t total = 0;
    struct dirent *entry;
    struct stat found;
    while (files && (entry = readdir(files)))
        if (!fstatat(dirfd(files), entry->d_name, &found, 0) && S_ISREG(found.st_mode)) total += found.st_size;
    if (files) closedir(files);
    return total;
}

/* Return the fault of this call, or NONE. The caller holds the lock. */
static int64_t fault_of(char letter) {
    if (calls < (int64_t)sizeof made) made[calls] = letter;
    calls++;
    if (calls < fault_at || (calls > fault_at && !fault_for_ever)) return NONE;
    if (fault_kind == NO_SPACE && letter == 's' && calls > fault_at) return NONE; /* a full disk still syncs */
    if (fault_kind == KILL) raise(SIGKILL);
    if (fault_kind == NO_SPACE) errno = ENOSPC;
    if (fault_kind == IO_ERROR) errno = EIO;
    return fault_kind;
}

ssize_t pread(int fd, void *data, size_t length, off_t offset) {
    char path[4096];
    if (!path_of(fd, path, sizeof path)) return real_pread(fd, data, length, offset);
    pthread_mutex_lock(&one_at_a_time);
    ssize_t done = fault_of('r') == IO_ERROR ? -1 : real_pread(fd, data, length, offset);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}
ssize_t pread64(int fd, void *data, size_t length, off_t offset) { return pread(fd, data, length, offset); }

static ssize_t faulty_write(int fd, const void *data, size_t length, off_t offset, const char *path) {
    struct stat before;
    fstat(fd, &before);
    int64_t growth = offset + (int64_t)length - before.st_size;
    if (space >= 0 && growth > 0 && used() + growth > space) {
        errno = full;
        return -1;
    }
    int64_t fault = fault_of('w');
    if (fault == NO_SPACE || fault == IO_ERROR) return -1;
    if (fault == SHORT_WRITE && length > 1) length /= 2;
    if (++writes == kill_write || fault == KILL_HALFWAY) {
        if (real_pwrite(fd, data, length / 2, offset) < 0) abort();
        raise(SIGKILL);
    }
    ssize_t done = real_pwrite(fd, data, length, offset);
    if (done > 0) record(WRITE, file_of(path), offset, data, done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    char path[4096];
    if (!path_of(fd, path, sizeof path)) return real_pwrite(fd, data, length, offset);
    pthread_mutex_lock(&one_at_a_time);
    ssize_t done = faulty_write(fd, data, length, offset, path);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return pwrite(fd, data, length, offset); }

ssize_t write(int fd, const void *data, size_t length) {
    char path[4096];
    if (!path_of(fd, path, sizeof path)) return real_write(fd, data, length);
    pthread_mutex_lock(&one_at_a_time);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t done = faulty_write(fd, data, length, offset, path);
    if (done > 0) lseek(fd, offset + done, SEEK_SET);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

/* Takes room like a write of zeros. Returns an error number. */
int posix_fallocate(int fd, off_t offset, off_t length) {
    char path[4096];
    if (!path_of(fd, path, sizeof path)) return real_fallocate(fd, offset, length);
    char *zeros = calloc(1, length);
    pthread_mutex_lock(&one_at_a_time);
    errno = ENOSPC; /* for a short write */
    ssize_t done = faulty_write(fd, zeros, length, offset, path);
    int error = done == length ? 0 : errno;
    pthread_mutex_unlock(&one_at_a_time);
    free(zeros);
    return error;
}
int posix_fallocate64(int fd, off_t offset, off_t length) { return posix_fallocate(fd, offset, length); }

int ftruncate(int fd, off_t size) {
    char path[4096];
    int ours = path_of(fd, path, sizeof path);
    pthread_mutex_lock(&one_at_a_time);
    int done = ours && fault_of('t') == IO_ERROR ? -1 : real_ftruncate(fd, size);
    if (ours && !done) record(TRUNCATE, file_of(path), size, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

static int faulty_sync(int fd, int (*real)(int)) {
    char path[4096];
    if (!path_of(fd, path, sizeof path) || file_of(path) == OTHER) return real(fd);
    pthread_mutex_lock(&one_at_a_time);
    int done = -1;
    int64_t fault = fault_of('s');
    if (fault == NO_SPACE || fault == IO_ERROR) {
    } else if (fail_sync >= 0 && ++syncs >= fail_sync) {
        errno = EIO;
    } else {
        done = log_fd < 0 ? real(fd) : 0; /* recording: the replay decides what was lost, the real disk need not work */
        record(SYNC, file_of(path), 0, NULL, 0);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}
int fsync(int fd) { return faulty_sync(fd, real_fsync); }
int fdatasync(int fd) { return faulty_sync(fd, real_fdatasync); }

int unlink(const char *path) {
    pthread_mutex_lock(&one_at_a_time);
    int done = below_folder(path) && fault_of('d') == IO_ERROR ? -1 : real_unlink(path);
    if (!done && below_folder(path)) record(DELETE, file_of(path), 0, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int statvfs(const char *path, struct statvfs *found) {
    int done = real_statvfs(path, found);
    if (!done && space >= 0 && below_folder(path)) {
        int64_t left = space - used();
        found->f_frsize = 1;
        found->f_bavail = left > 0 ? left : 0;
    }
    return done;
}
int statvfs64(const char *path, struct statvfs64 *found) { return statvfs(path, (struct statvfs *)found); }

void disk_mark(int64_t what) {
    pthread_mutex_lock(&one_at_a_time);
    record(MARK, DATABASE, what, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
}

void disk_kill(int64_t in_so_many_writes) { kill_write = writes + in_so_many_writes; }

void disk_fault(int64_t kind, int64_t at, int64_t for_ever) {
    pthread_mutex_lock(&one_at_a_time);
    calls = 0;
    fault_at = at;
    fault_for_ever = for_ever;
    fault_kind = kind;
    pthread_mutex_unlock(&one_at_a_time);
}

int64_t disk_calls(char *letters, int64_t size) {
    for (int64_t i = 0; i < size && i < calls && i < (int64_t)sizeof made; i++) letters[i] = made[i];
    return calls;
}
