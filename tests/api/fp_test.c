// fp_test.c - the floating-point environment belongs to the virtual thread.
#include "support/test.h"

#include <fenv.h>
#include <weft.h>

static volatile double one = 1.0;
static volatile double three = 3.0;

static const int modes[] = { FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO };
enum { MODES = 4 };

struct rounding {
    int mode;
    double third; // what 1/3 is in this mode
};

static int keep_rounding(void *arg)
{
    struct rounding *rounding = arg;
    CHECK_EQ(fegetround(), FE_TONEAREST); // a fresh environment, whatever the parent's is
    CHECK_EQ(fesetround(rounding->mode), 0);
    rounding->third = one / three;
    for (int i = 0; i < 20; i++) {
        CHECK_OK(i % 2 == 0 ? weft_yield() : weft_sleep(10 * WEFT_US));
        CHECK_EQ(fegetround(), rounding->mode);
        CHECK_EQ(one / three, rounding->third);
    }
    return 0;
}

TEST_EVERYWHERE(rounding_modes_do_not_leak_into_other_threads)
{
    struct rounding roundings[MODES * 2];
    weft_task *tasks[MODES * 2];
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    for (int i = 0; i < MODES * 2; i++) {
        roundings[i].mode = modes[i % MODES];
        CHECK_OK(weft_spawn(&tasks[i], keep_rounding, &roundings[i], NULL));
    }
    for (int i = 0; i < MODES * 2; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
        CHECK_EQ(fegetround(), FE_UPWARD);
    }
    CHECK_LT(roundings[1].third, roundings[2].third); // the modes did make a difference
    CHECK_EQ(fesetround(FE_TONEAREST), 0);
}

static int end_with_another_mode(void *arg)
{
    (void)arg;
    return fesetround(FE_DOWNWARD);
}

static void check_mode_in_timer(void *arg)
{
    *(int *)arg = fegetround();
}

TEST_EVERYWHERE(a_thread_that_ends_leaves_its_carrier_clean)
{
    weft_task *task;
    struct weft_timer timer;
    int mode = -1;
    CHECK_OK(weft_spawn(&task, end_with_another_mode, NULL, NULL));
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    CHECK_OK(weft_timer_init(&timer, check_mode_in_timer, &mode));
    CHECK_EQ(fesetround(FE_TOWARDZERO), 0);
    weft_timer_set(&timer, 1);
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_EQ(mode, FE_TONEAREST); // timer functions run on the carrier itself
    CHECK_EQ(fegetround(), FE_TOWARDZERO);
    CHECK_EQ(weft_timer_stop(&timer), 0);
}
