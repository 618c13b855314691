// chans.h - channels of numbers.
#ifndef WEFT_TEST_CHANS_H
#define WEFT_TEST_CHANS_H

#include "support/test.h"

#include <weft.h>

static inline weft_chan *make(size_t capacity)
{
    weft_chan *chan;
    CHECK_OK(weft_chan_create(&chan, sizeof(uint64_t), capacity));
    return chan;
}

static inline void put(weft_chan *chan, uint64_t item)
{
    CHECK_EQ(weft_chan_try_send(chan, &item), 0);
}

static inline uint64_t get(weft_chan *chan)
{
    uint64_t item = 0;
    CHECK_EQ(weft_chan_recv(&item, chan, WEFT_FOREVER), 0);
    return item;
}

#endif
