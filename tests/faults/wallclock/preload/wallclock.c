// The wall clock of a server, moved: for LD_PRELOAD. It adds an offset, which is
// read from a file that the harness maps too, to what the functions below return.
// Only the wall clock moves: CLOCK_MONOTONIC, timers and the kernel's own stamps
// stay.
//
// The clock is read by the system call and not through dlsym: servers ask for the
// time from within their memory allocator, which dlsym uses.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static int64_t zero;
static volatile int64_t *offset = &zero; // nanoseconds

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("FENLOCK_WALLCLOCK");
	if (!path) {
		return;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *map = fd < 0 ? MAP_FAILED : mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		abort(); // a server whose clock cannot be moved would pass for one that can
	}
	close(fd);
	offset = map;
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
	if (syscall(SYS_clock_gettime, clock, ts)) {
		return -1;
	}
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
		int64_t ns = (int64_t)ts->tv_sec * SECOND + ts->tv_nsec + __atomic_load_n(offset, __ATOMIC_SEQ_CST);
		ts->tv_sec = ns / SECOND;
		ts->tv_nsec = ns % SECOND;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec ts;
	(void)zone; // obsolete, and NULL
	if (clock_gettime(CLOCK_REALTIME, &ts)) {
		return -1;
	}
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

int timespec_get(struct timespec *ts, int base) {
	return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, ts) ? base : 0;
}

time_t time(time_t *at) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts)) {
		return -1;
	}
	if (at) {
		*at = ts.tv_sec;
	}
	return ts.tv_sec;
}
