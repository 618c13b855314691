// probe_test.c - choosing a driver, and drivers where the kernel forbids things or runs out of them.
//
// Each test is a process of its own, so it may take away its own system calls and descriptors.
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef WEFT_HAVE_URING
#include <liburing.h>
#endif

#include "base/sys.h"
#include "io/io.h"
#ifdef WEFT_HAVE_URING
#include "io/uring.h"
#endif

#define LOST_NS (20 * WEFT_S)

/// From now on the system call fails with `error`, in this thread and those it starts.
static void deny(long number, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { WEFT__ARRAY_LEN(code), code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        SKIP("no seccomp filters here");
    }
}

static const struct weft__driver *driver(void)
{
#ifdef WEFT_HAVE_URING
    if (test_driver() == TEST_DRIVER_URING) {
        return &weft__uring_driver;
    }
#endif
    return &weft__epoll_driver;
}

static void *open_driver(void)
{
    const struct weft__driver_config config = { 0 };
    void *state = NULL;
    CHECK_OK(driver()->open(&state, &config));
    return state;
}

static int choose_with(const struct weft__driver **chosen, enum weft_io wish, bool lookout,
                       char why[160])
{
    static const struct weft__driver nonsense;
    *chosen = &nonsense;
    memset(why, 'x', 160);
    int rc = weft__io_choose(chosen, wish, lookout, why, 160);
    CHECK(memchr(why, '\0', 160) != NULL);
    CHECK((rc == 0) == (*chosen != NULL));
    return rc;
}

static int choose(const struct weft__driver **chosen, enum weft_io wish, char why[160])
{
    return choose_with(chosen, wish, false, why);
}

/// Sets how many descriptors the process may have; returns what it was.
static rlim_t limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = count;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static void *kick(void *state)
{
    driver()->kick(state, NULL);
    return NULL;
}

/// A wait is ended by a kick, from this thread and from others, and else lasts until its time.
static void check_driver_works(void *state)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        weft_time until = weft__clock_ns() + LOST_NS;
        if (i % 2 == 0) {
            kick(state);
        } else {
            CHECK_EQ(pthread_create(&thread, NULL, kick, state), 0);
        }
        driver()->wait(state, until);
        CHECK_LT(weft__clock_ns(), until);
        if (i % 2 != 0) {
            pthread_join(thread, NULL);
        }
        until = weft__clock_ns() + 100 * WEFT_US * (weft_time)i;
        driver()->wait(state, until);
        CHECK_GE(weft__clock_ns(), until);
    }
}

// Choosing.

TEST(choose_epoll_when_told)
{
    const struct weft__driver *chosen;
    char why[160];
    CHECK_OK(choose(&chosen, WEFT_IO_EPOLL, why));
    CHECK(chosen == &weft__epoll_driver);
    CHECK_STR(chosen->name, "epoll");
    CHECK_STR(why, "");
}

TEST(choose_refuses_nonsense)
{
    const struct weft__driver *chosen;
    char why[160];
    CHECK_EQ(choose(&chosen, (enum weft_io)99, why), -EINVAL);
    CHECK(why[0] != '\0');
}

#ifndef WEFT_HAVE_URING

TEST(choose_epoll_in_a_build_without_uring)
{
    const struct weft__driver *chosen;
    char why[160];
    CHECK_OK(choose(&chosen, WEFT_IO_AUTO, why));
    CHECK(chosen == &weft__epoll_driver);
    CHECK_EQ(choose(&chosen, WEFT_IO_URING, why), -ENOSYS);
    CHECK(why[0] != '\0');
}

#else

TEST(choose_uring_where_it_works)
{
    const struct weft__driver *chosen;
    char why[160];
    if (!test_uring_available()) {
        SKIP("no io_uring here");
    }
    CHECK_OK(choose(&chosen, WEFT_IO_AUTO, why));
    CHECK(chosen == &weft__uring_driver);
    CHECK_STR(chosen->name, "uring");
    CHECK_STR(why, "");
    CHECK_OK(choose(&chosen, WEFT_IO_URING, why));
    CHECK(chosen == &weft__uring_driver);
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    int count = 0;
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void check_fallback(long number, int error)
{
    const struct weft__driver *chosen;
    char why[160];
    if (!test_uring_available()) {
        SKIP("no io_uring here");
    }
    int descriptors = count_descriptors();
    deny(number, error);
    CHECK_OK(choose(&chosen, WEFT_IO_AUTO, why));
    CHECK(chosen == &weft__epoll_driver);
    CHECK(strstr(why, "epoll instead of io_uring") != NULL);
    CHECK_EQ(choose(&chosen, WEFT_IO_URING, why), -error);
    CHECK(strstr(why, "io_uring unavailable") != NULL);
    CHECK_EQ(count_descriptors(), descriptors);
}

TEST(choose_epoll_when_setup_is_forbidden)
{
    check_fallback(SYS_io_uring_setup, EPERM);
}

TEST(choose_epoll_when_setup_is_unknown)
{
    check_fallback(SYS_io_uring_setup, ENOSYS);
}

TEST(choose_epoll_when_a_security_module_objects)
{
    check_fallback(SYS_io_uring_setup, EACCES);
}

TEST(choose_epoll_when_a_ring_finds_no_memory)
{
    check_fallback(SYS_io_uring_setup, ENOMEM);
}

TEST(choose_epoll_when_only_enter_is_forbidden)
{
    check_fallback(SYS_io_uring_enter, EPERM);
}

TEST(choose_epoll_when_enter_is_unknown)
{
    check_fallback(SYS_io_uring_enter, ENOSYS);
}

TEST(choose_epoll_when_a_lookout_cannot_be_registered)
{
    const struct weft__driver *chosen;
    char why[160];
    if (!test_uring_available()) {
        SKIP("no io_uring here");
    }
    CHECK_OK(choose_with(&chosen, WEFT_IO_AUTO, true, why));
    CHECK(chosen == &weft__uring_driver);
    int descriptors = count_descriptors();
    deny(SYS_io_uring_register, EPERM);
    CHECK_OK(choose(&chosen, WEFT_IO_AUTO, why));
    CHECK(chosen == &weft__uring_driver); // which does without, if nobody asks for it
    CHECK_OK(choose_with(&chosen, WEFT_IO_AUTO, true, why));
    CHECK(chosen == &weft__epoll_driver);
    CHECK(strstr(why, "epoll instead of io_uring: WEFT_STUCK_REMEDY") != NULL);
    CHECK_EQ(choose_with(&chosen, WEFT_IO_URING, true, why), -EPERM);
    CHECK_EQ(count_descriptors(), descriptors);
}

TEST(choose_epoll_before_linux_5_15)
{
    const struct weft__driver *chosen;
    char why[160];
    if (!test_uring_available()) {
        SKIP("no io_uring here");
    }
    int descriptors = count_descriptors();
    weft__uring_without = WEFT__URING_LEAST;
    CHECK_OK(choose(&chosen, WEFT_IO_AUTO, why));
    CHECK(chosen == &weft__epoll_driver);
    CHECK(strstr(why, "no usable io_uring") != NULL);
    CHECK_EQ(choose(&chosen, WEFT_IO_URING, why), -ENOSYS);
    CHECK_EQ(count_descriptors(), descriptors);
    weft__uring_without = ~WEFT__URING_LEAST;
    CHECK_OK(choose(&chosen, WEFT_IO_AUTO, why));
    CHECK(chosen == &weft__uring_driver);
}

TEST(choose_fails_without_descriptors)
{
    const struct weft__driver *chosen;
    char why[160];
    if (!test_uring_available()) {
        SKIP("no io_uring here");
    }
    rlim_t before = limit_descriptors(3);
    CHECK_EQ(choose(&chosen, WEFT_IO_AUTO, why), -EMFILE);
    CHECK(why[0] != '\0');
    limit_descriptors(before); // the leak checker needs some
}

// What a driver does without.

static bool on_uring(void)
{
    return test_driver() == TEST_DRIVER_URING;
}

TEST_DRIVERS(kicks_work_without_register)
{
    deny(SYS_io_uring_register, EPERM); // as before Linux 6.13: no messages
    void *state = open_driver();
    check_driver_works(state);
    driver()->close(state);
}

TEST_DRIVERS(kicks_work_when_messages_fail_later)
{
    void *state = open_driver();
    check_driver_works(state);
    deny(SYS_io_uring_register, EOVERFLOW);
    check_driver_works(state);
    driver()->close(state);
}

static int find_descriptor(const char *kind)
{
    for (int fd = 0; fd < 64; fd++) {
        char path[32], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, kind) != NULL) {
            return fd;
        }
    }
    SKIP("no such descriptor here");
}

TEST_DRIVERS(kicks_work_after_the_kernel_dropped_the_poll)
{
    if (!on_uring()) {
        return;
    }
    void *state = open_driver();
    struct io_uring_sync_cancel_reg everything = {
        .fd = -1,
        .flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL,
        .timeout = { -1, -1 },
    };
    int ring = find_descriptor("[io_uring]"), event = find_descriptor("[eventfd]");
    const uint64_t one = 1;
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(write(event, &one, sizeof one), (ssize_t)sizeof one);
        driver()->wait(state, weft__clock_ns() + LOST_NS);
        int rc = io_uring_register((unsigned)ring, IORING_REGISTER_SYNC_CANCEL, &everything, 1);
        if (rc < 0) {
            SKIP("no synchronous cancel before Linux 6.0");
        }
        driver()->wait(state, weft__clock_ns() + LOST_NS); // takes the end of the old poll
        weft_time until = weft__clock_ns() + WEFT_MS;
        driver()->wait(state, until);
        CHECK_GE(weft__clock_ns(), until);
    }
    deny(SYS_io_uring_register, EPERM);
    check_driver_works(state);
    driver()->close(state);
}

#endif

TEST_DRIVERS(timeouts_work_without_epoll_pwait2)
{
    deny(SYS_epoll_pwait2, ENOSYS); // before Linux 5.11
    void *state = open_driver();
    check_driver_works(state);
    driver()->close(state);
}

TEST_DRIVERS(poll_makes_no_system_call)
{
    void *state = open_driver();
    check_driver_works(state);
    deny(SYS_epoll_pwait, EIO);
    deny(SYS_epoll_pwait2, EIO);
#ifdef SYS_epoll_wait
    deny(SYS_epoll_wait, EIO);
#endif
    deny(SYS_io_uring_enter, EIO); // the drivers die of that
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(driver()->poll(state), 0);
    }
    driver()->close(state);
}

TEST_DRIVERS(open_without_descriptors_fails_cleanly)
{
    int filler[64], fillers = 0;
    rlim_t before = limit_descriptors(64);
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
        filler[fillers++] = fd;
    }
    const struct weft__driver_config config = { .entries = 8 };
    void *state = filler;
    int rc = -EMFILE, spare = 0;
    for (; rc < 0; spare++) {
        rc = driver()->open(&state, &config);
        if (rc < 0) {
            CHECK_EQ(rc, -EMFILE);
            CHECK(state == NULL);
            for (int i = 0; i < spare; i++) { // what was free is free again
                CHECK(fcntl(filler[fillers + i], F_GETFD) < 0);
            }
            CHECK_OK(close(filler[--fillers]));
        }
    }
    CHECK_GT(spare, 1);
    check_driver_works(state);
    driver()->close(state);
    limit_descriptors(before);
}
