// case.h - waiters for cases of a select (src/select): what is waited for at an object of this module.
#ifndef WEFT_SYNC_CASE_H
#define WEFT_SYNC_CASE_H

#include <weft/notify.h>
#include <weft/semaphore.h>
#include <weft/token.h>

#include "sync/queue.h"

void weft__token_case(struct weft__waiter *waiter, struct weft_token *token);
void weft__event_case(struct weft__waiter *waiter, struct weft_event *event);
void weft__notify_case(struct weft__waiter *waiter, struct weft_notify *notify);
void weft__semaphore_case(struct weft__waiter *waiter, struct weft_semaphore *semaphore,
                          uint64_t count);

#endif
