// token.c - a tree of cancellation tokens.
//
//   K1  One lock per tree, the root's, protects all links and queues in it. Cancelling a token walks
//       what is below it under that lock, without recursion: trees may be deep.
//   K2  If a token is cancelled, so is everything below it. So a walk does not enter what it finds
//       cancelled.
//   K3  A parent outlives its children (fini says -EBUSY), so the root's lock is there as long as
//       anybody in the tree.
//
// Rejected: a lock per token (a cancel would have to hold a chain of them, and a child that ends
// while its parent is walked would need both).
// Lock: the root's token.lock. Checked by: tests/api/token_test.c.
#include <weft/token.h>

#include <errno.h>

#include "sync/case.h"
#include "sync/waiter.h"

struct token {
    _Atomic uint32_t cancelled; // set under lock
    struct weft__lock lock;     // a root's
    struct token *parent;       // fixed; NULL: a root
    struct token *root;         // fixed; NULL: itself
    // Under the root's lock.
    struct token *child;
    struct token *next;
    struct token **link; // what points to it
    struct weft__queue queue;
};
_Static_assert(sizeof(struct token) <= sizeof(struct weft_token), "public size");

static struct token *of(struct weft_token *token)
{
    return (struct token *)(void *)token;
}

static struct weft__lock *lock_of(struct token *token)
{
    return token->root != NULL ? &token->root->lock : &token->lock;
}

static bool is_cancelled(const struct token *token)
{
    return atomic_load_explicit(&token->cancelled, memory_order_acquire) != 0;
}

void weft_token_init(struct weft_token *public_token, struct weft_token *public_parent)
{
    struct token *token = of(public_token);
    *token = (struct token){ 0 };
    if (public_parent == NULL) {
        return;
    }
    struct token *parent = of(public_parent);
    token->parent = parent;
    token->root = parent->root != NULL ? parent->root : parent;
    weft__lock_acquire(lock_of(token));
    atomic_init(&token->cancelled, is_cancelled(parent)); // K2
    token->next = parent->child;
    token->link = &parent->child;
    if (token->next != NULL) {
        token->next->link = &token->next;
    }
    parent->child = token;
    weft__lock_release(lock_of(token));
}

int weft_token_fini(struct weft_token *public_token)
{
    struct token *token = of(public_token);
    struct weft__lock *lock = lock_of(token);
    weft__lock_acquire(lock);
    bool deserted = token->child == NULL && token->queue.first == NULL;
    if (deserted && token->parent != NULL) {
        *token->link = token->next;
        if (token->next != NULL) {
            token->next->link = token->link;
        }
    }
    weft__lock_release(lock);
    return deserted ? 0 : -EBUSY;
}

bool weft_token_is_cancelled(const struct weft_token *token)
{
    return is_cancelled((const struct token *)(const void *)token);
}

/// Cancels one token; false if it was cancelled before. Under lock.
static bool cancel_one(struct token *token, struct weft__batch *batch)
{
    if (is_cancelled(token)) {
        return false;
    }
    atomic_store_explicit(&token->cancelled, 1, memory_order_release);
    weft__queue_choose_all(&token->queue, 0, batch);
    return true;
}

/// The token after this one in a walk below `top`, or NULL. `enter`: its children first.
static struct token *following(struct token *token, const struct token *top, bool enter)
{
    if (enter && token->child != NULL) {
        return token->child;
    }
    while (token != top) {
        if (token->next != NULL) {
            return token->next;
        }
        token = token->parent;
    }
    return NULL;
}

void weft_token_cancel(struct weft_token *public_token)
{
    struct token *top = of(public_token);
    struct weft__batch batch;
    weft__batch_init(&batch);
    // Also if it is cancelled already: whoever does that may not be through with those below.
    weft__lock_acquire(lock_of(top));
    for (struct token *token = top; token != NULL;) {
        bool fresh = cancel_one(token, &batch);
        token = following(token, top, fresh);
    }
    weft__lock_release(lock_of(top));
    weft__batch_finish(&batch);
}

static int attempt(struct weft__waiter *waiter)
{
    return is_cancelled(waiter->object) ? 0 : WEFT__SYNC_WAITS;
}

static int check(struct weft__waiter *waiter, struct weft__batch *batch)
{
    (void)batch;
    return attempt(waiter);
}

static int enlist(struct weft__waiter *waiter)
{
    struct token *token = waiter->object;
    weft__queue_push(&token->queue, waiter);
    return WEFT__SYNC_WAITS;
}

static void unlist(struct weft__waiter *waiter, struct weft__batch *batch)
{
    struct token *token = waiter->object;
    (void)batch;
    (void)weft__queue_remove(&token->queue, waiter);
}

static const struct weft__sync_ops wait_ops = {
    .what = "token",
    .mode = WEFT__WAIT_WITHDRAW,
    .attempt = attempt,
    .enter = weft__waiter_enter,
    .leave = weft__waiter_leave,
    .undo = NULL, // it stays cancelled for everybody
    .check = check,
    .enlist = enlist,
    .unlist = unlist,
};

int weft_token_wait(struct weft_token *public_token, weft_time deadline)
{
    struct token *token = of(public_token);
    struct weft__waiter waiter;
    struct weft__task *self;
    int rc = weft__sync_begin(&self);
    if (rc < 0 || is_cancelled(token)) {
        return rc;
    }
    weft__waiter_init(&waiter, &wait_ops, token, lock_of(token));
    return weft__sync_wait(&waiter, self, deadline);
}

void weft_token_wait_future(struct weft_sync_future *future, struct weft_token *token)
{
    (void)weft__sync_future_init(future, &wait_ops, of(token), lock_of(of(token)));
}

void weft__token_case(struct weft__waiter *waiter, struct weft_token *token)
{
    weft__waiter_init(waiter, &wait_ops, of(token), lock_of(of(token)));
}
