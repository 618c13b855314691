// udp_echo.c - a UDP server that answers in batches, and a client that asks again when an answer is
// lost.
//
//     udp_echo                        both, for a thousand questions
//     udp_echo udp://127.0.0.1:7000   only the server, until it is interrupted; talk to it with
//                                     nc -u 127.0.0.1 7000
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

enum { BATCH = 16, ROOM = 2048, QUESTIONS = 1000 };

static const char *address = "udp://127.0.0.1:0";

/// Sends back whatever comes, to whoever sent it. What was received can be sent as it is.
static int echo(void *arg)
{
    weft_dgram *dgram = arg;
    static char data[BATCH][ROOM];
    struct weft_dgram_message messages[BATCH];
    for (int i = 0; i < BATCH; i++) {
        messages[i] = (struct weft_dgram_message){ .data = data[i], .room = ROOM };
    }
    for (;;) {
        int count = weft_dgram_recv_batch(dgram, messages, BATCH, WEFT_FOREVER);
        if (count < 0) {
            return count;
        }
        for (int i = 0; i < count; i++) {
            if (messages[i].size > ROOM) {
                messages[i].size = ROOM; // it was cut
            }
        }
        if (weft_dgram_send_batch(dgram, messages, (unsigned)count, WEFT_FOREVER) < count) {
            fputs("some answers could not be sent\n", stderr);
        }
    }
}

/// Asks until there is an answer: on a network either of the two may get lost.
static int ask(weft_dgram *dgram, int question)
{
    int answer;
    for (int tries = 0; tries < 5; tries++) {
        int rc = weft_dgram_send(dgram, &question, sizeof question, weft_after(WEFT_S));
        if (rc < 0) {
            return rc;
        }
        do { // late answers to earlier questions are passed over
            rc = (int)weft_dgram_recv(dgram, &answer, sizeof answer, NULL, weft_after(WEFT_S));
        } while (rc == sizeof answer && answer != question);
        if (rc != -ETIMEDOUT) {
            return rc < 0 ? rc : 0;
        }
    }
    return -ETIMEDOUT;
}

static int client(const char *server)
{
    weft_dgram *dgram;
    int rc = weft_dgram_dial(&dgram, server, NULL, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    weft_time start = weft_now();
    for (int i = 0; i < QUESTIONS && rc == 0; i++) {
        rc = ask(dgram, i);
    }
    if (rc == 0) {
        printf("%d answers, %d us each\n", QUESTIONS,
               (int)((weft_now() - start) / WEFT_US / QUESTIONS));
    }
    weft_dgram_close(dgram);
    return rc;
}

static int run(void *arg)
{
    const bool *only_serve = arg;
    weft_dgram *dgram;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    int rc = weft_dgram_bind(&dgram, address, NULL);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", address, strerror(-rc));
        return rc;
    }
    weft_dgram_local(dgram, &addr);
    weft_addr_format(&addr, text, sizeof text);
    printf("echoing on %s\n", text);
    fflush(stdout);

    struct weft_scope scope;
    rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    weft_scope_spawn(&scope, echo, dgram);
    if (!*only_serve) {
        rc = client(text);
        weft_scope_cancel(&scope);
    }
    int joined = weft_scope_join(&scope);
    weft_dgram_close(dgram);
    return *only_serve ? joined : rc;
}

int main(int argc, char **argv)
{
    bool only_serve = argc > 1;
    if (only_serve) {
        address = argv[1];
    }
    return weft_run(run, &only_serve, NULL) < 0;
}
