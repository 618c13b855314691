// uring_probe.c - what this kernel's io_uring can do.
//
// Each feature is tried by an operation that must fail, on an eventfd: a kernel that knows the
// feature says that this is no socket, one that does not says -EINVAL. IORING_REGISTER_PROBE knows
// opcodes only, not flags, and containers may forbid io_uring_register.
#include <errno.h>

#include "io/uring.h"
#include "io/uring_compat.h"

unsigned weft__uring_without;

static void describe_link(struct weft__uring *u, struct io_uring_sqe *sqe)
{
    (void)u;
    io_uring_prep_linkat(sqe, -1, NULL, -1, NULL, 0);
}

static void describe_cancel_fd(struct weft__uring *u, struct io_uring_sqe *sqe)
{
    io_uring_prep_cancel_fd(sqe, u->event_fd, IORING_ASYNC_CANCEL_ALL);
}

static void describe_multi_accept(struct weft__uring *u, struct io_uring_sqe *sqe)
{
    io_uring_prep_multishot_accept(sqe, u->event_fd, NULL, NULL, 0);
}

static void describe_multi_recv(struct weft__uring *u, struct io_uring_sqe *sqe)
{
    io_uring_prep_recv_multishot(sqe, u->event_fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
}

static void describe_send_zc(struct weft__uring *u, struct io_uring_sqe *sqe)
{
    io_uring_prep_send_zc(sqe, u->event_fd, NULL, 0, 0, 0);
}

static void describe_no_signal(struct weft__uring *u, struct io_uring_sqe *sqe)
{
    static const uint64_t nothing;
    io_uring_prep_write(sqe, u->event_fd, &nothing, sizeof nothing, 0);
    sqe->rw_flags = WEFT__RWF_NOSIGNAL;
}

static const struct {
    void (*describe)(struct weft__uring *u, struct io_uring_sqe *sqe);
    unsigned features;
} trials[] = {
    { describe_cancel_fd, WEFT__URING_CANCEL_FD },
    { describe_multi_accept, WEFT__URING_MULTI_ACCEPT | WEFT__URING_SOCK_NONEMPTY },
    { describe_multi_recv, WEFT__URING_MULTI_RECV },
    { describe_send_zc, WEFT__URING_SEND_ZC },
    { describe_no_signal, WEFT__URING_NO_SIGNAL },
};

int weft__uring_probe(struct weft__uring *u)
{
    struct io_uring_sqe sqe;
    int result = 0;
    // Linux 5.15 brought this one. Older kernels run our operations, but with bugs around
    // cancellation and short transfers that are not worth a code path each.
    describe_link(u, &sqe);
    int rc = weft__uring_try(u, &sqe, &result);
    bool old = result == -EINVAL || (weft__uring_without & WEFT__URING_LEAST) != 0;
    if (rc == 0 && old) {
        rc = -ENOSYS;
    }
    for (size_t i = 0; i < WEFT__ARRAY_LEN(trials) && rc == 0; i++) {
        trials[i].describe(u, &sqe);
        rc = weft__uring_try(u, &sqe, &result);
        if (rc == 0 && result != -EINVAL && result != -EOPNOTSUPP) {
            u->features |= trials[i].features;
        }
    }
    u->features &= ~weft__uring_without;
    return rc;
}
