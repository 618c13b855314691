// sys.h - the system calls the library makes, each wrapped once.
//
// Every function returns 0 or a positive result, or a negative errno; none leaves anything in
// errno for the caller to read. Drivers wrap what only they call themselves.
#ifndef WEFT_BASE_SYS_H
#define WEFT_BASE_SYS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weft/time.h>

#include "base/base.h"

// Memory.

/// Reserves private zeroed memory at a multiple of `align` (a power of two), committed page by page
/// at the first touch and never as huge pages. Sizes are whole pages.
WEFT_MUST_CHECK int weft__sys_map(void **base, size_t size_bytes, size_t align);
void weft__sys_unmap(void *base, size_t size_bytes);
int weft__sys_advise(void *base, size_t size_bytes, int advice);
int weft__sys_protect(void *base, size_t size_bytes, int protection);
/// One byte per page in `pages`; bit 0 says that the page is resident.
int weft__sys_resident(const void *base, size_t size_bytes, unsigned char *pages);
size_t weft__sys_page_bytes(void);

// Futexes, private to the process.

/// Sleeps while `*word` is `expected`, until a wake, a signal or `deadline` (monotonic, absolute).
/// 0, -EAGAIN (the word differs), -EINTR or -ETIMEDOUT; callers loop on their own state.
int weft__futex_wait(_Atomic uint32_t *word, uint32_t expected, weft_time deadline);
/// Returns how many threads were woken. Uses only the address: the memory may be gone by now.
int weft__futex_wake(_Atomic uint32_t *word, int count);

// Descriptors.

/// A non-blocking, close-on-exec eventfd.
WEFT_MUST_CHECK int weft__sys_eventfd(unsigned initial);
WEFT_MUST_CHECK int weft__sys_open_read(const char *path);
int64_t weft__sys_read_at(int fd, void *data, size_t size_bytes, int64_t offset);
int weft__sys_close(int fd);
/// Writes everything, retrying short writes and EINTR. Async-signal-safe.
int weft__sys_write_all(int fd, const void *data, size_t size_bytes);
/// Reads a small file into `text` and ends it with a zero byte; returns its length. What does not
/// fit is cut off.
int64_t weft__sys_read_file(const char *path, char *text, size_t size_bytes);

// Threads and time.

/// CLOCK_MONOTONIC.
weft_time weft__clock_ns(void);
int weft__sys_gettid(void);
/// CPU time that a thread has used; 0 if that cannot be told.
weft_time weft__sys_cpu_ns(pthread_t thread);
/// Lets timeouts of the calling thread's waits be late by no more than the clock's grain; the
/// kernel's default is another 50 us.
int weft__sys_sharpen_timers(void);
/// The CPUs that the calling thread may use; `set` has room for `size_bytes`.
int weft__sys_affinity(cpu_set_t *set, size_t size_bytes);
/// Keeps the calling thread on these CPUs.
int weft__sys_set_affinity(const cpu_set_t *set, size_t size_bytes);

#endif
