/* Preloaded into a process: records what it does to the files below a folder, in order, so that
 * power_loss.py can say what a power loss would leave at any moment.
 *
 * NOOCH_LOSS_ROOT: the folder. NOOCH_LOSS_LOG: a folder for the record: "operations" has one per
 * line, and a file for each synced content. NOOCH_LOSS_NO_EXCHANGE: names cannot be exchanged. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int operations = -1;

static int inside(const char *path) {
    const char *root = getenv("NOOCH_LOSS_ROOT");
    return root && !strncmp(path, root, strlen(root)) && strchr("/", path[strlen(root)]);
}

/* The absolute path of a name; whether it is below the folder. */
static int locate(int folder, const char *name, char *path) {
    char start[PATH_MAX] = "", link[64];
    if (name[0] != '/' && folder == AT_FDCWD) {
        if (!getcwd(start, sizeof start)) return 0;
    } else if (name[0] != '/') {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, start, sizeof start - 1);
        if (length < 0) return 0;
        start[length] = 0;
    }
    snprintf(path, PATH_MAX, "%s%s%s", start, *start && *name ? "/" : "", name);
    return inside(path);
}

/* Processes and threads, one after the other: the record has the order in which things happened. */
static void begin(void) {
    pthread_mutex_lock(&mutex);
    if (operations < 0) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/operations", getenv("NOOCH_LOSS_LOG"));
        operations = NEXT(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    flock(operations, LOCK_EX);
}

static void end(void) {
    int error = errno;
    flock(operations, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = error;
}

static void record(const char *what, unsigned long number, const char *one, const char *other) {
    char line[3 * PATH_MAX];
    int error = errno, length;
    length = snprintf(line, sizeof line, "%s\t%lu\t%s\t%s\n", what, number, one, other);
    if (NEXT(write)(operations, line, length) != length) abort();
    errno = error;
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat found;
    if (!(flags & (O_CREAT | O_TRUNC)) || !locate(folder, name, path))
        return NEXT(openat)(folder, name, flags, mode);
    begin();
    int there = !stat(path, &found), handle = NEXT(openat)(folder, name, flags, mode);
    if (handle >= 0 && !fstat(handle, &found)) {
        if (!there) record("create", found.st_ino, path, "");
        else if (flags & O_TRUNC) record("truncate", found.st_ino, path, "");
    }
    end();
    return handle;
}

#define MODE(last) mode_t mode = 0; \
    if (flags & O_CREAT) { va_list list; va_start(list, last); mode = va_arg(list, int); va_end(list); }
int open(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int openat(int at, const char *name, int flags, ...) { MODE(flags) return opened(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE(flags) return opened(at, name, flags, mode); }
int creat(const char *name, mode_t mode) {
    return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* A call that changes names: it is recorded if it worked. */
#define NAMED(what, at, name, at2, name2, call) \
    char one[PATH_MAX], other[PATH_MAX] = ""; struct stat made = {0}; \
    int both = locate(at, name, one) | (*name2 ? locate(at2, name2, other) : 0), result; \
    if (!both) return call; \
    begin(); \
    if (!(result = call)) { lstat(*other ? other : one, &made); record(what, made.st_ino, one, other); } \
    end(); \
    return result;

int mkdirat(int at, const char *name, mode_t mode) {
    NAMED("mkdir", at, name, at, "", NEXT(mkdirat)(at, name, mode))
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
int unlinkat(int at, const char *name, int flags) {
    NAMED("remove", at, name, at, "", NEXT(unlinkat)(at, name, flags))
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int linkat(int at, const char *name, int at2, const char *name2, int flags) {
    NAMED("link", at, name, at2, name2, NEXT(linkat)(at, name, at2, name2, flags))
}
int link(const char *name, const char *name2) { return linkat(AT_FDCWD, name, AT_FDCWD, name2, 0); }
int renameat2(int at, const char *name, int at2, const char *name2, unsigned flags) {
    if (flags & 2 && getenv("NOOCH_LOSS_NO_EXCHANGE")) { errno = ENOSYS; return -1; }
    NAMED(flags & 2 ? "exchange" : "rename", at, name, at2, name2,
          NEXT(renameat2)(at, name, at2, name2, flags))
}
int renameat(int at, const char *name, int at2, const char *name2) {
    return renameat2(at, name, at2, name2, 0);
}
int rename(const char *name, const char *name2) {
    return renameat2(AT_FDCWD, name, AT_FDCWD, name2, 0);
}

/* Nothing is really synced: what would be is recorded, with its content. */
int fsync(int handle) {
    static unsigned long number;
    char path[PATH_MAX], copy[PATH_MAX], again[64], block[1 << 16];
    struct stat found;
    if (!locate(handle, "", path) || fstat(handle, &found)) return NEXT(fsync)(handle);
    begin();
    if (S_ISDIR(found.st_mode)) {
        record("sync-names", found.st_ino, path, "");
    } else {
        ssize_t size;
        snprintf(copy, sizeof copy, "%s/%d-%lu", getenv("NOOCH_LOSS_LOG"), getpid(), number++);
        int to = NEXT(open)(copy, O_WRONLY | O_CREAT, 0600);
        /* opened again: the handle may be for writing only */
        snprintf(again, sizeof again, "/proc/self/fd/%d", handle);
        int from = NEXT(open)(again, O_RDONLY);
        while ((size = read(from, block, sizeof block)) > 0)
            if (NEXT(write)(to, block, size) != size) abort();
        if (size < 0) abort();
        record("sync", found.st_ino, path, copy);
        close(from);
        close(to);
    }
    end();
    return 0;
}
int fdatasync(int handle) { return fsync(handle); }

#define WRITTEN(call) \
    char path[PATH_MAX]; \
    if (handle <= 2 || handle == operations || !locate(handle, "", path)) return call; \
    begin(); \
    ssize_t done = call; \
    record("write", done, path, ""); \
    end(); \
    return done;
ssize_t write(int handle, const void *bytes, size_t size) {
    WRITTEN(NEXT(write)(handle, bytes, size))
}
ssize_t writev(int handle, const struct iovec *parts, int count) {
    WRITTEN(NEXT(writev)(handle, parts, count))
}
ssize_t pwrite64(int handle, const void *bytes, size_t size, off64_t at) {
    WRITTEN(NEXT(pwrite64)(handle, bytes, size, at))
}
ssize_t pwrite(int handle, const void *bytes, size_t size, off_t at) {
    return pwrite64(handle, bytes, size, at);
}
