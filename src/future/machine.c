// machine.c - what the macros of weft/machine.h stand on.
#include <weft/machine.h>

#include "base/base.h"

static void cancel(struct weft_future *future)
{
    struct weft_machine *machine = weft__container_of(future, struct weft_machine, future);
    machine->cancelled = true;
    if (machine->awaits != NULL) {
        weft_future_cancel(machine->awaits);
    }
}

void weft_machine_init(struct weft_machine *machine, weft_poll_fn poll)
{
    *machine = (struct weft_machine){ .at = 0 };
    weft_future_init(&machine->future, poll, cancel);
}

enum weft_poll weft_machine_await(struct weft_machine *machine, struct weft_future *child,
                                  weft_waker *waker)
{
    if (machine->cancelled) {
        weft_future_cancel(child); // once for each
    }
    machine->awaits = child;
    enum weft_poll poll = weft_future_poll(child, waker);
    if (poll == WEFT_READY) {
        machine->awaits = NULL;
    }
    return poll;
}
