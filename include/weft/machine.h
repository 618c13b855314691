// weft/machine.h - writing a future as if it were a function: sugar, plain C underneath.
//
//     struct greeter {
//         struct weft_machine machine; // first member
//         struct weft_sleep sleep;     // what lives across an await is in the struct, not on the stack
//         int left;
//     };
//
//     static enum weft_poll greet(struct weft_future *future, weft_waker *waker)
//     {
//         struct greeter *g = (struct greeter *)future;
//         WEFT_MACHINE_BEGIN(&g->machine);
//         while (g->left-- > 0) {
//             weft_sleep_init(&g->sleep, weft_after(WEFT_S));
//             WEFT_MACHINE_AWAIT(&g->machine, &g->sleep.future, waker);
//             if (g->sleep.future.result < 0) {
//                 WEFT_MACHINE_RETURN(&g->machine, g->sleep.future.result); // cancelled
//             }
//             puts("hello");
//         }
//         WEFT_MACHINE_END(&g->machine, 0);
//     }
//
//     weft_machine_init(&greeter.machine, greet);
//     weft_spawn_future(&task, &greeter.machine.future, NULL);
//
// A machine goes on where it stopped, which is a `case` of a switch around its body. So local variables
// do not survive an await, no await may be inside a `switch` of the body's own, and there is at most
// one in a line. Cancelling a machine cancels what it awaits, and everything that it awaits later: its
// body sees -ECANCELED, cleans up and returns. What must not be cancelled is a weft_then_cancel around
// the machine (weft/combine.h).
#ifndef WEFT_MACHINE_H
#define WEFT_MACHINE_H

#include <weft/base.h>
#include <weft/future.h>

WEFT_BEGIN_DECLS

/// The first member of a machine. But for `future` its fields are private.
struct weft_machine {
    struct weft_future future;
    struct weft_future *awaits;
    uint32_t at;
    bool cancelled;
};

/// Prepares a machine that begins at the top of `poll`.
WEFT_API void weft_machine_init(struct weft_machine *machine, weft_poll_fn poll);

/// Polls what the machine awaits now. What WEFT_MACHINE_AWAIT is made of.
WEFT_API enum weft_poll weft_machine_await(struct weft_machine *machine, struct weft_future *child,
                                           weft_waker *waker);

/// Opens the body of a machine's poll function.
#define WEFT_MACHINE_BEGIN(machine)                                                                \
    switch ((machine)->at) {                                                                       \
    case 0:

/// Waits until `child` is READY: its result is in it. Both are evaluated again at each poll.
#define WEFT_MACHINE_AWAIT(machine, child, waker)                                                  \
    do {                                                                                           \
        (machine)->at = __LINE__;                                                                  \
        __attribute__((fallthrough));                                                              \
    case __LINE__:                                                                                 \
        if (weft_machine_await((machine), (child), (waker)) == WEFT_PENDING) {                     \
            return WEFT_PENDING;                                                                   \
        }                                                                                          \
    } while (0)

/// Ends the machine with a result.
#define WEFT_MACHINE_RETURN(machine, value)                                                        \
    do {                                                                                           \
        (machine)->future.result = (value);                                                        \
        return WEFT_READY;                                                                         \
    } while (0)

/// Closes the body; who comes here ends with this result.
#define WEFT_MACHINE_END(machine, value)                                                           \
    }                                                                                              \
    WEFT_MACHINE_RETURN(machine, value)

WEFT_END_DECLS

#endif
