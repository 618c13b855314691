// select.c - committing exactly one of several cases.
//
// The danger: a select stands in many queues at once, and whoever comes along in one of them takes
// it. Two must not take it, none may be left out who could have, and the select itself must not take
// one case while somebody takes another: also when two selects meet, each of which waits in several
// queues and looks into the others.
//
//     selecting                               a completer, at one object
//     look at each object, in random order    lock
//     lock all objects                        main: OPEN -> CLAIMED, or go on to the next waiter
//     look once more; enqueue in all          unlink, copy the item, write result and case
//     main = OPEN                             unlock
//     unlock all                              main = DONE (last touch), wake
//     block
//     unlink from all, object by object
//
//   S1  All cases share the state of one waiter, `main` (sync/queue.h, Q7). Whoever moves it away from
//       OPEN decides: a completer, who claims it for one case under that object's lock; or the select
//       itself, which withdraws because of its deadline, a cancel, or a case without a waiter.
//   S2  Before it is enqueued anywhere nobody can claim a select. So it looks at one object after the
//       other, each under its own lock, and the first that is ready has committed it. Nearly always
//       that is all.
//   S3  While it looks and enqueues with intent to wait it holds all locks. So nothing becomes ready
//       at an object that it has looked at without finding it in the queue; and of two selects that
//       could meet one is in all its queues before the other looks.
//   S4  Locks are taken in the order of their addresses, each once, however many cases share it.
//       Nobody else holds two of them. So nobody waits in a circle.
//   S5  It looks at all objects before it enqueues in the first: it never meets itself. Those whose
//       words change outside of their locks look again while they enqueue (sync/waiter.h, `enlist`);
//       should one of them be ready by then it leaves the others again. While it does all this `main`
//       is CLAIMED, so that what it leaves behind in a queue does not choose it.
//   S6  A select that is not OPEN any more is still linked where it was not chosen. Completers that
//       meet it there go on (Q3), and it unlinks itself before it returns. Nobody's wake-up is lost to
//       it: who gets past it serves the next.
//   S7  Cases without a waiter (join.c, fd.c) claim `main` like completers, without a lock. The select
//       does not return before they have let go of their memory.
//
// Rejected: claiming first oneself and then the other, lock by lock. If the other is claiming as well
// both have to give up and start again, for which there is no bound; and who finds a claimed select
// cannot tell one that has committed from one that will be OPEN again.
// Rejected: all locks for the first look, too. It would make the answer of weft_select_try() one of a
// single moment, at the price of holding up everybody at every object for longer. Only a select whose
// cases had to wait the last time leaves the first look out.
// Locks: those of the objects, in the order of S4. Checked by: tests/model/select_model.c,
// tests/api/select_test.c, tests/api/select_history_test.c, tests/stress/select_stress.c.
#include "select/select.h"

#include <errno.h>

/// bins of merge_sort(): 2^bins > WEFT_SELECT_MAX
#define BINS 11
/// So many, at most, are sorted by insertion.
#define FEW WEFT__SIZED(16u, 2u)

static struct weft__case *at(const struct weft__select *select, uint32_t index)
{
    return &select->cases[select->cases[index].order];
}

/// Numbers for one select, off a generator that it moves on. Good enough for an order of cases.
static inline uint32_t below(uint64_t *random, uint32_t limit)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((*random >> 32) * limit) >> 32);
}

/// The i-th case in the order in which they are looked at is one of those that are left.
static inline struct weft__case *draw(struct weft__select *select, uint32_t i, uint64_t *random)
{
    struct weft__case *cases = select->cases;
    uint32_t left = select->count - i;
    uint32_t other = left > 1 ? i + below(random, left) : i;
    uint16_t drawn = cases[other].order;
    cases[other].order = cases[i].order;
    cases[i].order = drawn;
    return &cases[drawn];
}

/// Takes note of a case without a waiter.
static int note_unlike(struct weft__select *select, struct weft__case *c, struct weft__task *self)
{
    int rc = weft__case_refuses(c, self);
    select->unlike |= 1u << c->kind;
    if (c->kind == WEFT__CASE_TIME && c->want < select->when) {
        select->time = c;
        select->when = c->want;
    }
    return rc;
}

int weft__select_begin(struct weft__select *select, struct weft_case *cases, size_t count,
                       struct weft__task *self)
{
    if (count > WEFT_SELECT_MAX) {
        return -EINVAL;
    }
    select->cases = (struct weft__case *)(void *)cases;
    select->count = (uint32_t)count;
    select->unlike = 0;
    select->time = NULL;
    select->when = WEFT_FOREVER;
    select->task = self;
    select->ops = 0;
    select->leaving = false;
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = &select->cases[i];
        c->order = (uint16_t)i;
        c->waits = false;
        int rc = weft__case_has_waiter(c) ? 0 : note_unlike(select, c, self);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/// The result if it is ready, else WAITS.
static int look(struct weft__case *c)
{
    if (weft__likely(weft__case_has_waiter(c))) {
        weft__case_prepare(c);
        return c->wait.waiter.ops->attempt(&c->wait.waiter);
    }
    bool ready = (c->kind == WEFT__CASE_TIME && c->want <= weft_now()) ||
                 (c->kind == WEFT__CASE_JOIN && weft__case_join_ready(c));
    return ready ? 0 : WEFT__SYNC_WAITS;
}

/// What it is about to wait for it waits for again, as a rule, and looking at everything twice is in
/// vain. So the first case remembers it. weft_now() is left to who looks.
static bool is_in_vain(const struct weft__select *select)
{
    return select->count > 0 && select->cases[0].waited &&
           (select->unlike & ~WEFT__CASES_NONE) == 0;
}

int weft__select_attempt(struct weft__select *select, bool may_wait)
{
    struct weft__rng *rng = weft__select_random();
    uint64_t random = rng->state;
    bool looks = !may_wait || !is_in_vain(select);
    int chosen = WEFT__SYNC_WAITS;
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = draw(select, i, &random);
        int rc = WEFT__SYNC_WAITS;
        if (looks) {
            rc = look(c);
        } else if (weft__case_has_waiter(c)) {
            weft__case_prepare(c);
        }
        if (rc != WEFT__SYNC_WAITS) {
            c->result = rc;
            if (c->kind == WEFT__CASE_JOIN) {
                weft__case_join_take(c);
            }
            chosen = weft__case_index(select, c);
            break;
        }
    }
    rng->state = random;
    return chosen;
}

// S4.

static bool before(const struct weft__case *a, const struct weft__case *b)
{
    return (uintptr_t)a->wait.waiter.lock < (uintptr_t)b->wait.waiter.lock;
}

static struct weft__case *merge(struct weft__case *a, struct weft__case *b)
{
    struct weft__case *first;
    struct weft__case **end = &first;
    while (a != NULL && b != NULL) {
        struct weft__case **lower = before(b, a) ? &b : &a;
        *end = *lower;
        end = &(*lower)->next;
        *lower = *end;
    }
    *end = a != NULL ? a : b;
    return first;
}

static void insertion_sort(struct weft__select *select)
{
    struct weft__case *last = NULL;
    select->locks = NULL;
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = &select->cases[i];
        if (!weft__case_has_waiter(c)) {
            continue;
        }
        struct weft__case **link = last != NULL && !before(c, last) ? &last->next : &select->locks;
        while (*link != NULL && !before(c, *link)) {
            link = &(*link)->next;
        }
        c->next = *link;
        *link = c;
        last = c->next == NULL ? c : last;
    }
}

/// Merges each with as many as there are in its bin.
static void merge_sort(struct weft__select *select)
{
    struct weft__case *bins[BINS] = { NULL };
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = &select->cases[i];
        if (!weft__case_has_waiter(c)) {
            continue;
        }
        unsigned bin = 0;
        c->next = NULL;
        for (; bins[bin] != NULL; bin++) {
            c = merge(bins[bin], c);
            bins[bin] = NULL;
        }
        bins[bin] = c;
    }
    select->locks = NULL;
    for (unsigned bin = 0; bin < BINS; bin++) {
        select->locks = merge(bins[bin], select->locks);
    }
}

static void acquire_all(const struct weft__select *select)
{
    const struct weft__lock *last = NULL;
    for (struct weft__case *c = select->locks; c != NULL; c = c->next) {
        struct weft__lock *lock = c->wait.waiter.lock;
        if (lock != last) {
            weft__lock_acquire(lock);
            last = lock;
        }
    }
}

static void release_all(const struct weft__select *select)
{
    const struct weft__lock *last = NULL;
    for (struct weft__case *c = select->locks; c != NULL; c = c->next) {
        struct weft__lock *lock = c->wait.waiter.lock;
        if (lock != last) {
            weft__lock_release(lock);
            last = lock;
        }
    }
}

// S5, with all locks held: the case that is ready, or NULL.

static struct weft__case *check_all(struct weft__select *select, struct weft__batch *batch)
{
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = at(select, i);
        struct weft__waiter *waiter = &c->wait.waiter;
        if (!weft__case_has_waiter(c)) {
            continue;
        }
        int rc = waiter->ops->check != NULL ? waiter->ops->check(waiter, batch)
                                            : waiter->ops->attempt(waiter);
        if (rc != WEFT__SYNC_WAITS) {
            c->result = rc;
            return c;
        }
    }
    return NULL;
}

static struct weft__case *enlist_all(struct weft__select *select, struct weft__batch *batch)
{
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = at(select, i);
        if (!weft__case_has_waiter(c)) {
            continue;
        }
        c->wait.waiter.main = &select->main;
        int rc = c->wait.waiter.ops->enlist(&c->wait.waiter);
        if (rc == WEFT__SYNC_WAITS) {
            continue;
        }
        c->result = rc;
        for (uint32_t k = 0; k < i; k++) {
            struct weft__case *other = at(select, k);
            if (weft__case_has_waiter(other)) {
                other->wait.waiter.ops->unlist(&other->wait.waiter, batch);
            }
        }
        return c;
    }
    return NULL;
}

int weft__select_enter(struct weft__select *select)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    atomic_store_explicit(&select->main.wait.state, WEFT__WAIT_CLAIMED, memory_order_relaxed);
    if (select->count <= FEW) {
        insertion_sort(select);
    } else {
        merge_sort(select);
    }
    acquire_all(select);
    struct weft__case *ready = check_all(select, &batch);
    if (ready == NULL) {
        ready = enlist_all(select, &batch);
    }
    if (ready == NULL) {
        // Relaxed: who claims it has taken one of the locks after us.
        atomic_store_explicit(&select->main.wait.state, WEFT__WAIT_OPEN, memory_order_relaxed);
    }
    release_all(select);
    weft__batch_finish(&batch);
    if (select->count > 0) {
        select->cases[0].waited = ready == NULL;
    }
    return ready != NULL ? weft__case_index(select, ready) : WEFT__SYNC_WAITS;
}

bool weft__select_withdraw(struct weft__select *select)
{
    uint32_t open = WEFT__WAIT_OPEN;
    return atomic_compare_exchange_strong_explicit(&select->main.wait.state, &open, WEFT__WAIT_DONE,
                                                   memory_order_relaxed, memory_order_relaxed);
}

void weft__select_leave(struct weft__select *select, const struct weft__case *chosen)
{
    struct weft__batch batch;
    weft__batch_init(&batch);
    for (struct weft__case *c = select->locks; c != NULL; c = c->next) {
        struct weft__waiter *waiter = &c->wait.waiter;
        if (c != chosen) {
            weft__lock_acquire(waiter->lock);
            waiter->ops->unlist(waiter, &batch); // S6
            weft__lock_release(waiter->lock);
        }
    }
    weft__batch_finish(&batch);
}
