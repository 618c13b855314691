// random.c - numbers for the order in which cases are looked at.
//
// A carrier has its own generator, so that a simulation's numbers depend on its seed alone.
#include "sched/carrier.h"
#include "select/select.h"

static _Thread_local struct weft__rng foreign;

struct weft__rng *weft__select_random(struct weft__task *task)
{
    struct weft__carrier *carrier = task != NULL ? task->home : weft__carrier_self();
    return carrier != NULL ? &carrier->random : &foreign;
}
