"""A wall clock that is wrong, and that a test may set while the process runs.

A library is put before the C library of a process (LD_PRELOAD); what it adds to CLOCK_REALTIME stands in a file.
CLOCK_MONOTONIC and CLOCK_BOOTTIME go on as they are, since nobody can set those; with `of_boot` CLOCK_BOOTTIME jumps
as well, as on a machine that was suspended or moved.

    clock = WrongClock(folder)
    node = start(environment=clock.environment())
    clock.set(600)       # ten minutes ahead, from now on
"""

import mmap
import struct
import subprocess

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real)(clockid_t, struct timespec *);
static const volatile int64_t *offset_s;

__attribute__((constructor)) static void begin(void)
{
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("WRONG_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset_s), PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED)
        offset_s = at;
    if (fd >= 0)
        close(fd);
}

int clock_gettime(clockid_t id, struct timespec *out)
{
    if (!real)
        begin();
    int result = real(id, out);
    int is_wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    if (result == 0 && offset_s && (is_wall || (id == CLOCK_BOOTTIME && getenv("WRONG_CLOCK_OF_BOOT"))))
        out->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
"""


class WrongClock:
    def __init__(self, folder, name="wrong-clock", offset_s=0):
        self._library, self._file = folder / f"{name}.so", folder / f"{name}.offset"
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", self._library, "-ldl"], input=SOURCE, text=True,
                       check=True)
        self._library.chmod(0o755)
        self._file.write_bytes(struct.pack("=q", offset_s))
        self._file.chmod(0o644)
        with open(self._file, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)

    def set(self, offset_s):
        """So many seconds ahead (or behind, if negative) from now on."""
        self._memory[:] = struct.pack("=q", offset_s)

    def environment(self, of_boot=False):
        """What the process must be started with. A sanitizer doesn't mind who comes first."""
        return {"LD_PRELOAD": str(self._library), "WRONG_CLOCK_FILE": str(self._file),
                "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
                **({"WRONG_CLOCK_OF_BOOT": "1"} if of_boot else {})}
