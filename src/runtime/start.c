// start.c - carriers come up and go down; runtimes are created and destroyed.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "blocking/pool.h"
#include "diag/monitor.h"
#include "io/io.h"
#include "io/remote.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "sched/annex.h"
#include "sched/cpus.h"
#include "runtime/schedulers.h"
#include "sched/park.h"
#include "task/guard.h"
#include "task/overflow.h"

#define THREAD_NAME_BYTES 16 // the kernel's limit

static void report(struct weft__runtime *runtime, int rc)
{
    int none = 0;
    if (rc < 0) {
        atomic_compare_exchange_strong(&runtime->start_error, &none, rc);
    }
    atomic_fetch_add_explicit(&runtime->reported, 1, memory_order_release);
    weft__futex_wake(&runtime->reported, 1);
}

/// Writing to a pipe that nobody reads is an error of the call, not the end of the program. Blocked,
/// not ignored: what the program decided about the signal stays as it is in its other threads.
static void block_sigpipe(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static struct weft__driver_config driver_config(struct weft__runtime *runtime,
                                                struct weft__carrier *carrier)
{
    const struct weft_options *options = &runtime->options;
    return (struct weft__driver_config){
        .allocator = options->allocator,
        .entries = (unsigned)options->ring_entries,
        .submit_batch = (unsigned)options->submit_batch,
        .buffer_bytes = (uint32_t)options->receive_buffer_bytes,
        .buffers = (uint32_t)options->receive_buffers,
        .offload = { weft__blocking_send, weft__blocking_recall, runtime->crew.blocking },
        .carrier = carrier,
    };
}

static int prepare_carrier(struct weft__carrier *carrier, struct weft__runtime *runtime)
{
    struct weft__driver_config config = driver_config(runtime, carrier);
    char name[THREAD_NAME_BYTES];
    (void)snprintf(name, sizeof name, carrier->aside ? "carrier-spare" : "carrier-%d",
                   carrier->number);
    (void)pthread_setname_np(pthread_self(), name);
    weft__carrier_pin(carrier); // before it touches memory: that is then near
    carrier->tid = weft__sys_gettid();
    block_sigpipe();
    (void)weft__sys_sharpen_timers(); // where that is forbidden, timers are a little later
    weft__wheel_init(&carrier->wheel, weft__clock_ns());
    int rc = weft__overflow_thread_init();
    if (rc == 0) {
        rc = carrier->driver->open(&carrier->driver_state, &config);
    }
    if (rc == 0 && carrier->annex != NULL) {
        rc = weft__annex_open(carrier->annex, runtime->driver, config);
    }
    return rc;
}

static void *carrier_main(void *arg)
{
    struct weft__carrier *carrier = arg;
    struct weft__runtime *runtime = weft__runtime_of(carrier->crew);
    int rc = prepare_carrier(carrier, runtime);
    bool ready = rc == 0; // after the report of a failure the runtime may go at any time
    if (ready) {
        weft__carrier_adopt(carrier);
        weft__carrier_set_self(carrier);
    }
    report(runtime, rc);
    if (ready) {
        weft__carrier_loop(carrier);
        if (carrier->driver->drain != NULL) {
            carrier->driver->drain(carrier->driver_state);
        }
        if (carrier->annex != NULL && carrier->annex->driver->drain != NULL) {
            carrier->annex->driver->drain(carrier->annex->driver_state);
        }
        weft__carrier_set_self(NULL);
        weft__context_forget(&carrier->runner.context);
    }
    weft__overflow_thread_fini();
    return NULL;
}

static void stop_carrier(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    carrier->stop = true;
}

/// Drivers are closed only when no carrier runs any more: until then one may kick another.
static void stop_carriers(struct weft__runtime *runtime, int started)
{
    struct weft__crew *crew = &runtime->crew;
    for (int i = 0; i < started; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        if (carrier->driver_state != NULL) {
            carrier->control.fn = stop_carrier;
            weft__put(carrier, &carrier->control.node, NULL);
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(crew->carriers[i].thread, NULL);
    }
    weft__crew_await_visitors(crew); // who may kick, too
    weft__driver_threads_stop(crew->driver_threads);
    for (int i = 0; i < started; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        if (carrier->driver_state != NULL) {
            carrier->driver->close(carrier->driver_state);
        }
        if (carrier->annex != NULL && carrier->annex->driver_state != NULL) {
            carrier->annex->driver->close(carrier->annex->driver_state);
        }
    }
    weft__driver_threads_free(crew->driver_threads);
    crew->driver_threads = NULL;
}

/// For WEFT_POLLER=threads.
static int start_driver_threads(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    const struct weft_options *options = &runtime->options;
    if (options->poller != WEFT_POLLER_THREADS) {
        return 0;
    }
    struct weft__driver_config config = driver_config(runtime, NULL);
    int rc = weft__driver_threads_start(&crew->driver_threads, runtime->real,
                                        options->poller_threads, crew->capacity, &config);
    if (rc < 0) {
        weft__log(&runtime->log, WEFT_LOG_ERROR, "runtime",
                  "not all of %d driver threads can start: %s (check ulimit -n, -u and -v)",
                  options->poller_threads, strerror(-rc));
    }
    return rc;
}

static void await_reports(struct weft__runtime *runtime, int count)
{
    uint32_t reported;
    while ((reported = atomic_load_explicit(&runtime->reported, memory_order_acquire)) <
           (uint32_t)count) {
        weft__futex_wait(&runtime->reported, reported, WEFT_FOREVER);
    }
}

static int start_carriers(struct weft__runtime *runtime)
{
    struct weft__crew *crew = &runtime->crew;
    int count = weft__crew_started(crew);
    int started = 0;
    int rc = 0;
    while (started < count && rc == 0) {
        struct weft__carrier *carrier = &crew->carriers[started];
        rc = -pthread_create(&carrier->thread, NULL, carrier_main, carrier);
        started += rc == 0;
    }
    await_reports(runtime, started);
    if (rc == 0) {
        rc = atomic_load(&runtime->start_error);
    }
    if (rc < 0) {
        weft__log(&runtime->log, WEFT_LOG_ERROR, "runtime",
                  "not all of %d carriers can start: %s (check ulimit -n, -u and -v)", count,
                  strerror(-rc));
        stop_carriers(runtime, started);
    }
    return rc;
}

int weft__carrier_start(struct weft__runtime *runtime, int number)
{
    struct weft__carrier *carrier = &runtime->crew.carriers[number];
    atomic_store_explicit(&runtime->reported, 0, memory_order_relaxed);
    atomic_store(&runtime->start_error, 0);
    int rc = -pthread_create(&carrier->thread, NULL, carrier_main, carrier);
    if (rc == 0) {
        await_reports(runtime, 1);
        rc = atomic_load(&runtime->start_error);
        if (rc < 0) {
            pthread_join(carrier->thread, NULL);
        }
    }
    return rc;
}

static int choose_driver(const struct weft__driver **driver, const struct weft_options *options,
                         const struct weft__log *log)
{
    char why[256] = "";
    bool tasks = options->poller == WEFT_POLLER_TASKS;
    if (tasks && options->io == WEFT_IO_URING) {
        weft__log(log, WEFT_LOG_ERROR, "options",
                  "WEFT_POLLER=tasks is not allowed with WEFT_IO=uring: it waits in epoll");
        return -EINVAL;
    }
    bool lookout = options->remedy != WEFT_REMEDY_OFF; // the annex has one
    int rc = weft__io_choose(driver, tasks ? WEFT_IO_EPOLL : options->io, lookout, why, sizeof why);
    if (rc < 0) {
        weft__log(log, WEFT_LOG_ERROR, "io", "no driver: %s", why[0] != '\0' ? why : strerror(-rc));
    } else if (why[0] != '\0') {
        weft__log(log, WEFT_LOG_WARN, "io", "%s", why);
    } else {
        weft__log(log, WEFT_LOG_INFO, "io", "driver: %s%s", (*driver)->name,
                  tasks ? " (because of WEFT_POLLER=tasks)" : "");
    }
    return rc;
}

int weft_runtime_create(weft_runtime **out, const struct weft_options *options)
{
    struct weft__cpu_set allowed;
    (void)weft__cpus_allowed(&allowed); // an empty set, then: carriers float
    return weft__runtime_create_at(out, options, "", &allowed);
}

int weft__runtime_create_at(weft_runtime **out, const struct weft_options *options,
                            const char *root, const struct weft__cpu_set *allowed)
{
    struct weft_options resolved;
    struct weft__log log;
    const struct weft__driver *driver = NULL;
    *out = NULL;
    int rc = weft__options_resolve(&resolved, &log, options);
    if (rc == 0) {
        weft__options_warn_misspelt(&log);
        rc = choose_driver(&driver, &resolved, &log);
    }
    if (rc < 0) {
        return rc;
    }
    weft__overflow_set_describe(weft__describe_block);
    rc = weft__overflow_install();
    if (rc < 0) {
        return rc;
    }
    struct weft__runtime *runtime;
    rc = weft__runtime_alloc(&runtime, &resolved, &log, driver);
    if (rc < 0) {
        weft__log(&log, WEFT_LOG_ERROR, "runtime", "cannot be made: %s", strerror(-rc));
        return rc;
    }
    rc = weft__runtime_seat(runtime, root, allowed);
    rc = rc == 0 ? weft__residents_make(runtime) : rc;
    if (rc < 0) {
        weft__runtime_free(runtime);
        return rc;
    }
    weft__registry_add(runtime);
    rc = weft__scheduler_choose(runtime, options != NULL && options->policy != WEFT_POLICY_DEFAULT);
    rc = rc == 0 ? start_driver_threads(runtime) : rc;
    rc = rc == 0 ? start_carriers(runtime) : rc;
    if (rc < 0) {
        weft__scheduler_let_go(runtime);
        weft__registry_remove(runtime);
        weft__runtime_free(runtime);
        return rc;
    }
    weft__monitor_start(runtime);
    rc = weft__residents_start(runtime);
    if (rc < 0) {
        (void)weft_runtime_destroy(runtime);
        return rc;
    }
    *out = runtime;
    return 0;
}

int weft_runtime_destroy(weft_runtime *runtime)
{
    if (runtime == NULL) {
        return 0;
    }
    // Also after a shutdown: a thread that was spawning meanwhile may have slipped one in.
    int rc = weft_runtime_shutdown(runtime, runtime->options.grace_ns);
    if (rc < 0) {
        return rc;
    }
    weft__monitor_stop(runtime);
    weft__registry_remove(runtime);
    weft__blocking_drain(
        runtime->crew.blocking); // while there are carriers to take what comes back
    stop_carriers(runtime, weft__crew_started(&runtime->crew));
    weft__scheduler_let_go(runtime);
    if (weft__guard_missing() > 0) {
        weft__log(&runtime->log, WEFT_LOG_WARN, "stack",
                  "%" PRIu64 " stacks had no guard: raise vm.max_map_count, or use Linux 6.13",
                  weft__guard_missing());
    }
    weft__runtime_free(runtime);
    return 0;
}

const char *weft_runtime_driver(const weft_runtime *runtime)
{
    return runtime->driver->name;
}

int weft_runtime_carriers(const weft_runtime *runtime)
{
    return weft__crew_active(&runtime->crew);
}
