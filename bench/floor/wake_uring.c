// wake_uring.c - wake-ups of a thread that sleeps in io_uring_enter.
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wake.h"

// Linux 6.13; not in liburing 2.3's header.
#define REGISTER_SEND_MSG_RING 31

#define DEFER (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)
#define COOP (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN)

struct side {
    _Alignas(128) struct io_uring ring;
    _Atomic int ring_fd; // 0 until the side's thread has made its ring
    int event;
    uint64_t event_value;
};

struct rings {
    struct side side[2];
};

static int rings_open(struct wake_pair *pair)
{
    struct rings *rings = aligned_alloc(128, sizeof *rings);
    if (rings == NULL) {
        return -ENOMEM;
    }
    memset(rings, 0, sizeof *rings);
    pair->state = rings;
    for (int i = 0; i < 2; i++) {
        rings->side[i].event = eventfd(0, EFD_CLOEXEC);
        if (rings->side[i].event < 0) {
            int error = errno;
            free(rings);
            return -error;
        }
    }
    return 0;
}

static void rings_close(struct wake_pair *pair)
{
    struct rings *rings = pair->state;
    for (int i = 0; i < 2; i++) {
        if (atomic_load(&rings->side[i].ring_fd) > 0) {
            io_uring_queue_exit(&rings->side[i].ring);
        }
        close(rings->side[i].event);
    }
    free(rings);
}

// SINGLE_ISSUER binds a ring to the thread that creates it.
static int ring_attach(struct wake_pair *pair, int me)
{
    struct side *side = &((struct rings *)pair->state)->side[me];
    int rc = io_uring_queue_init(64, &side->ring, pair->mechanism->ring_flags);
    if (rc < 0) {
        return rc;
    }
    io_uring_register_ring_fd(&side->ring);
    atomic_store(&side->ring_fd, side->ring.ring_fd);
    return 0;
}

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void ring_wait(struct wake_pair *pair, int me)
{
    struct side *side = &((struct rings *)pair->state)->side[me];
    struct io_uring_cqe *cqe;
    must(io_uring_submit_and_wait(&side->ring, 1) >= 0);
    must(io_uring_peek_cqe(&side->ring, &cqe) == 0);
    must(cqe->res >= 0);
    io_uring_cqe_seen(&side->ring, cqe);
}

static void event_wake(struct wake_pair *pair, int to)
{
    struct side *side = &((struct rings *)pair->state)->side[to];
    uint64_t one = 1;
    must(write(side->event, &one, sizeof one) == sizeof one);
}

static int poll_attach(struct wake_pair *pair, int me)
{
    struct side *side = &((struct rings *)pair->state)->side[me];
    int rc = ring_attach(pair, me);
    if (rc < 0) {
        return rc;
    }
    struct io_uring_sqe *sqe = io_uring_get_sqe(&side->ring);
    io_uring_prep_poll_multishot(sqe, side->event, POLLIN);
    rc = io_uring_submit(&side->ring);
    return rc < 0 ? rc : 0;
}

static void read_arm(struct side *side)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&side->ring);
    io_uring_prep_read(sqe, side->event, &side->event_value, sizeof side->event_value, 0);
}

static int read_attach(struct wake_pair *pair, int me)
{
    struct side *side = &((struct rings *)pair->state)->side[me];
    int rc = ring_attach(pair, me);
    if (rc < 0) {
        return rc;
    }
    read_arm(side);
    rc = io_uring_submit(&side->ring);
    return rc < 0 ? rc : 0;
}

static void read_wait(struct wake_pair *pair, int me)
{
    ring_wait(pair, me);
    read_arm(&((struct rings *)pair->state)->side[me]); // goes in with the next enter
}

static void msg_queue(struct wake_pair *pair, int to)
{
    struct rings *rings = pair->state;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&rings->side[!to].ring);
    io_uring_prep_msg_ring(sqe, atomic_load(&rings->side[to].ring_fd), 0, 1, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

static void msg_wake(struct wake_pair *pair, int to)
{
    msg_queue(pair, to);
    must(io_uring_submit(&((struct rings *)pair->state)->side[!to].ring) == 1);
}

static void msg_flush(struct wake_pair *pair, int me)
{
    must(io_uring_submit(&((struct rings *)pair->state)->side[me].ring) >= 0);
}

static void sync_msg_wake(struct wake_pair *pair, int to)
{
    struct rings *rings = pair->state;
    struct io_uring_sqe sqe;
    memset(&sqe, 0, sizeof sqe);
    sqe.opcode = IORING_OP_MSG_RING;
    sqe.fd = atomic_load(&rings->side[to].ring_fd);
    sqe.off = 1; // the completion's user_data
    must(syscall(SYS_io_uring_register, -1, REGISTER_SEND_MSG_RING, &sqe, 1) == 0);
}

static int sync_msg_attach(struct wake_pair *pair, int me)
{
    int rc = ring_attach(pair, me);
    if (rc < 0) {
        return rc;
    }
    // A message to ourselves tells whether the kernel has the call at all.
    struct side *side = &((struct rings *)pair->state)->side[me];
    struct io_uring_sqe sqe;
    memset(&sqe, 0, sizeof sqe);
    sqe.opcode = IORING_OP_MSG_RING;
    sqe.fd = side->ring.ring_fd;
    if (syscall(SYS_io_uring_register, -1, REGISTER_SEND_MSG_RING, &sqe, 1) < 0) {
        return -errno;
    }
    ring_wait(pair, me);
    return 0;
}

static int ring_eventfd_attach(struct wake_pair *pair, int me)
{
    struct side *side = &((struct rings *)pair->state)->side[me];
    int rc = sync_msg_attach(pair, me);
    return rc < 0 ? rc : io_uring_register_eventfd(&side->ring, side->event);
}

static void ring_eventfd_wait(struct wake_pair *pair, int me)
{
    struct side *side = &((struct rings *)pair->state)->side[me];
    uint64_t value;
    must(read(side->event, &value, sizeof value) == sizeof value);
    ring_wait(pair, me);
}

#define COMMON .open = rings_open, .close = rings_close

const struct wake_mechanism wake_uring_poll_defer = {
    .name = "uring-poll-defer",
    .what = "eventfd write / multishot poll of it, DEFER_TASKRUN, never drained",
    .attach = poll_attach,
    .wake = event_wake,
    .wait = ring_wait,
    .ring_flags = DEFER,
    COMMON,
};
const struct wake_mechanism wake_uring_poll_coop = {
    .name = "uring-poll-coop",
    .what = "the same, COOP_TASKRUN",
    .attach = poll_attach,
    .wake = event_wake,
    .wait = ring_wait,
    .ring_flags = COOP,
    COMMON,
};
const struct wake_mechanism wake_uring_read_defer = {
    .name = "uring-read-defer",
    .what = "eventfd write / re-armed read of it, DEFER_TASKRUN",
    .attach = read_attach,
    .wake = event_wake,
    .wait = read_wait,
    .ring_flags = DEFER,
    COMMON,
};
const struct wake_mechanism wake_msg_defer = {
    .name = "msg-defer",
    .what = "MSG_RING from the own ring, own enter; target DEFER_TASKRUN",
    .attach = ring_attach,
    .wake = msg_wake,
    .wait = ring_wait,
    .ring_flags = DEFER,
    COMMON,
};
const struct wake_mechanism wake_msg_coop = {
    .name = "msg-coop",
    .what = "the same, target COOP_TASKRUN",
    .attach = ring_attach,
    .wake = msg_wake,
    .wait = ring_wait,
    .ring_flags = COOP,
    COMMON,
};
const struct wake_mechanism wake_msg_joined_defer = {
    .name = "msg-joined-defer",
    .what = "MSG_RING submitted by the same enter that waits, DEFER_TASKRUN",
    .attach = ring_attach,
    .wake = msg_queue,
    .wait = ring_wait,
    .flush = msg_flush,
    .ring_flags = DEFER,
    COMMON,
};
const struct wake_mechanism wake_sync_msg_defer = {
    .name = "sync-msg-defer",
    .what = "io_uring_register(-1, SEND_MSG_RING), no own ring; target DEFER_TASKRUN",
    .attach = sync_msg_attach,
    .wake = sync_msg_wake,
    .wait = ring_wait,
    .ring_flags = DEFER,
    COMMON,
};
const struct wake_mechanism wake_sync_msg_coop = {
    .name = "sync-msg-coop",
    .what = "the same, target COOP_TASKRUN",
    .attach = sync_msg_attach,
    .wake = sync_msg_wake,
    .wait = ring_wait,
    .ring_flags = COOP,
    COMMON,
};
const struct wake_mechanism wake_ring_eventfd = {
    .name = "ring-eventfd",
    .what = "sync MSG_RING / blocking read of the ring's registered eventfd, then enter",
    .attach = ring_eventfd_attach,
    .wake = sync_msg_wake,
    .wait = ring_eventfd_wait,
    .ring_flags = DEFER,
    COMMON,
};
