/* Faults of a disk and a clock for one process: loaded into it by LD_PRELOAD.
 *
 * What it does stands in a file that RAFTBATCH_FAULTS names, a `struct faults` that the harness
 * changes while the process runs (chaos/worlds/preloaded.py): syncs that are slow, that fail, or at
 * which the process dies; writes that fail; a wall clock that is wrong.
 *
 * Writes are those at an offset, as data directories are written: nothing else in the process is.
 *
 * The clock is wrong for Python alone. Others take moments of it and have the kernel wait for them,
 * and the kernel's clock is right: they would wait for as long as ours is wrong.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int64_t sync_delay_ns; /* of each sync, before it begins */
    int64_t sync_errno;    /* of each sync, in place of it; 0: it is done */
    int64_t sync_kills;    /* whether the process dies in place of it */
    int64_t sync_skip;     /* so many are left alone first; below 0: some were not */
    int64_t clock_from_ns; /* true time since which the clock goes wrong */
    int64_t clock_ahead_ns;
    int64_t clock_ppm; /* and so much faster or slower, of a million */
    int64_t write_errno; /* of each write, in place of it; 0: it is done */
    int64_t write_skip;  /* so many are left alone first; below 0: some were not */
};

static struct faults none;
static volatile struct faults *faults = &none;
static uintptr_t python_from, python_to;

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off64_t);
static ssize_t (*real_pwritev2)(int, const struct iovec *, int, off64_t, int);

static int find_python(struct dl_phdr_info *info, size_t size, void *inside) {
    (void)size;
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = start + info->dlpi_phdr[i].p_memsz;
        if (start < from) from = start;
        if (end > to) to = end;
    }
    if ((uintptr_t)inside < from || (uintptr_t)inside >= to) return 0;
    python_from = from;
    python_to = to;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    real_clock_gettime =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_pwrite = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    real_pwritev =
        (ssize_t (*)(int, const struct iovec *, int, off64_t))dlsym(RTLD_NEXT, "pwritev64");
    real_pwritev2 =
        (ssize_t (*)(int, const struct iovec *, int, off64_t, int))dlsym(RTLD_NEXT, "pwritev64v2");
    void *inside = dlsym(RTLD_DEFAULT, "Py_GetVersion");
    if (inside) dl_iterate_phdr(find_python, inside);
    const char *path = getenv("RAFTBATCH_FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof(struct faults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) faults = map;
    close(file);
}

static int sync_by(int (*real)(int), int file) {
    if (!faults->sync_delay_ns && !faults->sync_errno && !faults->sync_kills) return real(file);
    if (__atomic_sub_fetch((int64_t *)&faults->sync_skip, 1, __ATOMIC_SEQ_CST) >= 0)
        return real(file);
    if (faults->sync_kills) kill(getpid(), SIGKILL);
    int64_t delay_ns = faults->sync_delay_ns;
    struct timespec wait = {delay_ns / 1000000000, delay_ns % 1000000000};
    while (delay_ns && nanosleep(&wait, &wait) && errno == EINTR) continue;
    if (faults->sync_errno) {
        errno = (int)faults->sync_errno;
        return -1;
    }
    return real(file);
}

int fsync(int file) { return sync_by(real_fsync, file); }

int fdatasync(int file) { return sync_by(real_fdatasync, file); }

static int is_refused(void) {
    if (!faults->write_errno) return 0;
    if (__atomic_sub_fetch((int64_t *)&faults->write_skip, 1, __ATOMIC_SEQ_CST) >= 0) return 0;
    errno = (int)faults->write_errno;
    return 1;
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return is_refused() ? -1 : real_pwrite(file, data, size, at);
}

ssize_t pwritev64(int file, const struct iovec *data, int count, off64_t at) {
    return is_refused() ? -1 : real_pwritev(file, data, count, at);
}

/* What Python calls, where there is one. */
ssize_t pwritev64v2(int file, const struct iovec *data, int count, off64_t at, int flags) {
    return is_refused() ? -1 : real_pwritev2(file, data, count, at, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock_gettime)
        real_clock_gettime =
            (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real_clock_gettime(clock, now);
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (status || clock != CLOCK_REALTIME || caller < python_from || caller >= python_to)
        return status;
    if (!faults->clock_ahead_ns && !faults->clock_ppm) return status;
    int64_t ns = now->tv_sec * 1000000000LL + now->tv_nsec;
    ns += faults->clock_ahead_ns;
    ns += (ns - faults->clock_ahead_ns - faults->clock_from_ns) / 1000000 * faults->clock_ppm;
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return status;
}
