// trim.c - the memory of stacks that nobody needs goes back to the kernel, but not at once (task/stack.c).
#include "sched/crew.h"

static void trim(struct weft__timer *timer)
{
    struct weft__carrier *carrier = weft__container_of(timer, struct weft__carrier, trims_stacks);
    weft_time next = weft__stack_trim(carrier->crew->stacks, weft__carrier_now(carrier));
    if (next != WEFT_FOREVER) {
        weft__wheel_add(&carrier->wheel, timer, next);
    }
}

/// Who has no wheel that goes on turning, or whose clock is made up, does not wait.
static bool can_wait(const struct weft__carrier *self)
{
    return self != NULL && self->sim == NULL && !self->aside;
}

void weft__stacks_are_many(struct weft__crew *crew, struct weft__carrier *self)
{
    if (!can_wait(self)) {
        weft__stack_shed(crew->stacks);
    } else if (!weft__timer_armed(&self->trims_stacks)) {
        self->trims_stacks.fire = trim;
        weft__wheel_add(&self->wheel, &self->trims_stacks, self->coarse_now + WEFT_S);
    }
}
