// driver.h - what a carrier needs from the thing that talks to the kernel.
//
// Declared here and implemented above (io/uring.c, io/epoll.c, runtime/sim.c), so that the
// scheduler knows no kernel interface. A driver belongs to one carrier; only kick() may be called
// from other threads.
#ifndef WEFT_SCHED_DRIVER_H
#define WEFT_SCHED_DRIVER_H

#include <weft/time.h>

#include "base/base.h"
#include "sched/op.h"

struct weft_allocator;
struct mmsghdr;
struct sockaddr;

/// A call that may block, for an OS thread of the blocking pool; in the sender's storage. `run` is
/// called there, and that thread touches the job no more once `run` has begun: `run` itself says
/// how the sender learns of the end.
struct weft__job {
    void (*run)(struct weft__job *job);
    // The pool's, from send to run.
    struct weft__job *next;
    struct weft__job **link; // what points at us; NULL: not in the queue
    weft_time queued_at;
};

/// Where a driver sends what the kernel would block on.
struct weft__offload {
    /// 0, or a negative errno: then nothing runs.
    int (*send)(void *pool, struct weft__job *job);
    /// Takes back a job that was sent. True: `run` was not and will not be called. False: it was.
    bool (*recall)(void *pool, struct weft__job *job);
    void *pool;
};

/// Zero means the driver's default.
struct weft__driver_config {
    const struct weft_allocator *allocator;
    unsigned entries;             ///< submission queue size
    unsigned submit_batch;        ///< submit as soon as so many are queued; 0: once per step
    uint32_t buffer_bytes;        ///< size of a receive buffer
    uint32_t buffers;             ///< how many, a power of two
    struct weft__offload offload; ///< send NULL: blocking calls run inline
    bool shared; ///< other threads may call it as well, one at a time (sched/annex.h)
    struct weft__carrier *carrier; ///< for what comes back from the pool; NULL in unit tests
};

/// Calls on sockets that never wait. The simulator has its own descriptors; elsewhere these are
/// the system calls. All return 0 or a positive result, or a negative errno.
struct weft__sockets {
    /// Closed on exec, and non-blocking if the driver wants it so: an accepted socket becomes what
    /// ACCEPT's flags say, and epoll adds SOCK_NONBLOCK to those.
    int (*socket)(void *state, int domain, int type, int protocol);
    int (*pair)(void *state, int domain, int type, int protocol, int fds[2]);
    int (*bind)(void *state, int fd, const struct sockaddr *addr, uint32_t size);
    int (*listen)(void *state, int fd, int backlog);
    int (*local)(void *state, int fd, struct sockaddr *addr, uint32_t *size);
    int (*peer)(void *state, int fd, struct sockaddr *addr, uint32_t *size);
    int (*set)(void *state, int fd, int level, int name, const void *value, uint32_t size);
    int (*get)(void *state, int fd, int level, int name, void *value, uint32_t *size);
    int (*shutdown)(void *state, int fd, int how);
    int (*unread)(void *state,
                  int fd); ///< bytes of a stream that have arrived and were not received
    /// As recvmmsg() and sendmmsg() that do not wait: how many messages. NULL: there is no such call,
    /// RECVMSG and SENDMSG take one at a time.
    int (*receive_many)(void *state, int fd, struct mmsghdr *messages, unsigned count, int flags);
    int (*send_many)(void *state, int fd, struct mmsghdr *messages, unsigned count, int flags);
    int (*close)(void *state, int fd); ///< after weft__driver.forget
};

struct weft__driver {
    const char *name;

    /// Makes the state for one carrier. Called on the carrier's own thread, which is the only one
    /// that will call poll and wait. 0 or a negative errno.
    int (*open)(void **state, const struct weft__driver_config *config);

    /// Frees the state. Nobody kicks any more, and the carrier's thread has ended or is calling.
    /// Drains first, if that has not been done.
    void (*close)(void *state);

    /// Cancels what is in flight and waits for it; done() is not called. The last call on the
    /// carrier's thread, because a ring may belong to that thread alone. Kicks may still come.
    /// NULL: close() does it.
    void (*drain)(void *state);

    /// Hands what is queued to the kernel and takes completions, without blocking. Costs nothing
    /// when no operation is in flight. Returns how many events it handled.
    int (*poll)(void *state);

    /// Blocks until there is an event, a kick, or the absolute monotonic time `until` has come
    /// (WEFT_FOREVER: no limit). May return early for no reason. Returns how many events it handled
    /// (a kick is not one).
    int (*wait)(void *state, weft_time until);

    /// Instead of wait(), for a carrier whose poller blocks somewhere else: does what poll() does, takes
    /// back kicks as wait() does, and says what to watch meanwhile: `*fd` becomes readable with the
    /// next completion or kick and need not be read, and by `*until` lookout() or poll() has to be
    /// called again (0: at once, WEFT_FOREVER: no limit). Returns as poll(), or a negative errno. NULL:
    /// there is no such descriptor.
    int (*lookout)(void *state, int *fd, weft_time *until);

    /// Makes the wait in progress, or else the next one, return soon. A kick is a token: it is
    /// never lost, and several before one wait may count as one. Callable from any thread; `from`
    /// is the driver state of the calling carrier if that has the same driver, else NULL. Cannot
    /// fail.
    void (*kick)(void *state, void *from);

    // Operations; see op.h for the contract. On the carrier's thread.

    /// Starts the op. True: it has ended already. False: done() will be called.
    bool (*submit)(void *state, struct weft__op *op);

    /// Writes to a socket what it takes at once, without an op: a positive result, or a negative errno.
    /// -EAGAIN: an op has to do it. NULL: always.
    int64_t (*write_now)(void *state, int fd, const void *data, size_t size);

    /// Asks an op of this driver that is in flight to end.
    void (*cancel)(void *state, struct weft__op *op);

    /// Asks every op on the descriptor to end, and drops what the driver remembers about it, because
    /// it is about to be closed or leaves this carrier.
    void (*forget)(void *state, int fd);

    /// The memory of a receive buffer that an op was given, buffer_bytes long.
    void *(*buffer)(void *state, uint16_t number);

    /// Gives a receive buffer back.
    void (*give)(void *state, uint16_t number);

    /// What the driver has counted; valid until close.
    const struct weft__op_counts *(*counts)(void *state);

    const struct weft__sockets *sockets;
};

#endif
