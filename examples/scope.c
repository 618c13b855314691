// scope.c - children that cannot outlive their scope: all or nothing, a deadline, cleanup behind a
// shield, and the first of several answers.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

struct query {
    const char *name;
    weft_time takes_ns;
    int answer;
};

/// Gives a connection back, which takes a moment: the shield lets it finish although the thread
/// around it is cancelled. It has its own deadline, so it cannot hang either.
static int say_goodbye(const struct query *query)
{
    struct weft_scope shield;
    weft_scope_init(&shield, WEFT_SCOPE_ALL | WEFT_SCOPE_SHIELD, weft_after(50 * WEFT_MS));
    int rc = weft_sleep(2 * WEFT_MS);
    printf("  %s: said goodbye (%s)\n", query->name, rc == 0 ? "in peace" : "in a hurry");
    return weft_scope_join(&shield);
}

static int ask(void *arg)
{
    struct query *query = arg;
    int rc = weft_sleep(query->takes_ns);
    if (rc == -ECANCELED) {
        printf("  %s: cancelled\n", query->name);
        say_goodbye(query);
        return rc;
    }
    query->answer = 42;
    printf("  %s: answered\n", query->name);
    return rc;
}

/// Asks both and waits for both, but no longer than `deadline`.
static int ask_all(struct query *one, struct query *two, weft_time deadline)
{
    struct weft_scope scope;
    weft_scope_init(&scope, WEFT_SCOPE_ALL, deadline);
    weft_scope_spawn(&scope, ask, one); // a spawn that fails makes the join fail
    weft_scope_spawn(&scope, ask, two);
    return weft_scope_join(&scope);
}

static int ask_fastest(struct query *one, struct query *two)
{
    struct weft_scope scope;
    weft_scope_init(&scope, WEFT_SCOPE_FIRST, WEFT_FOREVER);
    weft_scope_spawn(&scope, ask, one);
    weft_scope_spawn(&scope, ask, two);
    return weft_scope_join(&scope);
}

static const char *outcome(int rc)
{
    if (rc == -ETIMEDOUT) {
        return "the deadline passed";
    }
    return rc == 0 ? "success" : strerror(-rc);
}

static int run(void *arg)
{
    (void)arg;
    struct query user = { "user", 5 * WEFT_MS, 0 };
    struct query posts = { "posts", 8 * WEFT_MS, 0 };
    struct query stuck = { "stuck", 3600 * WEFT_S, 0 };

    puts("both within 10 s:");
    int in_time = ask_all(&user, &posts, weft_after(10 * WEFT_S));
    printf("  join: %s\n", outcome(in_time));

    puts("one of them takes an hour, we have 30 ms:");
    int late = ask_all(&user, &stuck, weft_after(30 * WEFT_MS));
    printf("  join: %s\n", outcome(late));

    puts("whoever is first:");
    int first = ask_fastest(&stuck, &posts);
    printf("  join: %s\n", outcome(first));
    return in_time == 0 && late == -ETIMEDOUT && first == 0 ? 0 : -EPROTO;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
