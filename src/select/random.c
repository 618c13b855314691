// random.c - numbers for the order in which cases are looked at.
//
// A carrier has its own generator, so that a simulation's numbers depend on its seed alone. So has
// every other thread. It is used between two parks of a task and not kept, so the task may move.
#include "sched/carrier.h"
#include "select/select.h"

static _Thread_local struct weft__rng foreign;

WEFT__NOINLINE struct weft__rng *weft__select_random(void)
{
    struct weft__carrier *carrier = weft__carrier_self();
    return carrier != NULL ? &carrier->random : &foreign;
}
