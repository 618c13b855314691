// wheel.h - the timer wheel of one carrier. The owner's alone: no atomics, no locks.
#ifndef WEFT_SCHED_WHEEL_H
#define WEFT_SCHED_WHEEL_H

#include "base/base.h"
#include "base/timer.h"

#include <weft/time.h>

/// Level-0 slots are 2^16 ns wide; 8 levels of 64 slots span all 64 bits, so there is no overflow
/// list. The tiny build has 4 slots a level and 24 levels.
#define WEFT__WHEEL_TICK_BITS 16
#define WEFT__WHEEL_TICK_NS ((weft_time)1 << WEFT__WHEEL_TICK_BITS)
#define WEFT__WHEEL_SLOT_BITS WEFT__SIZED(6, 2)
#define WEFT__WHEEL_SLOTS (1u << WEFT__WHEEL_SLOT_BITS)
#define WEFT__WHEEL_LEVELS ((64 - WEFT__WHEEL_TICK_BITS) / WEFT__WHEEL_SLOT_BITS)

/// Timers in the order in which they were armed. An empty list's `tail` points at its `head`.
struct weft__timer_list {
    struct weft__timer *head;
    struct weft__timer **tail;
};

struct weft__wheel_slot {
    struct weft__timer_list timers;
    uint64_t any; // of the times that came in since the slot was last empty: their bitwise or
    uint64_t all; // and their bitwise and, which is never later than the first of them
};

struct weft__wheel {
    weft_time elapsed;           // time processed so far: whole ticks, and not the clock
    size_t armed;                // timers in the slots and among the due
    struct weft__timer_list due; // expired, waiting to be popped
    uint32_t levels;             // bit per non-empty level
    uint64_t occupied[WEFT__WHEEL_LEVELS];
    struct weft__wheel_slot slots[WEFT__WHEEL_LEVELS * WEFT__WHEEL_SLOTS];
};

/// Starts the wheel at `now`. The wheel must then stay where it is.
void weft__wheel_init(struct weft__wheel *wheel, weft_time now);

/// Arms an unarmed timer, which the wheel borrows until it is popped or removed. `when` is any
/// time, past included, but not WEFT_FOREVER.
void weft__wheel_add(struct weft__wheel *wheel, struct weft__timer *timer, weft_time when);

/// Disarms an armed timer, whether it stands in a slot or among the due.
void weft__wheel_remove(struct weft__wheel *wheel, struct weft__timer *timer);

/// Shows every timer to `takes`, which must not arm or remove any itself, and sets those aside for which it
/// returns true: in front of the one at `*aside`, which marks the end of the list. They are still armed,
/// and will not fire; the caller removes them.
void weft__wheel_take(struct weft__wheel *wheel, bool (*takes)(struct weft__timer *timer),
                      struct weft__timer **aside);

/// The moment at which weft__wheel_pop() may have something to do: never later than the first
/// expiry rounded up to a tick, sometimes earlier (a cascade), in the past when a timer is due.
/// WEFT_FOREVER when empty. Popping at that moment always makes progress: it yields a timer or
/// moves the earliest ones at least one level down.
weft_time weft__wheel_next(const struct weft__wheel *wheel);

/// Takes one timer whose time has come, disarmed, or NULL. Never early: only timers with
/// when <= now. Late by less than a tick: `when` is rounded up to one. Earlier ticks come first,
/// and within a tick the timer that was armed first. A timer armed for a tick that was already
/// processed stands behind all that expired before it was armed or expire by this `now`; it is
/// popped by this or the next call with the same or a later `now`.
struct weft__timer *weft__wheel_pop(struct weft__wheel *wheel, weft_time now);

#endif
