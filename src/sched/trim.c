// trim.c - the memory of stacks that nobody needs goes back to the kernel, but not at once (task/stack.c).
#include "sched/crew.h"

static void trim(struct weft__timer *timer)
{
    struct weft__carrier *carrier = weft__container_of(timer, struct weft__carrier, trims_stacks);
    weft_time next = weft__stack_trim(carrier->crew->stacks, weft__carrier_now(carrier));
    if (next != WEFT_FOREVER) {
        weft__wheel_add(&carrier->wheel, timer, next);
    } else {
        atomic_fetch_sub_explicit(&carrier->crew->trimmers, 1, memory_order_relaxed);
    }
}

/// Who has no wheel that goes on turning, or whose clock is made up, cannot look later.
static bool can_wait(const struct weft__carrier *self)
{
    return self != NULL && self->sim == NULL && !self->aside;
}

/// Who cannot leaves it to who does. If that one has just found that there is nothing left to do, one stack
/// too many is kept until the next.
void weft__stacks_are_many(struct weft__crew *crew, struct weft__carrier *self)
{
    if (can_wait(self)) {
        if (!weft__timer_armed(&self->trims_stacks)) {
            self->trims_stacks.fire = trim;
            weft__wheel_add(&self->wheel, &self->trims_stacks, self->coarse_now + WEFT_S);
            atomic_fetch_add_explicit(&crew->trimmers, 1, memory_order_relaxed);
        }
    } else if (atomic_load_explicit(&crew->trimmers, memory_order_relaxed) == 0) {
        (void)weft__stack_shed(crew->stacks);
    }
}
