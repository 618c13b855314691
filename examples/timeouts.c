// timeouts.c - patterns of waiting no longer than one wants to: a deadline for a call, for several calls
// together, for a future; a second try when the first is slow; tries with growing pauses.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

/// A service that answers after a while.
struct request {
    const char *name;
    weft_time takes_ns;
    int answer;
};

static int serve(void *arg)
{
    const struct request *request = arg;
    int rc = weft_sleep(request->takes_ns);
    return rc < 0 ? rc : request->answer;
}

static void report(const char *pattern, int64_t rc)
{
    printf("%-28s %s\n", pattern, rc < 0 ? strerror((int)-rc) : "answered");
}

/// Every call that waits takes a deadline, and says -ETIMEDOUT when it has passed. The task itself goes
/// on; who does not want that cancels it.
static int one_call(void)
{
    struct request slow = { "slow", 3600 * WEFT_S, 1 };
    weft_task *task;
    int rc = weft_spawn(&task, serve, &slow, NULL);
    if (rc < 0) {
        return rc;
    }
    rc = weft_join(NULL, task, weft_after(5 * WEFT_MS));
    report("one call", rc);
    weft_task_cancel(task);
    (void)weft_join(NULL, task, WEFT_FOREVER);
    return rc == -ETIMEDOUT ? 0 : -EPROTO;
}

/// Deadlines are absolute: the same one for each of several calls is one for all of them together.
static int several_calls(void)
{
    weft_time deadline = weft_after(5 * WEFT_MS);
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, deadline);
    for (int i = 0; i < 100 && rc == 0; i++) {
        rc = weft_sleep(WEFT_MS); // inside the scope it is -ECANCELED when the time is up
    }
    int joined = weft_scope_join(&scope);
    report("several calls", joined);
    return joined == -ETIMEDOUT && rc == -ECANCELED ? 0 : -EPROTO;
}

/// A future that is late is cancelled, and has ended when the timeout has.
static int one_future(void)
{
    struct weft_sleep sleep;
    struct weft_timeout timeout;
    weft_sleep_init(&sleep, weft_after(3600 * WEFT_S));
    weft_timeout_init(&timeout, &sleep.future, weft_after(5 * WEFT_MS));
    int64_t rc = weft_await(&timeout.future, WEFT_FOREVER);
    report("a future", rc);
    return rc == -ETIMEDOUT && sleep.future.result == -ECANCELED ? 0 : -EPROTO;
}

/// Asks somebody else as well when the first takes longer than usual; the first answer counts.
static int hedge(void)
{
    struct request slow = { "first", 3600 * WEFT_S, 1 };
    struct request fast = { "second", WEFT_MS, 2 };
    weft_task *tasks[2] = { NULL, NULL };
    size_t index;
    int rc = weft_spawn(&tasks[0], serve, &slow, NULL);
    if (rc < 0) {
        return rc;
    }
    if (weft_join_any(&index, tasks, 1, weft_after(3 * WEFT_MS)) == -ETIMEDOUT) {
        rc = weft_spawn(&tasks[1], serve, &fast, NULL);
    }
    int answer = 0;
    int raced = weft_join_race(&index, &answer, tasks, 2, WEFT_FOREVER); // the loser is cancelled
    report("a second try in parallel", raced);
    return rc < 0 ? rc : raced == 0 && index == 1 && answer == 2 ? 0 : -EPROTO;
}

/// Tries again, with a pause that doubles, until the whole has taken too long.
static int retry(void)
{
    weft_time deadline = weft_after(3600 * WEFT_S);
    int rc = -EAGAIN;
    int tries = 0;
    for (weft_time pause_ns = WEFT_MS; rc == -EAGAIN; pause_ns *= 2) {
        weft_time next = weft_after(pause_ns);
        rc = ++tries < 4 ? -EAGAIN : 0; // the call, which is refused three times
        if (rc == -EAGAIN && next >= deadline) {
            rc = -ETIMEDOUT;
        } else if (rc == -EAGAIN && weft_sleep_until(next) < 0) {
            rc = -ECANCELED;
        }
    }
    report("again, with growing pauses", rc);
    return rc == 0 && tries == 4 ? 0 : -EPROTO;
}

static int run(void *arg)
{
    (void)arg;
    int (*const patterns[])(void) = { one_call, several_calls, one_future, hedge, retry };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        int rc = patterns[i]();
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
