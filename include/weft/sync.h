// weft/sync.h - what mutexes, semaphores and the other means of synchronisation have in common.
//
//     weft/mutex.h      mutex, condition variable      weft/once.h     once, once-cell
//     weft/rwlock.h     reader-writer lock             weft/barrier.h  barrier, wait group
//     weft/semaphore.h  counting semaphore             weft/token.h    tree of cancellation tokens
//     weft/notify.h     notify, event
//
// All of them are caller-owned memory of a few words that is valid when zeroed (a semaphore and a
// barrier need a number), may be shared by all tasks of all runtimes and by threads that weft did
// not make, and allocate nothing: who waits stands in a queue with memory of his own.
//
// Calls that wait take an absolute deadline last. A virtual thread parks, a foreign thread sleeps in
// the kernel (it has no scope, so nothing but the deadline ends its wait). A future and a timer
// function cannot wait: where they would have to, the call says -EPERM. `try_` forms never wait and
// may be called from anywhere. What a future waits for is prepared with the functions that end in
// `_future` and polled like any other future.
//
// Whoever is chosen keeps what he was given, even if his deadline passes or he is cancelled in the
// same moment; a future that is cancelled after it was chosen passes it on and ends with -ECANCELED.
//
// `fini` makes sure that nobody uses the object any more, and says -EBUSY if somebody waits there or
// holds it. Memory that is given back needs it; a static object does not.
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/base.h>
#include <weft/future.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/// A wait in one of these objects, as a future. Caller-owned; embed it, or await or spawn
/// `&wait.future`. It is READY with the result that the blocking call would return, or -ECANCELED.
/// Must stay in place from the first poll until READY; the object must live as long.
struct weft_sync_future {
    struct weft_future future;
    uint64_t opaque[20];
};

WEFT_END_DECLS

#endif
