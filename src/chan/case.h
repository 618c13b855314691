// case.h - waiters for cases of a select (src/select): what is to be done at a channel.
#ifndef WEFT_CHAN_CASE_H
#define WEFT_CHAN_CASE_H

#include <weft/chan.h>

#include "sync/queue.h"

/// `item` is the address of the item.
void weft__chan_send_case(struct weft__waiter *waiter, weft_chan *chan, uint64_t item);
void weft__chan_recv_case(struct weft__waiter *waiter, weft_chan *chan, uint64_t item);
void weft__chan_reserve_case(struct weft__waiter *waiter, weft_chan *chan);

#endif
