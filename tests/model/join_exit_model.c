// join_exit_model.c - joining a task that is about to end (task/join.c, J1 to J5; task/word.h, W4).
//
// One thread ends the task, others join it with a handle of their own and give that back. Waits
// stand on the joiners' stacks and die when the join returns. Whoever gives back the last reference
// frees the block: from then on only its word may be touched (task.h, T3), and freeing it twice is
// a failure too. The result is plain.
//
// Sources: task/join.c task/wait.c task/run.c
// Headers: task/word.h
// With: stage.c stage_actor.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include "mc.h"
#include "stage.h"
#include "task/join.h"
#include "task/wait.h"
#include "task/word.h"

enum { RESULT = 7, JOINERS = 2 };

static struct weft__task task;
static struct stage_actor actor;
static int outcomes[JOINERS];
static int frees;
static _Atomic int is_passed_on;
static _Atomic uint32_t called[JOINERS]; // watchers

static void free_block(struct weft__task *freed, struct weft__carrier *carrier)
{
    (void)carrier;
    char *start = (char *)freed, *word = (char *)&freed->word;
    frees++;
    mc_assert(weft__word_peek(freed) == 0); // W3
    mc_forbid(start, (size_t)(word - start));
    mc_forbid(word + sizeof freed->word,
              sizeof *freed - (size_t)(word - start) - sizeof freed->word);
}

static const struct weft__kind kind = { .name = "model", .free = free_block };

static void end(void *unused)
{
    (void)unused;
    task.result = RESULT;
    weft__task_end(&task, NULL);
    weft__task_release(&task, NULL);
}

// As a carrier on which the next thread joins the one that ended: the own reference and a handle
// (sched/relay.h, weft__carrier_release).
static void end_and_join(void *unused)
{
    (void)unused;
    task.result = RESULT;
    weft__task_end(&task, NULL);
    if (weft__word_release_both(&task)) {
        free_block(&task, NULL);
    } else {
        weft__task_release(&task, NULL);
        weft__task_release(&task, NULL);
    }
}

// The running task makes a handle of itself and passes it on before it ends.
static void pass_handle_and_end(void *unused)
{
    (void)unused;
    weft__word_retain(&task);
    atomic_store_explicit(&is_passed_on, 1, memory_order_release);
    end(NULL);
}

static void join(struct weft__task *self, int joiner, weft_time deadline)
{
    int result = 0;
    outcomes[joiner] = weft__task_join(&task, self, &result, deadline);
    mc_assert(outcomes[joiner] == -ETIMEDOUT || (outcomes[joiner] == 0 && result == RESULT));
    weft__task_release(&task, NULL);
}

static void foreign_joins(void *unused)
{
    (void)unused;
    join(NULL, 0, WEFT_FOREVER);
}

static void foreign_may_be_late(void *unused)
{
    (void)unused;
    join(NULL, 0, 10);
}

static void another_may_be_late(void *unused)
{
    (void)unused;
    join(NULL, 1, 10);
}

static void task_joins(void *unused)
{
    (void)unused;
    join(&actor.task, 1, WEFT_FOREVER);
}

static void task_may_be_late(void *unused)
{
    (void)unused;
    join(&actor.task, 1, 10);
}

// J4. The wait is on the watcher's stack: he leaves when the call was called off, or has come.
struct watching {
    struct weft__wait wait;
    int watcher;
};

static void has_ended(struct weft__wait *wait)
{
    int watcher = weft__container_of(wait, struct watching, wait)->watcher;
    uint32_t before = atomic_exchange_explicit(&called[watcher], 1, memory_order_release);
    mc_assert(before == 0); // looked at: see stage_sync.c
    mc_event_set(&called[watcher]);
}

static __attribute__((noinline)) void watch(int watcher, bool gives_up)
{
    struct watching watching = { .watcher = watcher };
    weft__wait_init(&watching.wait, NULL, WEFT__WAIT_CALL, "watch");
    watching.wait.ask = has_ended;
    bool watches = weft__task_watch(&task, &watching.wait);
    if (watches && gives_up && weft__task_unwatch(&task, &watching.wait)) {
        outcomes[watcher] = -ECANCELED;
        return;
    }
    while (watches && atomic_exchange_explicit(&called[watcher], 0, memory_order_acquire) == 0) {
        mc_event_wait(&called[watcher]);
    }
    mc_assert(task.result == RESULT);
}

static void watches(void *unused)
{
    (void)unused;
    watch(0, false);
    weft__task_release(&task, NULL);
}

static void watches_and_gives_up(void *unused)
{
    (void)unused;
    watch(1, true);
    weft__task_release(&task, NULL);
}

static void joins_with_passed_handle(void *unused)
{
    (void)unused;
    while (atomic_load_explicit(&is_passed_on, memory_order_acquire) == 0) {
        mc_relax();
    }
    join(NULL, 1, WEFT_FOREVER);
}

// Gives its handle back without joining, after a look.
static void detach(void *unused)
{
    (void)unused;
    if (weft__task_ended(&task)) {
        mc_assert(task.result == RESULT);
    }
    weft__task_release(&task, NULL);
}

static void start(void (*first)(void *), void (*second)(void *), void (*third)(void *))
{
    unsigned handles = third != NULL && first == end ? 2 : 1;
    stage_actor_init(&actor, "actor");
    task = (struct weft__task){ .kind = &kind, .sched = &stage_scheduler };
    weft__word_init(&task, 1 + handles, 0);
    outcomes[0] = outcomes[1] = frees = 0;
    atomic_init(&is_passed_on, 0);
    atomic_init(&called[0], 0);
    atomic_init(&called[1], 0);
    mc_name(&task, sizeof task, "task");
    mc_name(&task.word, sizeof task.word, "word");
    mc_name(&task.joiners, sizeof task.joiners, "joiners");
    mc_name(&task.result, sizeof task.result, "result");
    mc_name(&actor.lane, sizeof actor.lane, "lane");
    mc_thread(first, NULL);
    mc_thread(second, NULL);
    if (third != NULL) {
        mc_thread(third, NULL);
    }
}

static void one_joiner(void)
{
    start(end, foreign_joins, NULL);
}

static void one_task(void)
{
    start(end, task_may_be_late, NULL);
}

static void detached(void)
{
    start(end, detach, foreign_joins);
}

static void two_joiners(void)
{
    start(end, foreign_joins, task_joins);
}

static void two_late(void)
{
    start(end, foreign_may_be_late, another_may_be_late);
}

static void one_watcher(void)
{
    start(end, watches_and_gives_up, NULL);
}

static void two_watchers(void)
{
    start(end, watches, watches_and_gives_up);
}

static void passed_on(void)
{
    start(pass_handle_and_end, foreign_joins, joins_with_passed_handle);
}

static void pair(void)
{
    start(end_and_join, foreign_joins, NULL);
    weft__word_retain(&task);
}

static void check(void)
{
    mc_assert(frees == 1);
}

const struct mc_model mc_models[] = {
    { .name = "join_one_joiner", .setup = one_joiner, .check = check },
    { .name = "join_one_task", .setup = one_task, .check = check },
    { .name = "join_detached", .setup = detached, .check = check },
    { .name = "join_two_joiners", .setup = two_joiners, .check = check },
    { .name = "join_passed_on", .setup = passed_on, .check = check, .never_spurious = 1 },
    { .name = "join_two_late", .setup = two_late, .check = check, .never_spurious = 1 },
    { .name = "join_one_watcher", .setup = one_watcher, .check = check },
    { .name = "join_two_watchers", .setup = two_watchers, .check = check, .never_spurious = 1 },
    { .name = "join_pair", .setup = pair, .check = check },
    { .name = NULL },
};
