// case.h - waiters for cases of a select (src/select): what is to be done at a channel.
#ifndef WEFT_CHAN_CASE_H
#define WEFT_CHAN_CASE_H

#include <weft/broadcast.h>
#include <weft/chan.h>
#include <weft/mailbox.h>
#include <weft/oneshot.h>
#include <weft/watch.h>

#include "sync/queue.h"

/// `item` is the address of the item.
void weft__chan_send_case(struct weft__waiter *waiter, weft_chan *chan, uint64_t item);
void weft__chan_recv_case(struct weft__waiter *waiter, weft_chan *chan, uint64_t item);
void weft__chan_reserve_case(struct weft__waiter *waiter, weft_chan *chan);

void weft__mailbox_recv_case(struct weft__waiter *waiter, weft_mailbox *mailbox, uint64_t item);
void weft__broadcast_recv_case(struct weft__waiter *waiter,
                               struct weft_broadcast_receiver *receiver, uint64_t item);
void weft__watch_wait_case(struct weft__waiter *waiter, weft_watch *watch, uint64_t seen);
void weft__oneshot_recv_case(struct weft__waiter *waiter, struct weft_oneshot *oneshot,
                             uint64_t value);
void weft__oneshot_closed_case(struct weft__waiter *waiter, struct weft_oneshot *oneshot);

#endif
