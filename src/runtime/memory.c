// memory.c - the memory of a runtime: crew, carriers, stacks.
#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "blocking/pool.h"
#include "io/descriptors.h"
#include "io/remote.h"
#include "net/conn.h"
#include "runtime/runtime.h"
#include "sched/annex.h"
#include "sched/guest.h"
#include "sched/steal.h"

/// Runtimes whose handles are still out, kept where leak checkers see them.
static _Atomic(struct weft__runtime *) kept;

static void keep(struct weft__runtime *runtime)
{
    runtime->next = atomic_load_explicit(&kept, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&kept, &runtime->next, runtime,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

static void init_carrier(struct weft__carrier *carrier, struct weft__runtime *runtime, int number)
{
    const struct weft_options *options = &runtime->options;
    carrier->number = number;
    carrier->crew = &runtime->crew;
    carrier->driver = runtime->driver;
    carrier->lookout = options->stuck_ns != 0 ? &runtime->crew.lookout : NULL;
    carrier->quantum_ns = options->quantum_ns;
    carrier->spin_ns = options->idle_spin_ns;
    carrier->buffers_limit = (unsigned)options->receive_buffers / 4 * 3;
    carrier->control.node.kind = WEFT__NODE_REQUEST;
    carrier->resized.node.kind = WEFT__NODE_REQUEST;
    carrier->resized.fn = weft__carrier_resized;
    carrier->leaving = number >= options->carriers && number < options->max_carriers;
}

/// What a remedy for stuck carriers needs: an annex for each, and the spare one.
static int prepare_remedy(struct weft__crew *crew)
{
    size_t count = (size_t)crew->capacity;
    if (crew->spare == NULL) {
        return 0;
    }
    struct weft__annex *annexes = weft__alloc(crew->allocator, count * sizeof *annexes,
                                              _Alignof(struct weft__annex));
    if (annexes == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        weft__annex_init(&annexes[i], &crew->carriers[i]);
        crew->carriers[i].annex = &annexes[i];
    }
    return 0;
}

/// Under locality a carrier that is and stays alone has nobody to share with, but for the spare one.
static int share(struct weft__crew *crew, const struct weft_options *options)
{
    bool freely = options->policy == WEFT_POLICY_STEALING;
    bool shares = options->steal == WEFT_STEAL_ON && crew->capacity > 1;
    if (!freely && !shares && crew->spare == NULL) {
        return 0;
    }
    crew->steals_globally = options->steal_scope == WEFT_STEAL_GLOBAL;
    crew->sched.ops = freely ? &weft__stealing_ops : &weft__sharing_ops;
    return weft__steal_init(crew, freely);
}

/// The spare carrier is the last. It is started with the others, and so are those before it. Without one,
/// carriers beyond those that are wanted have no thread yet.
static int make_carriers(struct weft__runtime *runtime)
{
    const struct weft_options *options = &runtime->options;
    struct weft__crew *crew = &runtime->crew;
    bool spare = options->remedy == WEFT_REMEDY_SPARE;
    crew->capacity = options->max_carriers + spare;
    atomic_init(&crew->started, spare ? crew->capacity : options->carriers);
    atomic_init(&crew->active, options->carriers);
    crew->carriers = weft__alloc(options->allocator,
                                 (size_t)crew->capacity * sizeof *crew->carriers,
                                 _Alignof(struct weft__carrier));
    if (crew->carriers == NULL) {
        return -ENOMEM;
    }
    crew->clusters = weft__alloc(options->allocator,
                                 (size_t)crew->capacity * sizeof *crew->clusters,
                                 _Alignof(struct weft__cluster));
    if (crew->clusters == NULL) {
        return -ENOMEM;
    }
    for (int i = 0; i < crew->capacity; i++) {
        init_carrier(&crew->carriers[i], runtime, i);
    }
    if (spare) {
        crew->spare = &crew->carriers[crew->capacity - 1];
        crew->spare->aside = true;
    }
    weft__crew_seat(crew, NULL);
    return 0;
}

static int init_crew(struct weft__runtime *runtime)
{
    const struct weft_options *options = &runtime->options;
    struct weft__crew *crew = &runtime->crew;
    crew->allocator = options->allocator;
    crew->stack_size_bytes = options->stack_size_bytes;
    crew->sched.ops = &weft__locality_ops;
    crew->abroad.ops = &weft__abroad_ops;
    crew->delegate.ops = &weft__delegate_ops;
    crew->blocks.allocator = options->allocator;
    crew->root.open = true;
    int rc = make_carriers(runtime);
    if (rc < 0) {
        return rc;
    }
    rc = prepare_remedy(crew);
    rc = rc == 0 ? share(crew, options) : rc;
    if (rc < 0) {
        return rc;
    }
    struct weft__stack_config config = {
        .allocator = options->allocator,
        .provider = options->stack_provider,
        .block_bytes = sizeof(struct weft__task),
        .cache_slots = options->stack_cache,
        .caches = options->carriers,
        .default_bytes = options->stack_size_bytes,
    };
    rc = weft__stack_pool_create(&crew->stacks, &config);
    if (rc < 0) {
        return rc;
    }
    rc = weft__descriptors_init(crew);
    if (rc < 0) {
        goto destroy_stacks;
    }
    struct weft__blocking_config pool = {
        .allocator = options->allocator,
        .threads = (uint32_t)options->blocking_threads,
        .idle_ns = options->blocking_idle_ns,
    };
    rc = weft__blocking_create(&crew->blocking, &pool);
    if (rc == 0) {
        return 0;
    }
    weft__descriptors_fini(crew);
destroy_stacks:
    weft__stack_pool_destroy(crew->stacks);
    return rc;
}

/// Carriers that have stopped have ended their searches (search.c, S4). A simulated run may end
/// anywhere.
static void check_searches(const struct weft__crew *crew)
{
    for (int i = 0; crew->help != NULL && !crew->simulated && i < crew->cluster_count; i++) {
        weft_assert(atomic_load_explicit(&crew->help[i].searchers, memory_order_relaxed) == 0);
    }
}

static void free_carriers(struct weft__runtime *runtime)
{
    const struct weft_allocator *allocator = runtime->options.allocator;
    struct weft__crew *crew = &runtime->crew;
    check_searches(crew);
    weft__topology_fini(&crew->topology);
    weft__steal_fini(crew);
    if (crew->carriers != NULL && crew->carriers[0].annex != NULL) {
        weft__free(allocator, crew->carriers[0].annex,
                   (size_t)crew->capacity * sizeof(struct weft__annex));
    }
    weft__free(allocator, crew->clusters, (size_t)crew->capacity * sizeof *crew->clusters);
    weft__free(allocator, crew->carriers, (size_t)crew->capacity * sizeof *crew->carriers);
}

const struct weft__log *weft__crew_log(struct weft__crew *crew)
{
    return &weft__runtime_of(crew)->log;
}

int weft__runtime_alloc(struct weft__runtime **out, const struct weft_options *resolved,
                        const struct weft__log *log, const struct weft__driver *driver)
{
    struct weft__runtime *runtime = weft__alloc(resolved->allocator, sizeof *runtime,
                                                _Alignof(struct weft__runtime));
    *out = NULL;
    if (runtime == NULL) {
        return -ENOMEM;
    }
    runtime->options = *resolved;
    runtime->log = *log;
    runtime->real = driver;
    runtime->driver = resolved->poller == WEFT_POLLER_THREADS ? weft__remote_driver(driver)
                                                              : driver;
    int rc = init_crew(runtime);
    if (rc < 0) {
        free_carriers(runtime);
        weft__free(resolved->allocator, runtime, sizeof *runtime);
        return rc;
    }
    *out = runtime;
    return 0;
}

struct weft__crew *weft__crew_of(weft_runtime *runtime)
{
    return &runtime->crew;
}

static void count_block(struct weft__task *task, void *arg)
{
    (void)task;
    ++*(size_t *)arg;
}

void weft__runtime_free(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    const struct weft_allocator *allocator = runtime->options.allocator;
    for (int i = 0; i < crew->capacity; i++) {
        weft__stack_cache_drain(crew->stacks, &crew->carriers[i].stacks);
        weft__chunks_drain(&crew->carriers[i]);
    }
    size_t handles = 0;
    weft__runtime_each_task(runtime, count_block, &handles);
    if (handles > 0) {
        weft__log(&runtime->log, WEFT_LOG_WARN, "runtime",
                  "%zu task handles were never joined or released; the memory is kept", handles);
        while (weft__stack_shed(crew->stacks)) {
        }
        keep(runtime); // a later release still finds everything in place
        return;
    }
    weft__crew_await_visitors(crew); // who has given back the last handle of a task, just now
    weft__residents_free(runtime);
    weft__blocking_destroy(crew->blocking);
    weft__descriptors_fini(crew);
    weft__blocks_fini(&crew->blocks);
    weft__stack_pool_destroy(crew->stacks);
    free_carriers(runtime);
    weft__free(allocator, runtime, sizeof *runtime);
}
