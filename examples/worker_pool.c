// worker_pool.c - workers on all carriers that take jobs from one channel. Each job brings a oneshot
// along for its answer, so whoever asks waits for his own, as long as he likes, without allocating.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

#define WORKERS 4
#define JOBS 4

struct job {
    unsigned number; // how many primes are there up to this one?
    unsigned answer;
    struct weft_oneshot done;
};

static unsigned count_primes(unsigned up_to)
{
    unsigned primes = 0;
    for (unsigned n = 2; n <= up_to; n++) {
        unsigned divisor = 2;
        while (divisor * divisor <= n && n % divisor != 0) {
            divisor++;
        }
        primes += divisor * divisor > n;
        weft_checkpoint(); // lets others have a turn
    }
    return primes;
}

static int work(void *arg)
{
    weft_chan *jobs = arg;
    struct job *job;
    while (weft_chan_recv(&job, jobs, WEFT_FOREVER) == 0) {
        unsigned primes = count_primes(job->number);
        if (weft_oneshot_send(&job->done, &primes) < 0) {
            printf("  worker %d: nobody wants to know about %u\n", weft_carrier_id(), job->number);
        }
    }
    return 0;
}

static int submit(struct job *job, weft_chan *jobs, unsigned number)
{
    struct job *pointer = job;
    job->number = number;
    weft_oneshot_init(&job->done, &job->answer, sizeof job->answer);
    return weft_chan_send(jobs, &pointer, WEFT_FOREVER);
}

/// A job whose asker has no time: it gives up, and the worker learns that.
static int ask_in_a_hurry(struct job *job, weft_chan *jobs)
{
    int rc = submit(job, jobs, 200000);
    rc = rc < 0 ? rc : weft_oneshot_recv(NULL, &job->done, weft_after(WEFT_US));
    printf("  up to %u: %s\n", job->number, rc < 0 ? strerror(-rc) : "that was fast");
    weft_oneshot_close(&job->done);
    return rc == -ETIMEDOUT ? 0 : rc;
}

static int ask_all(struct job *all, weft_chan *jobs)
{
    static const unsigned numbers[JOBS] = { 10, 100, 1000, 10000 };
    static const unsigned expected[JOBS] = { 4, 25, 168, 1229 };
    int rc = 0;
    for (int i = 0; i < JOBS && rc == 0; i++) {
        rc = submit(&all[i], jobs, numbers[i]);
    }
    for (int i = 0; i < JOBS && rc == 0; i++) {
        rc = weft_oneshot_recv(NULL, &all[i].done, WEFT_FOREVER);
        printf("  up to %u: %u primes\n", all[i].number, all[i].answer);
        rc = rc == 0 && all[i].answer != expected[i] ? -EPROTO : rc;
    }
    return rc;
}

static int run(void *arg)
{
    struct job hurried, all[JOBS]; // until the workers have ended, whatever happens here
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct weft_scope scope;
    weft_chan *jobs;
    (void)arg;
    int rc = weft_chan_create(&jobs, sizeof(struct job *), 16);
    if (rc < 0) {
        return rc;
    }
    attr.place = WEFT_PLACE_SPREAD;
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < WORKERS; i++) {
        weft_scope_spawn(&scope, work, jobs);
    }
    rc = ask_in_a_hurry(&hurried, jobs);
    rc = rc < 0 ? rc : ask_all(all, jobs);
    weft_chan_close(jobs); // the workers finish what is left, and end
    int joined = weft_scope_join(&scope);
    (void)weft_chan_destroy(jobs);
    return rc < 0 ? rc : joined;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
