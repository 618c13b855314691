// Fails the 1st, 2nd, ... nth thing that the library asks for: memory, mappings, threads,
// descriptors. Each time the result is a clean error or success; never a crash, a leak or a hang.
//
// The linker sends the static library's calls through the __wrap_ functions below (--wrap, see
// tests/meson.build). Each attempt is a process of its own, so that what is made once per process is
// made, and fails, every time.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <weft.h>

#ifdef WEFT_HAVE_URING
#include <liburing.h>
#endif

enum { REACHED = 10, HANG_S = 60 };

static _Atomic int countdown; // the call that takes it to 0 fails; at 0 nothing does
static bool from_then_on;     // that call and all later ones
static _Atomic bool reached;

static bool fails(void)
{
    int left = atomic_load(&countdown);
    if (left == 0) {
        return from_then_on && atomic_load(&reached);
    }
    while (!atomic_compare_exchange_weak(&countdown, &left, left - 1)) {
        if (left == 0) {
            return from_then_on && atomic_load(&reached);
        }
    }
    if (left == 1) {
        atomic_store(&reached, true);
    }
    return left == 1;
}

static void disarm(void)
{
    from_then_on = false;
    atomic_store(&countdown, 0);
}

#define WRAP(result_type, name, parameters, arguments, failure)                                    \
    result_type __real_##name parameters;                                                          \
    result_type __wrap_##name parameters;                                                          \
    result_type __wrap_##name parameters                                                           \
    {                                                                                              \
        if (fails()) {                                                                             \
            failure;                                                                               \
        }                                                                                          \
        return __real_##name arguments;                                                            \
    }

#define WITH_ERRNO(error, result)                                                                  \
    do {                                                                                           \
        errno = (error);                                                                           \
        return (result);                                                                           \
    } while (0)

WRAP(void *, calloc, (size_t count, size_t size), (count, size), WITH_ERRNO(ENOMEM, NULL))
WRAP(void *, malloc, (size_t size), (size), WITH_ERRNO(ENOMEM, NULL))
WRAP(int, posix_memalign, (void **memory, size_t align, size_t size), (memory, align, size),
     return ENOMEM)
WRAP(void *, aligned_alloc, (size_t align, size_t size), (align, size), WITH_ERRNO(ENOMEM, NULL))
WRAP(void *, mmap64, (void *at, size_t size, int protection, int flags, int fd, off64_t offset),
     (at, size, protection, flags, fd, offset), WITH_ERRNO(ENOMEM, MAP_FAILED))
WRAP(int, mprotect, (void *at, size_t size, int protection), (at, size, protection),
     WITH_ERRNO(ENOMEM, -1))
WRAP(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (thread, attr, fn, arg), return EAGAIN)
WRAP(int, eventfd, (unsigned initial, int flags), (initial, flags), WITH_ERRNO(EMFILE, -1))
WRAP(int, epoll_create1, (int flags), (flags), WITH_ERRNO(EMFILE, -1))
WRAP(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event), (epoll, op, fd, event),
     WITH_ERRNO(ENOMEM, -1))
WRAP(int, timerfd_create, (clockid_t clock, int flags), (clock, flags), WITH_ERRNO(EMFILE, -1))
#ifdef WEFT_HAVE_URING
WRAP(int, io_uring_queue_init_params,
     (unsigned entries, struct io_uring *ring, struct io_uring_params *params),
     (entries, ring, params), return -ENOMEM)
WRAP(int, io_uring_register, (unsigned fd, unsigned op, const void *arg, unsigned count),
     (fd, op, arg, count), return -ENOMEM)
#endif

// What guards are made of may fail; giving pages back never does.
int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice)
{
    if (advice != MADV_DONTNEED && fails()) {
        errno = ENOMEM;
        return -1;
    }
    return __real_madvise(at, size, advice);
}

static void ignore(void *ctx, enum weft_log_level level, const char *module, const char *message)
{
    (void)ctx;
    (void)level;
    (void)module;
    (void)message;
}

static bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN || rc == -EMFILE || rc == -ENFILE;
}

// The scenarios.

static struct weft_options quiet(void)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 3;
    options.log = ignore;
    return options;
}

static void create(void)
{
    struct weft_options options = quiet();
    weft_runtime *runtime = (void *)&options;
    int rc = weft_runtime_create(&runtime, &options);
    CHECK(rc == 0 || is_shortage(rc));
    CHECK_EQ(rc == 0, runtime != NULL);
    CHECK_OK(weft_runtime_destroy(runtime));
}

static void fire(void *arg)
{
    atomic_store((_Atomic bool *)arg, true);
}

static void *copy_value(void *value)
{
    return value;
}

static const struct weft_local local = { .name = "local", .inherit = copy_value };

static int child(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return weft_sleep(100 * WEFT_US);
}

static enum weft_poll ready_at_once(struct weft_future *future, weft_waker *waker)
{
    (void)waker;
    future->result = 1;
    return WEFT_READY;
}

static bool is_answer(int rc)
{
    return rc == 0 || rc == -ENOMEM || rc == -ECANCELED;
}

/// Every kind of spawn; counts what ran and compares with what was accepted.
static int spawn_everything(void *arg)
{
    (void)arg;
    _Atomic int ran = 0;
    int accepted = 0;
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct weft_scope scope;
    struct weft_future futures[10];
    weft_task *tasks[20];
    int rc = weft_local_set(&local, &ran);
    CHECK(rc == 0 || rc == -ENOMEM);
    attr.place = WEFT_PLACE_SPREAD;
    attr.inherit = true;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, weft_after(60 * WEFT_S)));
    for (int i = 0; i < 20; i++) {
        rc = weft_scope_spawn_task(NULL, &scope, child, &ran, i % 2 == 0 ? &attr : NULL);
        CHECK(is_answer(rc));
        accepted += rc == 0;
        tasks[i] = (weft_task *)&scope;
        if (i < 10) {
            attr.stack_size_bytes = (size_t)128 << (10 + i % 3);
            rc = weft_spawn(&tasks[i], child, &ran, &attr);
            attr.stack_size_bytes = 0;
            accepted += rc == 0;
        } else {
            weft_future_init(&futures[i - 10], ready_at_once, NULL);
            rc = weft_spawn_future(&tasks[i], &futures[i - 10], &attr);
        }
        CHECK(is_answer(rc));
        CHECK_EQ(rc == 0, tasks[i] != NULL);
    }
    rc = weft_scope_join(&scope);
    CHECK(is_answer(rc) || rc > 0);
    for (int i = 0; i < 20; i++) {
        if (tasks[i] != NULL) {
            CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
        }
    }
    CHECK_EQ(atomic_load(&ran), accepted);
    return 77;
}

static int with_timer(void *arg)
{
    (void)arg;
    _Atomic bool fired = false;
    struct weft_timer timer;
    CHECK_OK(weft_timer_init_on(&timer, weft_runtime_current(), 1, fire, &fired));
    weft_timer_set(&timer, weft_after(WEFT_MS));
    while (!atomic_load(&fired)) {
        CHECK_OK(weft_sleep(100 * WEFT_US));
    }
    CHECK_EQ(weft_timer_stop(&timer), 0);
    return spawn_everything(NULL);
}

static void run(void)
{
    struct weft_options options = quiet();
    int rc = weft_run(with_timer, NULL, &options);
    CHECK(rc == 77 || is_shortage(rc));
}

/// With carriers on CPUs, some without one, and a monitor, which may be missing.
static void create_pinned(void)
{
    struct weft_options options = quiet();
    weft_runtime *runtime;
    cpu_set_t allowed;
    char map[32];
    int cpu = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(cpu, &allowed)) {
        cpu++;
    }
    (void)snprintf(map, sizeof map, "%d", cpu);
    options.cpus = map;
    options.stuck_ns = WEFT_S;
    int rc = weft_runtime_create(&runtime, &options);
    CHECK(rc == 0 || is_shortage(rc));
    CHECK_OK(weft_runtime_destroy(runtime));
}

static void simulate(void)
{
    struct weft_sim_options options = { .carriers = 3, .log = ignore };
    int rc = weft_sim_run(NULL, with_timer, NULL, &options);
    CHECK(rc == 77 || rc == -ENOMEM);
}

static void make_default(void)
{
    weft_runtime *runtime = weft_runtime_default();
    weft_task *task;
    _Atomic int ran = 0;
    if (runtime != NULL) {
        int rc = weft_runtime_spawn(&task, runtime, child, &ran, NULL);
        CHECK(rc == 0 || rc == -ENOMEM);
        if (rc == 0) {
            CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
        }
    }
    disarm();
    CHECK(weft_runtime_default() != NULL); // once there is enough again
}

static int after_shutdown(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    return spawn_everything(arg);
}

/// Fails in the middle of a life: threads outside spawn, the program is cancelled, things end.
static void spawn_from_outside(void)
{
    struct weft_options options = quiet();
    weft_runtime *runtime;
    int rc = weft_runtime_create(&runtime, &options);
    if (rc < 0) {
        CHECK(is_shortage(rc));
        return;
    }
    for (int i = 0; i < 10; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.stack_size_bytes = (size_t)128 << (10 + i % 4);
        rc = weft_runtime_spawn(NULL, runtime, after_shutdown, NULL, &attr);
        CHECK(rc == 0 || rc == -ENOMEM);
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}

// The sweep.

static void *end_at_once(void *arg)
{
    return arg;
}

/// The first thread of a process brings along the thread sanitizer's own.
static int usual_threads(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, end_at_once, NULL), 0);
    pthread_join(thread, NULL);
    return count_threads();
}

static void attempt(void (*scenario)(void), int n, bool threads_stay)
{
    int threads = usual_threads();
    int descriptors = count_descriptors();
    alarm(HANG_S);
    atomic_store(&countdown, n);
    scenario();
    disarm();
    bool was_reached = atomic_load(&reached);
    atomic_store(&reached, false);
    CHECK(threads_stay || threads_fall_to(threads));
    CHECK(threads_stay || count_descriptors() == descriptors);
    exit(was_reached ? REACHED : 0);
}

static int status_of(pid_t pid)
{
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void sweep(void (*scenario)(void), bool on_and_on, bool threads_stay)
{
    int n = 1;
    for (;; n++) {
        pid_t pid = fork();
        CHECK_OK(pid);
        if (pid == 0) {
            from_then_on = on_and_on;
            attempt(scenario, n, threads_stay);
        }
        int status = status_of(pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            break;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != REACHED) {
            FAIL("call %d failing%s: status 0x%x", n, on_and_on ? " and all later ones" : "",
                 (unsigned)status);
        }
    }
    dprintf(2, "%d calls failed in turn\n", n - 1);
    CHECK_GT(n, 3);
}

#define SWEEP(scenario)                                                                            \
    TEST_DRIVERS(one_fault_in_##scenario)                                                          \
    {                                                                                              \
        sweep(scenario, false, false);                                                             \
    }                                                                                              \
    TEST_DRIVERS(faults_from_one_on_in_##scenario)                                                 \
    {                                                                                              \
        sweep(scenario, true, false);                                                              \
    }

SWEEP(create)
SWEEP(create_pinned)
SWEEP(run)
SWEEP(spawn_from_outside)

TEST(one_fault_in_simulate)
{
    sweep(simulate, false, false);
}

TEST(faults_from_one_on_in_simulate)
{
    sweep(simulate, true, false);
}

TEST_DRIVERS(one_fault_in_make_default)
{
    sweep(make_default, false, true);
}

TEST(with_a_choice_of_drivers_a_fault_costs_no_more_than_io_uring)
{
    unsetenv("WEFT_IO");
    sweep(create, false, false);
    sweep(run, false, false);
}

// Descriptors, by the limit of the process: this also reaches what liburing opens by itself.

static void check_descriptors(void)
{
    struct weft_options options = quiet();
    weft_runtime *runtime;
    int before = count_descriptors();
    int threads = usual_threads();
    struct rlimit limit;
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
    bool reached_success = false;
    for (rlim_t descriptors = 3; !reached_success; descriptors++) {
        struct rlimit few = { descriptors, limit.rlim_max };
        CHECK_OK(setrlimit(RLIMIT_NOFILE, &few));
        int rc = weft_runtime_create(&runtime, &options);
        CHECK(rc == 0 || is_shortage(rc));
        CHECK_OK(weft_runtime_destroy(runtime));
        CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
        CHECK_EQ(count_descriptors(), before);
        reached_success = rc == 0;
    }
    CHECK(threads_fall_to(threads));
}

TEST_DRIVERS(few_descriptors)
{
    check_descriptors();
}

TEST(few_descriptors_and_a_choice_of_drivers)
{
    unsetenv("WEFT_IO");
    check_descriptors();
}

// The allocator of the options.

static _Atomic int64_t pieces;

static void *hook_alloc(void *ctx, size_t size_bytes, size_t align)
{
    (void)ctx;
    void *memory = NULL;
    if (fails() || __real_posix_memalign(&memory, align < 16 ? 16 : align, size_bytes) != 0) {
        return NULL;
    }
    atomic_fetch_add(&pieces, 1);
    return memory;
}

static void hook_free(void *ctx, void *memory, size_t size_bytes)
{
    (void)ctx;
    (void)size_bytes;
    atomic_fetch_sub(&pieces, 1);
    free(memory);
}

static void run_with_allocator(void)
{
    const struct weft_allocator allocator = { hook_alloc, hook_free, NULL };
    struct weft_options options = quiet();
    options.allocator = &allocator;
    int rc = weft_run(with_timer, NULL, &options);
    CHECK(rc == 77 || is_shortage(rc));
    CHECK_EQ(atomic_load(&pieces), 0);
}

SWEEP(run_with_allocator)
