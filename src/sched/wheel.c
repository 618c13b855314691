// wheel.c - timers that are armed and removed in constant time, and never fire early.
//
// A time is a number of LEVELS digits above the bits within a tick (here the normal build):
//
//     63 .. 58   57 .. 52   ...   27 .. 22   21 .. 16   15 .. 0
//     level 7    level 6          level 1    level 0    within a tick
//
// A timer stands at the level of the highest digit in which `when - 1` differs from `elapsed`, in
// the slot that this digit of `when - 1` names. The 1 is what rounds deadlines up: a level-0 slot
// holds the times (start, start + tick] and expires at its end, so nothing is early, a deadline on
// the edge of a tick is on time, and no deadline is rounded past the end of time.
//
// When time reaches the start of a slot above level 0, its timers are placed anew: they agree with
// `elapsed` in that digit now and so move down, at most LEVELS - 1 times in a life. Walking a long
// list costs a cache miss per timer, so each slot keeps the bits in which its timers may differ
// (any ^ all): if these lie below the digit that decides, the slot moves as a whole, unseen.
//
//   W1  Timers with when <= elapsed are in `due`, all others are in slots.
//   W2  Where a timer stands follows from `elapsed` and `when` alone: as long as `elapsed` does not
//       reach the start of its slot, the highest digit in which the two differ stays the same. So
//       timers do not record it, and a whole slot changes hands by its two ends.
//   W3  The occupied slots of a level lie in the part of its present turn that is still to come
//       (W2: higher digits agree), and all of them before those of the next level. So the earliest
//       slot is the lowest bit of the lowest level, without any rotation.
//   W4  Timers of the same tick are always in the same list (W2), in the order of arming.
//
// `elapsed` is a multiple of the tick, save at the very end of time: the last tick is a moment
// short, because WEFT_FOREVER is no deadline, and ends at WEFT_FOREVER - 1.
//
// Rejected: a heap (logarithmic, and a cache miss per step); levels by the distance to the clock
// (slots would have to rotate, and a late carrier would misplace timers); slots without a tail
// pointer (half the table, but the timers of a tick would fire in reverse, then again in reverse
// after each cascade); expiring one slot per pop (a timer that re-arms itself for the past would
// keep the others waiting); walking a slot from both ends to overlap the cache misses (no gain).
// Locks: none. Checked by: tests/unit/wheel_test.c.
#include "sched/wheel.h"

#include "base/assert.h"

#include <string.h>

_Static_assert(WEFT__WHEEL_TICK_BITS + WEFT__WHEEL_LEVELS * WEFT__WHEEL_SLOT_BITS == 64,
               "the levels span all 64 bits");
_Static_assert(WEFT__WHEEL_SLOTS <= 64 && WEFT__WHEEL_LEVELS <= 32, "the bitmaps fit");
_Static_assert(sizeof(struct weft__timer) <= WEFT__LINE / 2, "two timers share a cache line");

static const weft_time last_moment = WEFT_FOREVER - 1;

/// Time that is over at `now`, in whole ticks.
static weft_time over_at(weft_time now)
{
    return now < last_moment ? now & ~(WEFT__WHEEL_TICK_NS - 1) : last_moment;
}

static unsigned level_shift(unsigned level)
{
    return WEFT__WHEEL_TICK_BITS + level * WEFT__WHEEL_SLOT_BITS;
}

/// The index in `slots` of a timer with when - 1 = at, not before `elapsed` (W2).
static unsigned place(weft_time elapsed, weft_time at)
{
    uint64_t differing = (at ^ elapsed) | WEFT__WHEEL_TICK_NS;
    unsigned highest = 63 - (unsigned)__builtin_clzll(differing);
    unsigned level = (highest - WEFT__WHEEL_TICK_BITS) / WEFT__WHEEL_SLOT_BITS;
    unsigned digit = (at >> level_shift(level)) & (WEFT__WHEEL_SLOTS - 1);
    return level * WEFT__WHEEL_SLOTS + digit;
}

static void list_init(struct weft__timer_list *list)
{
    list->head = NULL;
    list->tail = &list->head;
}

static void list_append(struct weft__timer_list *list, struct weft__timer *timer)
{
    timer->next = NULL;
    timer->link = list->tail;
    *list->tail = timer;
    list->tail = &timer->next;
}

/// Appends all of a non-empty list and leaves that empty.
static void list_move(struct weft__timer_list *to, struct weft__timer_list *from)
{
    from->head->link = to->tail;
    *to->tail = from->head;
    to->tail = from->tail;
    list_init(from);
}

/// Books timers into a slot, given the `any` and `all` of their times. Returns the list for them.
static struct weft__timer_list *slot_enter(struct weft__wheel *wheel, unsigned index, uint64_t any,
                                           uint64_t all)
{
    unsigned level = index / WEFT__WHEEL_SLOTS;
    wheel->occupied[level] |= UINT64_C(1) << index % WEFT__WHEEL_SLOTS;
    wheel->levels |= UINT32_C(1) << level;
    wheel->slots[index].any |= any;
    wheel->slots[index].all &= all;
    return &wheel->slots[index].timers;
}

static void slot_add(struct weft__wheel *wheel, struct weft__timer *timer)
{
    uint64_t at = timer->when - 1;
    list_append(slot_enter(wheel, place(wheel->elapsed, at), at, at), timer);
}

static void slot_emptied(struct weft__wheel *wheel, unsigned index)
{
    unsigned level = index / WEFT__WHEEL_SLOTS;
    wheel->slots[index].any = 0;
    wheel->slots[index].all = UINT64_MAX;
    wheel->occupied[level] &= ~(UINT64_C(1) << index % WEFT__WHEEL_SLOTS);
    if (wheel->occupied[level] == 0) {
        wheel->levels &= ~(UINT32_C(1) << level);
    }
}

void weft__wheel_init(struct weft__wheel *wheel, weft_time now)
{
    wheel->elapsed = over_at(now);
    wheel->armed = 0;
    wheel->levels = 0;
    list_init(&wheel->due);
    memset(wheel->occupied, 0, sizeof wheel->occupied);
    for (unsigned index = 0; index < WEFT__ARRAY_LEN(wheel->slots); index++) {
        list_init(&wheel->slots[index].timers);
        slot_emptied(wheel, index);
    }
}

void weft__wheel_add(struct weft__wheel *wheel, struct weft__timer *timer, weft_time when)
{
    weft_assert(!weft__timer_armed(timer));
    weft_assert(when != WEFT_FOREVER);
    timer->when = when;
    wheel->armed++;
    if (when <= wheel->elapsed) {
        list_append(&wheel->due, timer);
    } else {
        slot_add(wheel, timer);
    }
}

/// Mends the tail of the list that `timer` was the last of.
static void tail_removed(struct weft__wheel *wheel, struct weft__timer *timer)
{
    bool is_due = timer->when <= wheel->elapsed;
    unsigned index = is_due ? 0 : place(wheel->elapsed, timer->when - 1);
    struct weft__timer_list *list = is_due ? &wheel->due : &wheel->slots[index].timers;
    weft_assert(list->tail == &timer->next); // else it is another wheel's timer
    list->tail = timer->link;
    if (!is_due && list->head == NULL) {
        slot_emptied(wheel, index);
    }
}

void weft__wheel_remove(struct weft__wheel *wheel, struct weft__timer *timer)
{
    weft_assert(weft__timer_armed(timer));
    struct weft__timer *next = timer->next;
    *timer->link = next;
    if (next != NULL) {
        next->link = timer->link;
    } else {
        tail_removed(wheel, timer);
    }
    timer->link = NULL;
    wheel->armed--;
}

/// Those that stand aside are linked as in a slot, and the end is no timer of the wheel's: so each of them
/// has a next one, and weft__wheel_remove() need not know where it stands.
static void set_aside(struct weft__wheel *wheel, struct weft__timer *timer,
                      struct weft__timer **aside)
{
    weft__wheel_remove(wheel, timer);
    timer->next = *aside;
    timer->next->link = &timer->next;
    timer->link = aside;
    *aside = timer;
    wheel->armed++;
}

static void take_from(struct weft__wheel *wheel, struct weft__timer *timer,
                      bool (*takes)(struct weft__timer *timer), struct weft__timer **aside)
{
    while (timer != NULL) {
        struct weft__timer *next = timer->next;
        if (takes(timer)) {
            set_aside(wheel, timer, aside);
        }
        timer = next;
    }
}

void weft__wheel_take(struct weft__wheel *wheel, bool (*takes)(struct weft__timer *timer),
                      struct weft__timer **aside)
{
    take_from(wheel, wheel->due.head, takes, aside);
    for (unsigned index = 0; index < WEFT__ARRAY_LEN(wheel->slots); index++) {
        take_from(wheel, wheel->slots[index].timers.head, takes, aside);
    }
}

/// The slot that comes first (W3). There must be one.
static unsigned first_slot(const struct weft__wheel *wheel)
{
    unsigned level = (unsigned)__builtin_ctz(wheel->levels);
    return level * WEFT__WHEEL_SLOTS + (unsigned)__builtin_ctzll(wheel->occupied[level]);
}

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    if (wheel->due.head != NULL) {
        return wheel->elapsed;
    }
    if (wheel->levels == 0) {
        return WEFT_FOREVER;
    }
    // The end of the tick of `all`: exact if the slot's timers are of one tick. If not, it may be
    // early; there is a cascade to do then.
    uint64_t last = wheel->slots[first_slot(wheel)].all | (WEFT__WHEEL_TICK_NS - 1);
    return last < last_moment ? last + 1 : last_moment;
}

/// Places the timers of a slot anew, one by one.
static void scatter(struct weft__wheel *wheel, struct weft__timer *timer)
{
    while (timer != NULL) {
        struct weft__timer *next = timer->next;
        slot_add(wheel, timer);
        timer = next;
    }
}

/// Empties a slot at whose start `elapsed` stands into the lower levels, which are empty.
static void cascade(struct weft__wheel *wheel, unsigned from)
{
    struct weft__wheel_slot *slot = &wheel->slots[from];
    uint64_t any = slot->any;
    uint64_t all = slot->all;
    unsigned to = place(wheel->elapsed, any);
    if ((any ^ all) >> level_shift(to / WEFT__WHEEL_SLOTS) == 0) {
        list_move(slot_enter(wheel, to, any, all), &slot->timers);
    } else {
        struct weft__timer *first = slot->timers.head;
        list_init(&slot->timers);
        scatter(wheel, first);
    }
    slot_emptied(wheel, from);
}

/// Moves everything that expires by `target` to the due. Visits occupied slots only, so that an
/// empty stretch costs the same whatever its length.
static WEFT__NOINLINE void advance(struct weft__wheel *wheel, weft_time target)
{
    while (wheel->levels != 0) {
        unsigned index = first_slot(wheel);
        unsigned shift = level_shift(index / WEFT__WHEEL_SLOTS);
        weft_time start = wheel->slots[index].all >> shift << shift;
        bool cascades = index >= WEFT__WHEEL_SLOTS;
        if (cascades ? start > target : start >= target) {
            break;
        }
        if (cascades) {
            wheel->elapsed = start;
            cascade(wheel, index);
        } else {
            list_move(&wheel->due, &wheel->slots[index].timers);
            slot_emptied(wheel, index);
        }
    }
    wheel->elapsed = target;
}

struct weft__timer *weft__wheel_pop(struct weft__wheel *wheel, weft_time now)
{
    weft_time target = over_at(now);
    if (target > wheel->elapsed) {
        advance(wheel, target);
    }
    struct weft__timer *timer = wheel->due.head;
    // A due timer is not early, unless the caller's clock ran backwards.
    if (timer == NULL || weft__unlikely(timer->when > now)) {
        return NULL;
    }
    struct weft__timer *next = timer->next;
    wheel->due.head = next;
    if (next != NULL) {
        next->link = &wheel->due.head;
        __builtin_prefetch(next->next, 1);
    } else {
        wheel->due.tail = &wheel->due.head;
    }
    timer->link = NULL;
    wheel->armed--;
    return timer;
}
