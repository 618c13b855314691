// engine.h - what the engine's files share. Models include mc.h only.
//
//   entry*.S   where model code enters: notes its registers, goes on to hooks.c and others
//   hooks.c    the __tsan_* functions that instrumented code calls
//   copies.c   memcpy, memmove, memset
//   memory.c   atomic operations: which store may be read, where a store may go
//   history.c  locations, their stores, views
//   shadow.c   plain accesses: races and dead memory
//   frames.c   stack frames and their death
//   sched.c    threads, who runs next, deadlock and livelock
//   world.c    futex, event, relax, alloc: the world around the code under test
//   choice.c   the vector of decisions that makes an execution repeatable
//   state.c    the hash of all that the rest of an execution depends on
//   visited.c  the states that were explored already
//   explore.c  runs a model's executions until all decisions were tried
//   trace.c    tells a failing execution step by step
//   main.c     command line and report
//
// Everything runs on one OS thread; nothing here is atomic.
#ifndef MC_ENGINE_H
#define MC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc.h"

enum {
    MC__THREADS = 6,
    MC__LOCATIONS = 64,   // atomic words in one execution
    MC__HISTORY = 512,    // stores to one of them
    MC__STORES = 8192,    // stores of one execution
    MC__WATCHED = 8,      // words that one spin loop reads
    MC__MAX_STEPS = 5000, // a model may ask for another limit
    MC__ALONE = -1,       // mc__me while setup or check runs
};

// What a thread, or a reader of a message, knows.
struct mc__view {
    uint32_t seen[MC__LOCATIONS]; // reads go no further back in this location's history
    uint16_t clock[MC__THREADS];  // what happened before, for races; SC fences add nothing here
};

// One store: a message that carries a view to whoever reads it with acquire.
struct mc__store {
    uint64_t value;
    uint32_t at;     // place in the location's modification order
    bool is_rmw;     // nothing may come between it and the store before it
    bool is_pending; // written by a plain access, which does not tell its value
    bool carries_view;
    struct mc__view view;
};

struct mc__location {
    char *address;
    uint8_t size;
    bool is_retired; // the memory has become something else
    uint16_t count;
    uint16_t order[MC__HISTORY]; // stores in modification order
};

// What entry_x86_64.S notes: the layout is known there.
struct mc__entry {
    uint64_t preserved[6]; // rbx, rbp, r12 to r15
    uint64_t rsp;
    uint64_t arguments[3];
};
extern struct mc__entry mc__entry;

// Where in the engine a thread waits for its turn.
enum mc__phase { MC__BEFORE_START, MC__AT_POINT, MC__IN_BLOCK, MC__IN_REST };

enum mc__status { MC__UNUSED, MC__READY, MC__SPINNING, MC__BLOCKED, MC__ENDED };

struct mc__thread {
    // Context, sched.c.
    void *stack_pointer;
    void (*fn)(void *);
    void *arg;

    // What it waits for.
    enum mc__status status;
    enum mc__phase phase;
    struct mc__entry entry;
    const void *blocked_on;
    const char *blocked_in;
    bool may_time_out; // while BLOCKED

    // Memory, memory.c.
    struct mc__view now;        // what it knows
    struct mc__view acquirable; // what an acquire fence would add
    struct mc__view released;   // what it knew at its last release fence
    bool has_acquirable, has_released;

    // Spin loops, world.c and sched.c. Masks are sets of threads.
    struct {
        uint8_t location;
        uint32_t at;
    } watched[MC__WATCHED];
    uint8_t watched_count;
    bool has_changed;       // one of them, itself: its next round finds another value
    uint8_t rests;          // how often it relaxed: 0, 1, or 2 for more
    uint8_t must_run_first; // fairness: these go before it spins again
    uint8_t ran_since;      // since its last mc_relax()
    uint8_t runnable_since; // without a break since then

    uint8_t spurious_left; // spurious failures it may still suffer in this execution
};

enum mc__outcome { MC__RUNNING, MC__FINISHED, MC__FAILED, MC__PRUNED };

extern struct mc__thread mc__threads[MC__THREADS];
extern int mc__thread_count;
extern int mc__me; // running thread, or MC__ALONE
extern struct mc__location mc__locations[MC__LOCATIONS];
extern int mc__location_count;
extern struct mc__store mc__stores[MC__STORES];
extern struct mc__view mc__sc; // only `seen`: what SC fences and accesses agreed on
extern bool mc__tracing;
extern bool mc__never_prune;
extern const void *mc__callers[MC__THREADS + 1]; // per thread, for traces

static inline struct mc__thread *mc__self(void)
{
    return &mc__threads[mc__me];
}

// The place in the model's code that an entry point was called from.
static inline void mc__called_from(const void *return_address)
{
    mc__callers[mc__me + 1] = return_address;
}

static inline uint64_t mc__mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b * 0x9E3779B97F4A7C15u)) + 0x632BE59BD9B4E019u;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
    x = (x ^ (x >> 29)) * 0xA0761D6478BD642Fu;
    return x ^ (x >> 32);
}

// sched.c
enum mc__outcome mc__run_execution(const struct mc_model *model, int bound);
void mc__sched_init(void);
void mc__tick(void);  // what the running thread does from here on is not yet released
void mc__point(void); // another thread may run here
void mc__rest(void);  // the caller is SPINNING
void mc__block(const void *on, const char *in);
bool mc__block_briefly(const void *on, const char *in); // false: its time was up
const char *mc__failure(void);
uint64_t mc__steps(void);

// history.c
void mc__history_reset(void);
struct mc__location *mc__locate(void *address, unsigned size);
struct mc__store *mc__insert(struct mc__location *where, int after);
void mc__plain_store(int location);
bool mc__can_insert(const struct mc__location *where, int after);
void mc__view_join(struct mc__view *into, const struct mc__view *from);
bool mc__view_within(const struct mc__view *smaller, const struct mc__view *bigger);
void mc__view_join_seen(struct mc__view *into, const struct mc__view *from);
void mc__fetch_pending(struct mc__location *where);

static inline struct mc__store *mc__store_at(const struct mc__location *where, int index)
{
    return &mc__stores[where->order[index]];
}

static inline int mc__location_index(const struct mc__location *where)
{
    return (int)(where - mc__locations);
}

// memory.c
enum mc__rmw_kind { MC__XCHG, MC__ADD, MC__SUB, MC__AND, MC__OR, MC__XOR, MC__NAND };
uint64_t mc__load(const volatile void *address, unsigned size, int order);
void mc__store(volatile void *address, unsigned size, uint64_t value, int order);
uint64_t mc__rmw(volatile void *address, unsigned size, uint64_t operand, int order,
                 enum mc__rmw_kind kind);
bool mc__cas(volatile void *address, unsigned size, void *expected, uint64_t desired, int success,
             int failure, bool is_weak);
void mc__fence(int order);
uint64_t mc__read_memory(const void *address, unsigned size);
uint64_t mc__kernel_load(const void *address, unsigned size, const struct mc__view *floor);

// shadow.c, the first two behind entry_x86_64.S
void mc__forbid(const void *start, size_t size_bytes);
void mc__allow(const void *start, size_t size_bytes);
void mc__shadow_reset(void);
void mc__plain(const volatile void *address, size_t size_bytes, bool is_write);
void mc__atomic_access(const void *address, unsigned size, bool is_write);
void mc__check_death(const void *start, size_t size_bytes);
uint64_t mc__shadow_hash(void);
uint8_t *mc__location_slots(const void *address); // per byte: location number + 1, or 0

// frames.c
void mc__frames_init(void);
void mc__frames_start(int thread);
char *mc__stack_top(int thread); // thread MC__THREADS: setup and check
int mc__stack_owner(const void *address);
void mc__frame_begins(uintptr_t bottom);
void mc__frame_ends(void);
void mc__check_frame(int owner, uintptr_t from, uintptr_t to);
bool mc__is_dead_frame(int owner, uintptr_t address);

// world.c, behind entry_x86_64.S
int mc__futex_wait(const void *word, uint32_t expected);
int mc__futex_wake(const void *word, int count);
void mc__event_set(const void *event);
int mc__event_wait(const void *event);
int mc__event_wait_briefly(const void *event);
void mc__relax(void);
void mc__free(void *block);

// world.c
void mc__world_reset(void);
uint64_t mc__world_hash(void);
void mc__world_views(void (*visit)(const struct mc__view *view));
bool mc__has_news(const struct mc__thread *thread);
bool mc__spurious(void);

// choice.c
enum mc__mode { MC__EXHAUSTIVE, MC__RANDOM, MC__REPLAY };
void mc__choices_begin(enum mc__mode mode, uint64_t seed);
void mc__choices_rewind(void);
bool mc__choices_advance(void);
bool mc__is_replaying(void);
int mc__choices_made(void);
int mc__choices_repeated(void);
bool mc__choices_are_new(void); // past the part that repeats the execution before
int mc__choice(int count);
bool mc__choices_parse(const char *text);
const char *mc__choices_text(void);

// state.c
void mc__state_reset(void);
void mc__state_note_choice(int choice); // made by setup
uint64_t mc__state_hash(bool voluntary);
uint64_t mc__view_hash(const struct mc__view *view);
extern uint8_t mc__rank[MC__THREADS][MC__MAX_STEPS + 2]; // Z2, up to each thread's clock
extern uint16_t mc__known_to_all[MC__THREADS];

// How an access at this time counts: 0 if all threads know of it.
static inline uint64_t mc__clock_rank(int thread, uint16_t clock)
{
    return clock <= mc__known_to_all[thread] ? 0 : 1u + mc__rank[thread][clock];
}

// visited.c
void mc__visited_clear(void);
bool mc__visited_before(uint64_t state, unsigned preemptions);
void mc__path_rewind(int choices);
void mc__path_add(uint64_t state, int choices);
bool mc__path_has(uint64_t state);

// explore.c
struct mc__request {
    enum mc__mode mode;
    int bound;
    uint64_t limit; // executions; 0: no limit
    uint64_t seed;
    bool never_prune; // to check the checker: must find the same with more executions
};
struct mc__result {
    bool has_failed, is_complete;
    int bound; // of the failing execution
    uint64_t executions, pruned, steps;
    double seconds;
    char failure[512];
};
void mc__explore(const struct mc_model *model, const struct mc__request *request,
                 struct mc__result *result);

// trace.c
void mc__trace_reset(void);
void mc__trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mc__trace_print(void);
const char *mc__address_text(const void *address);
const char *mc__value_text(uint64_t value);
const char *mc__order_text(int order);

#define MC__TRACE(...) (mc__tracing ? mc__trace(__VA_ARGS__) : (void)0)

#endif
