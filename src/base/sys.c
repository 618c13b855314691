// sys.c - the system calls the library makes.
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int result_of(long rc)
{
    return rc < 0 ? -errno : (int)rc;
}

static char *map_anywhere(size_t size_bytes)
{
    void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int weft__sys_map(void **base, size_t size_bytes, size_t align)
{
    *base = NULL;
    char *memory = map_anywhere(size_bytes);
    if (memory != NULL && ((uintptr_t)memory & (align - 1)) != 0) {
        munmap(memory, size_bytes);
        memory = map_anywhere(size_bytes + align); // cut off both ends
        if (memory != NULL) {
            size_t head = -(uintptr_t)memory & (align - 1);
            if (head != 0) {
                munmap(memory, head);
            }
            memory += head;
            munmap(memory + size_bytes, align - head);
        }
    }
    if (memory == NULL) {
        return -errno;
    }
    madvise(memory, size_bytes, MADV_NOHUGEPAGE); // EINVAL without huge pages: as good
    *base = memory;
    return 0;
}

void weft__sys_unmap(void *base, size_t size_bytes)
{
    munmap(base, size_bytes);
}

int weft__sys_advise(void *base, size_t size_bytes, int advice)
{
    return result_of(madvise(base, size_bytes, advice));
}

int weft__sys_protect(void *base, size_t size_bytes, int protection)
{
    return result_of(mprotect(base, size_bytes, protection));
}

int weft__sys_resident(const void *base, size_t size_bytes, unsigned char *pages)
{
    return result_of(mincore((void *)(uintptr_t)base, size_bytes, pages));
}

size_t weft__sys_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int weft__futex_wait(_Atomic uint32_t *word, uint32_t expected, weft_time deadline)
{
    struct timespec until = {
        .tv_sec = (time_t)(deadline / WEFT_S),
        .tv_nsec = (long)(deadline % WEFT_S),
    };
    return result_of(syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                             deadline == WEFT_FOREVER ? NULL : &until, NULL,
                             FUTEX_BITSET_MATCH_ANY));
}

int weft__futex_wake(_Atomic uint32_t *word, int count)
{
    return result_of(syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count));
}

int weft__sys_eventfd(unsigned initial)
{
    return result_of(eventfd(initial, EFD_CLOEXEC | EFD_NONBLOCK));
}

int weft__sys_open_read(const char *path)
{
    return result_of(open(path, O_RDONLY | O_CLOEXEC));
}

int64_t weft__sys_read_at(int fd, void *data, size_t size_bytes, int64_t offset)
{
    ssize_t n = pread(fd, data, size_bytes, offset);
    return n < 0 ? -errno : n;
}

int weft__sys_close(int fd)
{
    return result_of(close(fd));
}

int weft__sys_write_all(int fd, const void *data, size_t size_bytes)
{
    const char *at = data;
    while (size_bytes > 0) {
        ssize_t n = write(fd, at, size_bytes);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (n > 0) {
            at += n;
            size_bytes -= (size_t)n;
        }
    }
    return 0;
}

int64_t weft__sys_read_file(const char *path, char *text, size_t size_bytes)
{
    int fd = weft__sys_open_read(path);
    if (fd < 0) {
        return fd;
    }
    size_t length = 0;
    int64_t rc = 0;
    while (length + 1 < size_bytes) {
        ssize_t n = read(fd, text + length, size_bytes - 1 - length);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            rc = n < 0 ? -errno : 0;
            break;
        }
        length += (size_t)n;
    }
    close(fd);
    text[length] = '\0';
    return rc < 0 ? rc : (int64_t)length;
}

weft_time weft__clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (weft_time)now.tv_sec * WEFT_S + (weft_time)now.tv_nsec;
}

weft_time weft__sys_cpu_ns(pthread_t thread)
{
    struct timespec used;
    clockid_t clock;
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        return 0;
    }
    return (weft_time)used.tv_sec * WEFT_S + (weft_time)used.tv_nsec;
}

int weft__sys_gettid(void)
{
    return result_of(syscall(SYS_gettid));
}

int weft__sys_sharpen_timers(void)
{
    return result_of(prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL));
}

int weft__sys_affinity(cpu_set_t *set, size_t size_bytes)
{
    return result_of(sched_getaffinity(0, size_bytes, set));
}

int weft__sys_set_affinity(const cpu_set_t *set, size_t size_bytes)
{
    return result_of(sched_setaffinity(0, size_bytes, set));
}
