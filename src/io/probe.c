// probe.c - which driver this process gets.
//
// What a kernel version promises, a container, a security module or a sysctl may forbid, so that
// nothing but a round trip tells.
#include "io/io.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

#ifdef WEFT_HAVE_URING

#define TRIAL_TIMEOUT_NS (50 * WEFT_US)
#define TRIAL_LIMIT_NS (1 * WEFT_S)

/// Opens the driver, lets one wait time out and ends another by a kick. Opening it sends an
/// operation through already. A `lookout` needs what some containers forbid.
static int round_trip(const struct weft__driver *driver, bool lookout)
{
    const struct weft__driver_config config = { .entries = 4 };
    void *state;
    int rc = driver->open(&state, &config);
    if (rc < 0) {
        return rc;
    }
    weft_time start = weft__clock_ns();
    driver->wait(state, start + TRIAL_TIMEOUT_NS);
    driver->kick(state, NULL);
    driver->wait(state, start + TRIAL_LIMIT_NS);
    rc = weft__clock_ns() < start + TRIAL_LIMIT_NS ? 0 : -ETIMEDOUT;
    if (rc == 0 && lookout) {
        int fd;
        weft_time until;
        rc = driver->lookout(state, &fd, &until);
    }
    driver->close(state);
    return rc < 0 ? rc : 0;
}

static const char *reason(int rc)
{
    switch (-rc) {
    case ENOSYS: return "this kernel has no usable io_uring";
    case EPERM: return "io_uring is forbidden (sysctl kernel.io_uring_disabled or seccomp)";
    case EACCES: return "io_uring is forbidden (security module)";
    case EINVAL: return "this kernel's io_uring lacks a feature";
    case ENOMEM: return "not enough memory (RLIMIT_MEMLOCK?)";
    case EMFILE: return "too few descriptors (RLIMIT_NOFILE; each carrier needs two)";
    case ENFILE: return "the system is out of descriptors";
    case ETIMEDOUT: return "a trial operation did not come back";
    default: return strerror(-rc);
    }
}

/// What it was that failed, if not all of it did.
static const char *part(bool lookout)
{
    return lookout && round_trip(&weft__uring_driver, false) == 0
               ? "WEFT_STUCK_REMEDY needs io_uring_register(2): "
               : "";
}

static int choose_uring(const struct weft__driver **driver, enum weft_io wish, bool lookout,
                        char *why, size_t why_size)
{
    int rc = round_trip(&weft__uring_driver, lookout);
    if (rc == -ETIMEDOUT) { // a machine that stood still for a second is no reason to give up
        rc = round_trip(&weft__uring_driver, lookout);
    }
    if (rc == 0) {
        *driver = &weft__uring_driver;
        return 0;
    }
    bool forced = wish == WEFT_IO_URING;
    // Descriptors that are short here would be short for epoll too, so that hiding it helps nobody.
    if (!forced && rc != -EMFILE && rc != -ENFILE) {
        *driver = &weft__epoll_driver;
        snprintf(why, why_size, "epoll instead of io_uring: %s%s (errno %d)", part(lookout),
                 reason(rc), -rc);
        return 0;
    }
    snprintf(why, why_size, "io_uring unavailable: %s%s (errno %d)", part(lookout), reason(rc),
             -rc);
    return rc;
}

#else

static int choose_uring(const struct weft__driver **driver, enum weft_io wish, bool lookout,
                        char *why, size_t why_size)
{
    (void)lookout;
    if (wish == WEFT_IO_AUTO) {
        *driver = &weft__epoll_driver;
        return 0;
    }
    snprintf(why, why_size, "io_uring unavailable: this build of weft has none");
    return -ENOSYS;
}

#endif

int weft__io_choose(const struct weft__driver **driver, enum weft_io wish, bool lookout, char *why,
                    size_t why_size)
{
    *driver = NULL;
    why[0] = '\0';
    switch (wish) {
    case WEFT_IO_AUTO:
    case WEFT_IO_URING: return choose_uring(driver, wish, lookout, why, why_size);
    case WEFT_IO_EPOLL: *driver = &weft__epoll_driver; return 0;
    }
    snprintf(why, why_size, "no such driver (%d); there are auto, uring and epoll", (int)wish);
    return -EINVAL;
}
