// remote.h - driver threads: a carrier's operations in the hands of another thread.
//
//     remote.c          the carrier's side: a driver that writes letters (sched/driver.h)
//     driver_thread.c   the thread's side: a real driver, and who is told of what it completes
//     post.c            how the two wake each other
//
// The way of an op:
//
//     a carrier                              its driver thread
//     submit: an errand with a copy of the op
//       SUBMIT  ---------------------------> real submit
//       CANCEL  ---------------------------> real cancel; ASKED <--
//                                            real done()
//     poll, wait, lookout:                     with MORE: a parcel with a copy of the result
//       owner's done()  <------------------- RESULT, RESULT, ...
//       owner's done(), errand free  <------ LAST
//
//   R1  The owner's op is touched by the carrier only, the errand's copy by the driver thread only, from
//       SUBMIT to LAST. What both point to (bytes, addresses, messages) is the driver's, as always.
//   R2  Letters of one carrier arrive in the order in which they were written, and so do answers.
//   R3  An errand is free when LAST is in and, if CANCEL was written, ASKED as well: so a cancel never
//       meets an errand of somebody else. It is written once.
//   R4  A result needs no memory at the moment it comes: with a receive buffer its parcel is the
//       buffer's own, which also takes the buffer back (GIVE); a SEND_ZC has one in its errand; an ACCEPT
//       that goes on is made of single ones, each submitted when there is a parcel for the next, and
//       ends (O4) when there is none.
//   R5  forget() waits for the driver thread: when it returns, the kernel has every op on the descriptor
//       that was written about, and the real driver has forgotten it. So the number may be used anew at
//       once, here and elsewhere. It is skipped where nothing is remembered. What goes on is
//       cancelled first, or it might begin anew afterwards.
//   R6  The driver thread never waits for a carrier.
//   R7  A carrier that takes no answers, because a task holds it, costs others nothing. So what goes on is
//       made of single ops, and ends (O4) when it has brought enough: an accept after so many connections,
//       a receive with SELECT when its carrier has its share of the receive buffers, half of what there
//       are for each. After that an op brings one more at most. The owner submits it anew when it is back.
//
// Locks: none. Checked by: tests/model/remote_model.c, tests/model/post_model.c,
// tests/api/poller_mode_test.c, tests/api/poller_held_test.c.
#ifndef WEFT_IO_REMOTE_H
#define WEFT_IO_REMOTE_H

#include <pthread.h>

#include "io/post.h"
#include "sched/driver.h"

struct weft__crew;
struct weft__remote;
struct weft__driver_thread;

/// weft__node.kind of letters and answers.
enum weft__letter {
    WEFT__LETTER_SUBMIT,
    WEFT__LETTER_CANCEL,
    WEFT__LETTER_GIVE,
    WEFT__LETTER_FORGET,
    WEFT__LETTER_STOP,
    WEFT__ANSWER_RESULT,
    WEFT__ANSWER_LAST,
    WEFT__ANSWER_ASKED,
};

/// One result that is not the last of its op; and the way back of a receive buffer.
struct weft__parcel {
    struct weft__node node; // RESULT, GIVE
    struct weft__errand *errand;
    struct weft__remote *remote; // that has the buffer; the driver thread's
    int64_t result;
    uint32_t result_flags;
    bool single; // allocated for this one result
};

/// An op in the hands of a driver thread. The carrier's memory.
struct weft__errand {
    struct weft__op op;         // the driver thread's, from SUBMIT to LAST
    struct weft__node node;     // SUBMIT, LAST
    struct weft__node cancel;   // CANCEL, ASKED
    struct weft__parcel parcel; // of a SEND_ZC's result

    // Fixed while it is out.
    struct weft__remote *remote;
    struct weft__op *owner;
    bool goes_on; // an ACCEPT with MULTI, or a RECV with SELECT and MULTI

    // The driver thread's, while it is out.
    struct weft__parcel *next_parcel; // R4: for the accept that is under way
    unsigned accepts;                 // R7
    bool asked;
    bool over;

    // The carrier's.
    struct weft__errand *next; // among those that are out, or free
    struct weft__errand **link;
    struct weft__errand *made_before; // all of this carrier
    bool asking;                      // CANCEL was written, and ASKED is not in
    bool ended;                       // LAST is in
    bool notifies;                    // only the notice of a SEND_ZC is to come
};

/// What a carrier knows about a descriptor.
struct weft__remote_fd {
    uint32_t ops;     // in flight
    uint16_t writers; // of these
    bool touched;     // the real driver may remember something
    bool is_socket;
    bool goes_on; // an op with MULTI is in flight, or was
};

enum { WEFT__REMOTE_FDS = WEFT__SIZED(1 << 20, 1 << 12) };

/// The driver state of a carrier.
struct weft__remote {
    // Anyone's.
    _Alignas(WEFT__LINE_PAIR) struct weft__doorbell bell;
    struct weft__inbox answers;
    _Atomic uint32_t forgetting; // a futex; 1: the driver thread has not yet answered

    // The driver thread's.
    _Alignas(WEFT__LINE_PAIR) struct weft__remote *next_due;
    bool due; // has answers that it was not rung for
    uint32_t buffers_out;

    // The carrier's.
    _Alignas(WEFT__LINE_PAIR) struct weft__driver_thread *thread;
    const struct weft_allocator *allocator;
    struct weft__errand *out;
    struct weft__errand *idle;
    struct weft__errand *all;
    struct weft__remote_fd *fds;
    unsigned out_count;       // errands that are not idle
    bool wrote;               // letters that the thread was not called for
    bool gave;                // the same, of buffers only
    bool drained;             // nobody calls done() any more
    struct weft__node forget; // FORGET
    int forget_fd;            // -1: nothing is forgotten, and the carrier's goodbye
    struct weft__op_counts counts;
};

struct weft__driver_thread {
    // Anyone's.
    _Alignas(WEFT__LINE_PAIR) struct weft__post post;

    // Fixed once it runs.
    _Alignas(WEFT__LINE_PAIR) const struct weft__driver *driver;
    void *state;
    struct weft__parcel *parcels; // one for each receive buffer
    uint32_t buffers;
    uint32_t share; // of these, for what goes on for one carrier (R7)
    const struct weft_allocator *allocator;
    const struct weft__driver_config *config;
    pthread_t thread;
    int number;
    int start_error;
    _Atomic uint32_t reported; // a futex

    // Its own.
    struct weft__remote *due;
    uint32_t buffers_out;
    bool stop;
    struct weft__node stopper; // STOP
};

/// The driver threads of a runtime.
struct weft__driver_threads {
    struct weft__driver_thread *threads;
    int count;
    uint32_t buffers_each; // receive buffers for each carrier
    struct weft__driver_config config;
};

/// Starts `count` threads with a driver each, for `carriers` carriers. `config` is a carrier's.
int weft__driver_threads_start(struct weft__driver_threads **out, const struct weft__driver *driver,
                               int count, int carriers, const struct weft__driver_config *config);

/// Ends the threads and closes their drivers. No carrier runs any more. NULL is fine.
void weft__driver_threads_stop(struct weft__driver_threads *threads);

/// Frees the rest, when the carriers' own drivers are closed. NULL is fine.
void weft__driver_threads_free(struct weft__driver_threads *threads);

/// The counters of the real driver that stand with carrier `number`: the first one that a thread
/// serves has the thread's. NULL: none.
const struct weft__op_counts *weft__driver_threads_counts(
    const struct weft__driver_threads *threads, int number);

/// Wakes the thread if letters that were put wait for it.
static inline void weft__driver_thread_call(struct weft__driver_thread *thread, bool urgent)
{
    if (weft__post_call(&thread->post, urgent)) {
        thread->driver->kick(thread->state, NULL);
    }
}

/// done() of the op of an errand.
void weft__errand_done(struct weft__op *op);

/// What carriers use instead of `driver`, when that is in the hands of driver threads.
const struct weft__driver *weft__remote_driver(const struct weft__driver *driver);

#endif
