// epoll_ops_test.c - operations on the epoll driver: what no other driver does, or does this way.
//
// What is common to all drivers is in op_test.c.
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "io/io.h"

#define LOST_NS (20 * WEFT_S)

static const struct weft__driver *const driver = &weft__epoll_driver;

struct probe {
    struct weft__op op;
    int ends;
};

static void ended(struct weft__op *op)
{
    struct probe *probe = weft__container_of(op, struct probe, op);
    if ((op->result_flags & WEFT__OP_MORE) == 0) {
        probe->ends++;
    }
}

static void *open_driver(void)
{
    const struct weft__driver_config config = { 0 };
    void *state = NULL;
    CHECK_OK(driver->open(&state, &config));
    return state;
}

/// Waits until the op has ended, and returns its result.
static int64_t await(void *state, struct probe *probe)
{
    weft_time until = weft__clock_ns() + LOST_NS;
    while (probe->ends == 0) {
        CHECK_LT(weft__clock_ns(), until);
        driver->wait(state, until);
    }
    CHECK_EQ(probe->ends, 1);
    return probe->op.result;
}

TEST(recv_waits_for_bytes)
{
    void *state = open_driver();
    int fds[2];
    char data[16];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int managed = 0; managed < 2; managed++) {
        for (int i = 0; i < 3; i++) {
            struct probe probe = { .op = { .done = ended,
                                           .code = WEFT__OP_RECV,
                                           .mode = managed ? WEFT__OP_MANAGED : 0,
                                           .fd = fds[0],
                                           .data = data,
                                           .size = sizeof data } };
            CHECK(!driver->submit(state, &probe.op));
            driver->poll(state);
            CHECK_EQ(probe.ends, 0);
            CHECK_EQ(write(fds[1], "abc", 3), 3);
            CHECK_EQ(await(state, &probe), 3);
        }
    }
    driver->forget(state, fds[0]);
    driver->close(state);
}
