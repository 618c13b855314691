// spawn.c - making a task: memory, identity, place, and its first way to a lane.
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sched/crew.h"
#include "sched/guest.h"
#include "sched/relay.h"
#include "task/host.h"
#include "task/trace.h"
#include "task/word.h"

_Static_assert(sizeof(struct weft__task) <= 576, "a sleeping thread has to fit into one page");
#if !WEFT__ASAN && !WEFT__TSAN
_Static_assert(offsetof(struct weft__task, scope) == WEFT__STACK_KEPT_TO, "two lines, as drawn");
#endif
_Static_assert(offsetof(struct weft__task, word) >= WEFT__STACK_KEPT_FROM &&
                   offsetof(struct weft__task, word) < WEFT__STACK_KEPT_TO,
               "what a late waker looks at");

static const struct weft_attr default_attr = WEFT_ATTR_INIT;

/// What decides how a task is made, beside what is only copied into it.
struct manner {
    const struct weft_attr *attr;
    struct weft_scheduler *policy;
    bool uncounted;
};

static int check_attr(const struct weft__crew *crew, const struct weft_attr *attr)
{
    size_t stack = attr->stack_size_bytes;
    if (attr->size != sizeof *attr) {
        return -EINVAL;
    }
    if (stack != 0 && (stack < WEFT__STACK_MIN_BYTES || stack > WEFT__STACK_MAX_BYTES)) {
        return -EINVAL;
    }
    switch (attr->place) {
    case WEFT_PLACE_CURRENT:
    case WEFT_PLACE_LIGHTER:
    case WEFT_PLACE_SPREAD: return 0;
    case WEFT_PLACE_CARRIER: return weft__crew_has(crew, attr->carrier) ? 0 : -EINVAL;
    }
    return -EINVAL;
}

/// What is spawned on the spare carrier belongs where the running task comes from, and never there.
static struct weft__carrier *home_beside(struct weft__carrier *spare)
{
    const struct weft__task *parent = spare->current;
    bool elsewhere = parent != NULL && !parent->origin->aside;
    return elsewhere ? parent->origin : &spare->crew->carriers[0];
}

static struct weft__carrier *choose_home(struct weft__crew *crew, struct weft__carrier *self,
                                         const struct weft_attr *attr)
{
    if (attr->place == WEFT_PLACE_CARRIER) {
        return &crew->carriers[attr->carrier];
    }
    if (attr->place == WEFT_PLACE_CURRENT && self != NULL) {
        return weft__unlikely(self->aside) ? home_beside(self) : self;
    }
    if (attr->place == WEFT_PLACE_LIGHTER) {
        return weft__place_lighter(crew, self);
    }
    const struct weft__carrier *near = self == NULL ? weft__carrier_near() : NULL;
    if (attr->place == WEFT_PLACE_CURRENT && near != NULL && near->crew == crew) {
        return &crew->carriers[near->number];
    }
    uint32_t turn = atomic_fetch_add_explicit(&crew->next_spread, 1, memory_order_relaxed);
    return &crew->carriers[turn % (uint32_t)weft__crew_active(crew)];
}

static size_t round_up_pow2(size_t size)
{
    return (size & (size - 1)) == 0 ? size : (size_t)1 << (64 - __builtin_clzl(size));
}

/// Numbers are handed out without sharing: carrier i of at most n takes i+1, i+1+(n+1), ...; foreign
/// threads share the residue 0.
static uint64_t next_id(struct weft__crew *crew, struct weft__carrier *self)
{
    uint64_t stride = (uint64_t)crew->capacity + 1;
    if (self != NULL) {
        return self->next_id++ * stride + (uint64_t)self->number + 1;
    }
    uint64_t turn = atomic_fetch_add_explicit(&crew->foreign_ids, 1, memory_order_relaxed);
    return (turn + 1) * stride;
}

static void copy_name(struct weft__task *task, const char *name)
{
    size_t length = name != NULL ? strnlen(name, WEFT__TASK_NAME_BYTES - 1) : 0;
    if (length > 0) {
        memcpy(task->name, name, length);
    }
    task->name[length] = '\0';
}

/// A task that was started here by one that has connections may be given them.
static bool inherits_tie(const struct weft__carrier *self, const struct weft_attr *attr)
{
    const struct weft__task *parent = self != NULL ? self->current : NULL;
    return parent != NULL && parent->tied && attr->place == WEFT_PLACE_CURRENT;
}

/// Everything but the memory's own fields and the word, which is last.
static inline void fill(struct weft__task *task, struct weft__crew *crew,
                        struct weft__carrier *self, const struct weft__spawn *spawn,
                        struct manner manner, struct weft_scheduler *own)
{
    const struct weft_attr *attr = manner.attr;
    // After the zero word of the block's last user, for a dump that copies it meanwhile.
    atomic_thread_fence(memory_order_release);
    task->node.kind = WEFT__NODE_TASK;
    task->sched = own != NULL             ? &crew->abroad
                  : manner.policy != NULL ? manner.policy
                                          : &crew->sched;
    task->own = own;
    task->attachment = attr->attachment;
    task->kept_on = NULL;
    task->visits = 0;
    task->abroad = own != NULL;
    task->timed = false;
    task->homeward = false;
    atomic_store_explicit(&task->handed, 0, memory_order_relaxed);
    task->home = choose_home(crew, self, attr);
    task->origin = task->home;
    task->scope = spawn->scope;
    task->birth = spawn->scope;
    task->hold = NULL;
    task->return_to = NULL;
    task->saved_errno = 0;
    task->result = 0;
    atomic_store_explicit(&task->in_flight, 0, memory_order_relaxed);
    task->guards = 0;
    task->started = false;
    task->tied = inherits_tie(self, attr);
    task->movable = attr->place != WEFT_PLACE_CARRIER && !task->tied;
    task->migratable = attr->migratable || spawn->is_future;
    task->roams = task->migratable;
    task->deadline = (struct weft__timer){ .fire = weft__deadline_fired };
    task->timed_at = NULL;
    task->id = next_id(crew, self);
    if (spawn->is_future) {
        task->ended = spawn->ended;
    } else {
        task->fn = spawn->fn;
    }
    task->arg = spawn->arg;
    task->crew = crew;
    task->file = spawn->file;
    task->line = spawn->line;
    atomic_store_explicit(&task->joiners, 0, memory_order_relaxed);
    atomic_store_explicit(&task->waits_for, NULL, memory_order_relaxed);
    atomic_store_explicit(&task->waits_since, 0, memory_order_relaxed);
    task->locals = NULL;
    task->cxx = (struct weft__cxx){ NULL, 0 };
    copy_name(task, attr->name);
}

static int take_thread(struct weft__task **out, struct weft__crew *crew, struct weft__carrier *self,
                       const struct weft_attr *attr)
{
    size_t size = attr->stack_size_bytes != 0 ? round_up_pow2(attr->stack_size_bytes)
                                              : crew->stack_size_bytes;
    void *block;
    void *low;
    int rc = weft__stack_take(crew->stacks, self != NULL ? &self->stacks : NULL, size, &block,
                              &low);
    if (rc < 0) {
        return rc;
    }
    struct weft__task *task = block;
    task->kind = &weft__kind_thread;
    task->stack_low = low;
    task->stack_shift = (uint8_t)__builtin_ctzll(size);
    weft__context_make(&task->context, low, block, weft__thread_entry, task);
    *out = task;
    return 0;
}

static int take_future(struct weft__task **out, struct weft__crew *crew, struct weft__carrier *self,
                       const struct weft__spawn *spawn)
{
    struct weft__task *task = weft__block_take(&crew->blocks, self != NULL ? &self->blocks : NULL);
    if (task == NULL) {
        return -ENOMEM;
    }
    task->kind = &weft__kind_future;
    task->context.sp = spawn->arg; // for weft__context_prefetch(): what its run will touch
    task->stack_low = NULL;
    task->stack_shift = 0;
    *out = task;
    return 0;
}

void weft__thread_free(struct weft__task *task, struct weft__carrier *carrier)
{
    struct weft__crew *crew = task->crew;
    bool ours = carrier != NULL && carrier->crew == crew;
    weft__context_forget(&task->context);
    if (weft__unlikely(weft__stack_give(crew->stacks, ours ? &carrier->stacks : NULL, task,
                                        (size_t)1 << task->stack_shift))) {
        weft__stacks_are_many(crew, ours ? carrier : NULL);
    }
}

void weft__future_free(struct weft__task *task, struct weft__carrier *carrier)
{
    struct weft__crew *crew = task->crew;
    bool ours = carrier != NULL && carrier->crew == crew;
    weft__block_give(&crew->blocks, ours ? &carrier->blocks : NULL, task);
}

static int inherit_locals(struct weft__task *task, const struct weft_attr *attr)
{
    struct weft__task *parent = attr->inherit ? weft__task_self() : NULL;
    return parent != NULL ? weft__locals_inherit(task, parent) : 0;
}

static void count_spawn(struct weft__crew *crew, struct weft__carrier *self)
{
    if (self != NULL) {
        weft__count(&self->counts.spawned);
    } else {
        atomic_fetch_add_explicit(&crew->foreign_spawned, 1, memory_order_relaxed);
    }
}

/// A shutdown, or its next stage, may have visited all tasks between our look at the root's cause and
/// this one's publication. So we look again (runtime/shutdown.c, D2). A carrier that sees no shutdown
/// at all need not: it is asked to say that it has seen it, and all are visited after that.
static void see_late_shutdown(struct weft__crew *crew, struct weft__carrier *self,
                              struct weft__task *task)
{
    _Atomic int *stage = &crew->root.cause;
    if (self != NULL &&
        weft__likely(atomic_load_explicit(stage, memory_order_relaxed) == WEFT__STAGE_NONE)) {
        return;
    }
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(stage, memory_order_relaxed) != WEFT__STAGE_NONE) {
        weft__interrupt(task, WEFT__WORD_LOOK);
    }
}

/// The scheduler of the program's that the task will be on, with a reference, or NULL. One that was
/// chosen for the whole runtime gets what it can take.
static inline int enter_scheduler(struct weft_scheduler **own, struct weft__crew *crew,
                                  const struct weft__spawn *spawn, struct manner manner)
{
    const struct weft_attr *attr = manner.attr;
    bool migratable = attr->migratable || spawn->is_future;
    *own = attr->scheduler != NULL ? attr->scheduler : manner.policy != NULL ? NULL : crew->chosen;
    if (weft__likely(*own == NULL)) {
        return 0;
    }
    if (!weft__scheduler_takes(*own, migratable)) {
        *own = NULL;
        return attr->scheduler != NULL ? -EINVAL : 0;
    }
    return weft__scheduler_enter(*own, crew);
}

static inline int spawn_as(struct manner manner, struct weft__task **handle,
                           struct weft__crew *crew, struct weft__carrier *self,
                           const struct weft__spawn *spawn)
{
    const struct weft_attr *attr = manner.attr;
    struct weft__task *task = NULL;
    int rc = spawn->is_future || spawn->fn != NULL ? check_attr(crew, attr) : -EINVAL;
    if (rc < 0) {
        return rc;
    }
    struct weft_scheduler *own;
    rc = enter_scheduler(&own, crew, spawn, manner);
    if (rc < 0) {
        return rc;
    }
    rc = spawn->is_future ? take_future(&task, crew, self, spawn)
                          : take_thread(&task, crew, self, attr);
    if (rc < 0) {
        goto leave_scheduler;
    }
    fill(task, crew, self, spawn, manner, own);
    rc = inherit_locals(task, attr);
    if (rc < 0) {
        goto free_task;
    }
    // Published before it is linked: a cancel that finds the child in the scope must be able to mark
    // it. Until on_start nobody runs it, whoever wakes it.
    uint64_t flags = (handle != NULL ? 0 : WEFT__WORD_DETACHED) |
                     (manner.uncounted        ? WEFT__WORD_RESIDENT
                      : manner.policy != NULL ? WEFT__WORD_POLLER
                                              : 0);
    weft__word_init(task, handle != NULL ? 2 : 1, flags);
    rc = weft__scope_enter(spawn->scope, task);
    if (rc < 0) {
        goto free_locals;
    }
    if (!manner.uncounted) {
        count_spawn(crew, self);
    }
    if (handle != NULL) {
        *handle = task;
    }
    see_late_shutdown(crew, self, task);
    weft__trace(WEFT_TRACE_SUBMIT, task);
    task->sched->ops->on_start(task->sched, task);
    return 0;

free_locals:
    atomic_store_explicit(&task->word, 0, memory_order_relaxed);
    weft__locals_end(task);
free_task:
    task->kind->free(task, self);
leave_scheduler:
    if (own != NULL) {
        weft__scheduler_leave(own, NULL); // not the last: the caller has one
    }
    return rc;
}

WEFT__NOINLINE WEFT__FLATTEN static int spawn_unusually(struct weft__task **handle,
                                                        struct weft__crew *crew,
                                                        struct weft__carrier *self,
                                                        const struct weft__spawn *spawn)
{
    const struct manner manner = {
        .attr = spawn->attr != NULL ? spawn->attr : &default_attr,
        .policy = spawn->policy,
        .uncounted = spawn->uncounted,
    };
    return spawn_as(manner, handle, crew, self, spawn);
}

/// Making a task is mostly questions about attributes that it seldom has. So the same code is here twice, and
/// in the usual one the compiler knows the answers.
WEFT__FLATTEN int weft__spawn(struct weft__task **handle, struct weft__crew *crew,
                              struct weft__carrier *self, const struct weft__spawn *spawn)
{
    const struct manner usual = { .attr = &default_attr };
    if (weft__unlikely(self == NULL || spawn->attr != NULL || spawn->policy != NULL ||
                       spawn->uncounted)) {
        return spawn_unusually(handle, crew, self, spawn);
    }
    return spawn_as(usual, handle, crew, self, spawn);
}

void *weft__host_alloc(struct weft__task *task, size_t size_bytes)
{
    return weft__alloc(task->crew->allocator, size_bytes, _Alignof(max_align_t));
}

void weft__host_free(struct weft__task *task, void *memory, size_t size_bytes)
{
    weft__free(task->crew->allocator, memory, size_bytes);
}

void weft__host_release(struct weft__task *task)
{
    struct weft__carrier *self = weft__carrier_self();
    struct weft__crew *crew = task->crew;
    if (weft__likely(self != NULL && self->crew == crew)) {
        weft__carrier_release(self, task);
    } else if (weft__runtime_refuses(crew, self) != -ESRCH) { // in a forked child it is nobody's
        weft__crew_enter(crew);
        weft__task_release(task, self);
        weft__crew_leave(crew);
    }
}
