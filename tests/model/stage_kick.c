// stage_kick.c - see stage_kick.h.
#include "stage_kick.h"

#include "mc.h"
#include "sched/driver.h"

static const struct weft__driver *driver;
static void *driver_state;
static int kickers, kicks;
static bool polls;
static int bell; // its address is the event
static _Atomic int published[STAGE_KICKERS];

static void kick(void *arg)
{
    int number = (int)(intptr_t)arg;
    for (int i = 1; i <= kicks; i++) {
        atomic_store_explicit(&published[number], i, memory_order_relaxed);
        driver->kick(driver_state, NULL);
    }
}

static bool has_seen_all(void)
{
    for (int i = 0; i < kickers; i++) {
        if (atomic_load_explicit(&published[i], memory_order_relaxed) != kicks) {
            return false;
        }
    }
    return true;
}

static void own(void *unused)
{
    (void)unused;
    while (!has_seen_all()) {
        if (polls) {
            driver->poll(driver_state);
        }
        driver->wait(driver_state, WEFT_FOREVER);
    }
}

void stage_kick_init(const struct weft__driver *with, void *state, int kicker_count, int kick_count,
                     bool owner_polls)
{
    driver = with;
    driver_state = state;
    kickers = kicker_count;
    kicks = kick_count;
    polls = owner_polls;
    mc_name(published, sizeof published, "published");
    mc_name(&bell, sizeof bell, "bell");
    mc_thread(own, NULL);
    for (int i = 0; i < STAGE_KICKERS; i++) {
        atomic_init(&published[i], 0);
        if (i < kickers) {
            mc_thread(kick, (void *)(intptr_t)i);
        }
    }
}

void stage_bell_ring(void)
{
    mc_event_set(&bell);
}

bool stage_bell_wait(bool blocks)
{
    return (blocks ? mc_event_wait(&bell) : mc_event_wait_briefly(&bell)) == 1;
}
