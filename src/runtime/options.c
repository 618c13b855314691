// options.c - one table says for each option its variable, range, unit and default.
#include "runtime/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/cpus.h"
#include "sched/topology.h"
#include "task/stack.h"

#define DEFAULT_CARRIERS 0 // asks for weft__cpus_usable()
#define MOST_CARRIERS 1024
#define REMEDY_STUCK_NS (20 * WEFT_MS) // a remedy needs somebody who watches

/// How the value is stored in struct weft_options.
enum storage { STORED_INT, STORED_U64, STORED_TEXT };

struct row {
    const char *field;
    const char *variable;
    size_t offset;
    enum storage storage;
    uint64_t unit; // one of the variable's units is so many of the field's
    uint64_t low;  // in the variable's unit
    uint64_t high;
    uint64_t fallback;          // in the variable's unit
    const char *const *choices; // for names: choices[i] means i; NULL-terminated
    bool power_of_two;
};

static const char *const io_choices[] = { "auto", "uring", "epoll", NULL };
static const char *const topology_choices[] = { "auto", "off", "on", NULL };
static const char *const switch_choices[] = { "", "off", "on", NULL };
static const char *const remedy_choices[] = { "", "off", "spare", NULL };
static const char *const scope_choices[] = { "", "global", "cluster", NULL };
static const char *const poller_choices[] = { "", "carrier", "tasks", "threads", NULL };
static const char *const log_choices[] = { "", "error", "warn", "info", "debug", NULL };

#define ROW(name, env, store, per, least, most, deflt, names, pow2)                                \
    {                                                                                              \
#name, env, offsetof(struct weft_options, name), store, per, least, most, deflt, names,    \
            pow2                                                                                   \
    }

static const struct row rows[] = {
    ROW(carriers, "WEFT_CARRIERS", STORED_INT, 1, 1, MOST_CARRIERS, DEFAULT_CARRIERS, NULL, false),
    ROW(max_carriers, "WEFT_MAX_CARRIERS", STORED_INT, 1, 1, MOST_CARRIERS, DEFAULT_CARRIERS, NULL,
        false),
    ROW(io, "WEFT_IO", STORED_INT, 1, 0, 2, WEFT_IO_AUTO, io_choices, false),
    ROW(quantum_ns, "WEFT_QUANTUM_US", STORED_U64, WEFT_US, 1, 1000000, 50, NULL, false),
    ROW(idle_spin_ns, "WEFT_SPIN_US", STORED_U64, WEFT_US, 0, 1000000, 0, NULL, false),
    ROW(grace_ns, "WEFT_GRACE_MS", STORED_U64, WEFT_MS, 0, 3600000, 10000, NULL, false),
    ROW(stack_size_bytes, "WEFT_STACK_KB", STORED_U64, 1024, WEFT__STACK_MIN_BYTES >> 10,
        WEFT__STACK_MAX_BYTES >> 10, 256, NULL, true),
    ROW(stack_cache, "WEFT_STACK_CACHE", STORED_INT, 1, 1, 1000000, WEFT__SIZED(1024, 1), NULL,
        false),
    ROW(ring_entries, "WEFT_RING_ENTRIES", STORED_INT, 1, 2, 32768, WEFT__SIZED(256, 4), NULL,
        true),
    ROW(submit_batch, "WEFT_SUBMIT_BATCH", STORED_INT, 1, 1, 32768, 32768, NULL, false),
    ROW(receive_buffer_bytes, "WEFT_RECV_KB", STORED_U64, 1024, 1, 1024, WEFT__SIZED(16, 1), NULL,
        true),
    ROW(receive_buffers, "WEFT_RECV_BUFFERS", STORED_INT, 1, 8, 32768, WEFT__SIZED(256, 8), NULL,
        true),
    ROW(blocking_threads, "WEFT_BLOCKING_THREADS", STORED_INT, 1, 1, 100000, 512, NULL, false),
    ROW(blocking_idle_ns, "WEFT_BLOCKING_IDLE_MS", STORED_U64, WEFT_MS, 0, 3600000, 10000, NULL,
        false),
    ROW(topology, "WEFT_TOPOLOGY", STORED_INT, 1, 0, 2, WEFT_TOPOLOGY_AUTO, topology_choices,
        false),
    ROW(cpus, "WEFT_CPUS", STORED_TEXT, 1, 0, 0, 0, NULL, false),
    ROW(stuck_ns, "WEFT_STUCK_MS", STORED_U64, WEFT_MS, 0, 3600000, 0, NULL, false),
    ROW(remedy, "WEFT_STUCK_REMEDY", STORED_INT, 1, 1, 2, WEFT_REMEDY_OFF, remedy_choices, false),
    ROW(steal, "WEFT_STEAL", STORED_INT, 1, 1, 2, WEFT_STEAL_OFF, switch_choices, false),
    ROW(steal_scope, "WEFT_STEAL_SCOPE", STORED_INT, 1, 1, 2, WEFT_STEAL_GLOBAL, scope_choices,
        false),
    ROW(poller, "WEFT_POLLER", STORED_INT, 1, 1, 3, WEFT_POLLER_CARRIER, poller_choices, false),
    ROW(poller_threads, "WEFT_POLLER_THREADS", STORED_INT, 1, 1, MOST_CARRIERS, 1, NULL, false),
    ROW(log_level, "WEFT_LOG", STORED_INT, 1, 1, 4, WEFT_LOG_WARN, log_choices, false),
};
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "stack_size_bytes is stored as 64 bits");

static uint64_t load(const struct weft_options *options, const struct row *row)
{
    const char *at = (const char *)options + row->offset;
    int small;
    uint64_t large;
    if (row->storage == STORED_INT) {
        memcpy(&small, at, sizeof small);
        return (uint64_t)(int64_t)small;
    }
    memcpy(&large, at, sizeof large);
    return large;
}

static void store(struct weft_options *options, const struct row *row, uint64_t value)
{
    char *at = (char *)options + row->offset;
    int small = (int)value;
    if (row->storage == STORED_INT) {
        memcpy(at, &small, sizeof small);
    } else {
        memcpy(at, &value, sizeof value);
    }
}

/// "1..1024", "128..1048576, a power of two", "auto, uring or epoll".
static void describe(const struct row *row, char *text, size_t size)
{
    if (row->choices == NULL) {
        (void)snprintf(text, size, "a whole number, %" PRIu64 "..%" PRIu64 "%s", row->low,
                       row->high, row->power_of_two ? ", a power of two" : "");
        return;
    }
    size_t used = (size_t)snprintf(text, size, "one of");
    for (uint64_t i = row->low; row->choices[i] != NULL && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s %s", i > row->low ? "," : "",
                                 row->choices[i]);
    }
}

static bool parse(const struct row *row, const char *text, uint64_t *value)
{
    if (row->choices != NULL) {
        for (uint64_t i = row->low; row->choices[i] != NULL; i++) {
            if (strcmp(text, row->choices[i]) == 0) {
                *value = i;
                return true;
            }
        }
        return false;
    }
    if (text[0] < '0' || text[0] > '9') {
        return false; // strtoull takes signs and spaces
    }
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool in_range(const struct row *row, uint64_t value)
{
    return value >= row->low && value <= row->high &&
           (!row->power_of_two || (value & (value - 1)) == 0);
}

static int from_environment(struct weft_options *options, const struct row *row,
                            const struct weft__log *log, const char *text)
{
    uint64_t value;
    char allowed[128];
    if (!parse(row, text, &value) || !in_range(row, value)) {
        describe(row, allowed, sizeof allowed);
        weft__log(log, WEFT_LOG_ERROR, "options", "%s=\"%.64s\" is not allowed: it must be %s",
                  row->variable, text, allowed);
        return -EINVAL;
    }
    store(options, row, value * row->unit);
    return 0;
}

/// The program's own values may be finer than the variable's unit: 1 ns of grace is fine, and so is
/// an endless one.
static int check_given(const struct weft_options *options, const struct row *row,
                       const struct weft__log *log)
{
    uint64_t value = load(options, row);
    uint64_t low = row->unit == 1 || row->power_of_two ? row->low * row->unit : 1;
    uint64_t high = row->high * row->unit;
    bool endless = value == WEFT_FOREVER && row->unit == WEFT_MS;
    bool fits = value >= low && value <= high && (!row->power_of_two || (value & (value - 1)) == 0);
    if (fits || endless) {
        return 0;
    }
    char allowed[128];
    if (row->choices != NULL) {
        describe(row, allowed, sizeof allowed);
    } else {
        (void)snprintf(allowed, sizeof allowed, "%" PRIu64 "..%" PRIu64 "%s", low, high,
                       row->power_of_two ? " and a power of two" : "");
    }
    weft__log(log, WEFT_LOG_ERROR, "options",
              "weft_options.%s (%s) = %" PRId64 " is not allowed: it must be %s", row->field,
              row->variable, (int64_t)value, allowed);
    return -EINVAL;
}

/// What a text has to look like is checked by those who use it.
static void resolve_text(struct weft_options *options, const struct row *row)
{
    char *at = (char *)options + row->offset;
    const char *text;
    memcpy(&text, at, sizeof text);
    if (text == NULL) {
        text = getenv(row->variable);
        text = text != NULL && text[0] != '\0' ? text : NULL;
        memcpy(at, &text, sizeof text);
    }
}

static int resolve_row(struct weft_options *options, const struct row *row,
                       const struct weft__log *log)
{
    if (row->storage == STORED_TEXT) {
        resolve_text(options, row);
        return 0;
    }
    if (load(options, row) != 0) {
        return check_given(options, row, log);
    }
    const char *text = getenv(row->variable);
    if (text != NULL && text[0] != '\0') {
        return from_environment(options, row, log, text);
    }
    store(options, row, row->fallback * row->unit);
    return 0;
}

static int check_hooks(const struct weft_options *options, const struct weft__log *log)
{
    const struct weft_allocator *allocator = options->allocator;
    const struct weft_stack_provider *provider = options->stack_provider;
    if (allocator != NULL && (allocator->alloc == NULL || allocator->free == NULL)) {
        weft__log(log, WEFT_LOG_ERROR, "options", "weft_options.allocator needs alloc and free");
        return -EINVAL;
    }
    if (provider != NULL && (provider->map == NULL || provider->unmap == NULL)) {
        weft__log(log, WEFT_LOG_ERROR, "options",
                  "weft_options.stack_provider needs map and unmap");
        return -EINVAL;
    }
    return 0;
}

/// How many carriers there are by default: one for each CPU of the map.
static int check_map(struct weft_options *options, const struct weft__log *log, bool given)
{
    struct weft__topology topology;
    int rc = weft__topology_parse(&topology, options->allocator, options->cpus, NULL);
    if (rc == -EINVAL) {
        weft__log(log, WEFT_LOG_ERROR, "options", "%s\"%.64s\" is not allowed: %s",
                  given ? "weft_options.cpus (WEFT_CPUS) = " : "WEFT_CPUS=", options->cpus,
                  topology.note);
    }
    if (rc < 0) {
        return rc;
    }
    if (options->carriers == DEFAULT_CARRIERS && options->topology != WEFT_TOPOLOGY_OFF) {
        int most = options->max_carriers != 0 ? options->max_carriers : MOST_CARRIERS;
        options->carriers = topology.count < most ? topology.count : most;
    }
    weft__topology_fini(&topology);
    return 0;
}

/// Names that are not weft's own are looked up later (scheduler_api.c).
static int resolve_policy(struct weft_options *options, const struct weft__log *log)
{
    const char *name = getenv("WEFT_SCHED");
    if (options->policy == WEFT_POLICY_DEFAULT) {
        bool stealing = name != NULL && strcmp(name, "stealing") == 0;
        options->policy = stealing ? WEFT_POLICY_STEALING : WEFT_POLICY_LOCALITY;
    }
    if (options->policy == WEFT_POLICY_LOCALITY || options->policy == WEFT_POLICY_STEALING) {
        return 0;
    }
    weft__log(log, WEFT_LOG_ERROR, "options",
              "weft_options.policy = %d is not allowed: it must be 0..%d", (int)options->policy,
              (int)WEFT_POLICY_STEALING);
    return -EINVAL;
}

/// Carriers for the CPUs that may be used now, and room for as many as there are CPUs: quotas change.
/// Where carriers have seats these are taken along the clusters, so by default there is none to spare.
static int resolve_carriers(struct weft_options *options, const struct weft__log *log)
{
    bool seated = options->cpus != NULL || options->topology == WEFT_TOPOLOGY_ON;
    int most = options->max_carriers;
    if (options->carriers == DEFAULT_CARRIERS) {
        int usable = weft__cpus_usable("");
        options->carriers = most != 0 && most < usable ? most : usable;
    }
    if (most == 0) {
        struct weft__cpu_set allowed;
        (void)weft__cpus_allowed(&allowed);
        most = seated ? 0 : weft__cpu_set_count(&allowed);
        most = most < MOST_CARRIERS ? most : MOST_CARRIERS;
        options->max_carriers = most > options->carriers ? most : options->carriers;
    } else if (most < options->carriers) {
        weft__log(log, WEFT_LOG_ERROR, "options",
                  "weft_options.max_carriers (WEFT_MAX_CARRIERS) = %d is not allowed: there are %d "
                  "carriers to begin with",
                  most, options->carriers);
        return -EINVAL;
    }
    return 0;
}

const char *weft__options_variable(size_t index)
{
    size_t count = WEFT__ARRAY_LEN(rows);
    return index < count ? rows[index].variable : index == count ? "WEFT_SCHED" : NULL;
}

bool weft__options_describe(size_t index, struct weft__option_text *text)
{
    if (index >= WEFT__ARRAY_LEN(rows)) {
        return false;
    }
    const struct row *row = &rows[index];
    static const char *const lead[] = { "a whole number, ", "one of " };
    char allowed[128];
    text->field = row->field;
    text->variable = row->variable;
    text->offset = row->offset;
    text->size_bytes = row->storage == STORED_INT ? sizeof(int) : sizeof(uint64_t);
    describe(row, allowed, sizeof allowed);
    (void)snprintf(text->allowed, sizeof text->allowed, "%s",
                   allowed + strlen(lead[row->choices != NULL]));
    (void)snprintf(text->fallback, sizeof text->fallback, "%" PRIu64, row->fallback);
    if (row->choices != NULL) {
        (void)snprintf(text->fallback, sizeof text->fallback, "%s", row->choices[row->fallback]);
    } else if (row->storage == STORED_TEXT) {
        (void)snprintf(text->allowed, sizeof text->allowed, "text");
        (void)snprintf(text->fallback, sizeof text->fallback, "none");
    } else if (row->low > row->fallback) {
        (void)snprintf(text->fallback, sizeof text->fallback, "worked out");
    }
    return true;
}

void weft_options_init(struct weft_options *options)
{
    *options = (struct weft_options)WEFT_OPTIONS_INIT;
}

int weft__options_resolve(struct weft_options *resolved, struct weft__log *log,
                          const struct weft_options *options)
{
    *log = (struct weft__log){ .level = WEFT_LOG_WARN };
    weft_options_init(resolved);
    if (options != NULL && options->size != sizeof *options) {
        weft__log(log, WEFT_LOG_ERROR, "options",
                  "weft_options.size is %zu, not %zu: initialise with WEFT_OPTIONS_INIT",
                  options->size, sizeof *options);
        return -EINVAL;
    }
    if (options != NULL) {
        *resolved = *options;
        log->fn = options->log;
        log->ctx = options->log_ctx;
    }
    int rc = check_hooks(resolved, log);
    for (size_t i = 0; i < WEFT__ARRAY_LEN(rows) && rc == 0; i++) {
        rc = resolve_row(resolved, &rows[i], log);
    }
    if (rc == 0) {
        rc = resolve_policy(resolved, log);
    }
    if (rc == 0 && resolved->cpus != NULL) {
        rc = check_map(resolved, log, options != NULL && options->cpus != NULL);
    }
    if (rc == 0) {
        rc = resolve_carriers(resolved, log);
    }
    if (rc == 0 && resolved->remedy == WEFT_REMEDY_SPARE && resolved->stuck_ns == 0) {
        resolved->stuck_ns = REMEDY_STUCK_NS;
    }
    log->level = rc == 0 ? resolved->log_level : log->level;
    return rc;
}
