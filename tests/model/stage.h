// stage.h - what stands around the sources in a model: futexes, drivers, tasks that are threads.
//
// The sources take carrier and task as parameters and know neither thread-locals nor assembly, so
// the stage is small. A virtual thread that blocks is played by a thread of the model: what its
// carrier does around a park (sched/relay.h) is done here in weft__host_park(), on the same thread.
//
//     weft__host_park(task, deadline)
//         weft__word_park()            false: it was notified, go on at once
//         wait for the lane            on_continue() puts the task there
//         weft__word_clear_notified()
//
// The lane is one word with release and acquire, as the inbox guarantees; put_sleep_model.c checks
// the inbox itself. Deadlines expire at any moment of a park, or never, as the explorer chooses.
#ifndef MODEL_STAGE_H
#define MODEL_STAGE_H

#include "mc.h"
#include "task/task.h"

// stage.c

// Sleeps on an event and is kicked by it. Driver state: any address that stands for the carrier.
struct weft__driver;
extern const struct weft__driver stage_driver;

// Stores are seen in finite time, but the explorer lets a load be stale for ever. A read-modify-write is
// not: this adds nothing, in a way that no compiler turns into a load.
void stage_catch_up(_Atomic uint32_t *word);

// stage_carrier.c: a real carrier loop (sched/step.c) with the wheel of the tiny build.

struct weft__carrier;

// A carrier that sleeps in stage_driver. From setup. Its thread calls weft__carrier_loop(); whoever
// runs on it sets carrier->stop.
void stage_carrier_init(struct weft__carrier *carrier, const char *name);

// stage_actor.c

// A task that a thread of the model plays.
struct stage_actor {
    struct weft__task task;
    _Atomic uint32_t lane; // 1: the task was handed to its scheduler
    weft_time now;         // its carrier's clock; moves to a deadline when that expires
};

// Makes the task ACTIVE with one reference and the scheduler below. From setup.
void stage_actor_init(struct stage_actor *actor, const char *name);

// Hands tasks of actors to their lanes.
extern struct weft_scheduler stage_scheduler;

#endif
