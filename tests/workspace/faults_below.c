/* Faults below SQLite and below Python: the k-th write, fsync or rename under one folder kills this process (KILL),
   or it and every later one finds the disk full (FULL). Loaded with LD_PRELOAD; a fork arms itself by fault_arm().
   The file "<folder>.calls" gets a byte for each call that is counted (COUNT), or one when the fault happens. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { OFF, COUNT, KILL, FULL };
static int kind = OFF;
static long fail_at, calls;
static char folder[PATH_MAX];

void fault_arm(int wanted, long number, const char *under) {
    kind = wanted, fail_at = number, calls = 0;
    strncpy(folder, under, sizeof folder - 1);
}

/* A process that a test does not fork itself is armed by its environment: FAULT_BELOW="module kind number folder". */
__attribute__((constructor)) static void arm_by_environment(void) {
    const char *given = getenv("FAULT_BELOW");
    char module[200], under[PATH_MAX], line[4096] = "";
    int wanted;
    long number;
    if (!given || sscanf(given, "%199s %d %ld %4095[^\n]", module, &wanted, &number, under) != 4) return;
    FILE *stream = fopen("/proc/self/cmdline", "r");
    size_t length = stream ? fread(line, 1, sizeof line - 1, stream) : 0;
    if (stream) fclose(stream);
    for (size_t at = 0; at < length; at++) if (!line[at]) line[at] = ' ';
    if (strstr(line, module)) fault_arm(wanted, number, under);
}

/* By system calls, which this shim does not see. */
static void note(void) {
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.calls", folder);
    long notes = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    syscall(SYS_write, notes, "x", 1);
    syscall(SYS_close, notes);
}

static int is_full(const char *path) {
    if (kind == OFF || strncmp(path, folder, strlen(folder))) return 0;
    calls++;
    if (kind == COUNT || calls == fail_at) note();
    if (kind == KILL && calls == fail_at) kill(getpid(), SIGKILL);
    if (kind == FULL && calls >= fail_at) { errno = ENOSPC; return 1; }
    return 0;
}

static int is_full_for(int descriptor) {
    char link[64], path[PATH_MAX];
    if (kind == OFF) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return is_full(path);
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define ON_DESCRIPTOR(type, name, parameters, ...) \
    type name parameters { REAL(name); return is_full_for(fd) ? -1 : real(__VA_ARGS__); }

ON_DESCRIPTOR(ssize_t, write, (int fd, const void *data, size_t size), fd, data, size)
ON_DESCRIPTOR(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), fd, data, size, at)
ON_DESCRIPTOR(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), fd, data, size, at)
ON_DESCRIPTOR(int, fsync, (int fd), fd)
ON_DESCRIPTOR(int, fdatasync, (int fd), fd)

int rename(const char *from, const char *to) { REAL(rename); return is_full(to) ? -1 : real(from, to); }
int renameat(int a, const char *from, int b, const char *to) { REAL(renameat); return is_full(to) ? -1 : real(a, from, b, to); }
