// sim_buffers.c - the receive buffers of a simulated carrier: a table, and memory when it is needed.
#include <errno.h>

#include "base/alloc.h"
#include "runtime/sim_ops.h"
#include "sched/carrier.h"

int weft__sim_buffers_make(struct weft__sim_carrier *carrier)
{
    const struct weft_allocator *allocator = carrier->net->allocator;
    size_t count = carrier->buffer_count;
    if (carrier->buffers != NULL) {
        return 0;
    }
    struct weft__sim_buffer *buffers = weft__alloc(allocator, count * sizeof *buffers,
                                                   _Alignof(struct weft__sim_buffer));
    if (buffers == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        buffers[i].next_free = (uint16_t)(i + 1);
    }
    carrier->buffers = buffers;
    carrier->free_count = carrier->buffer_count;
    return 0;
}

void *weft__sim_buffer_take(struct weft__sim_carrier *carrier, uint16_t *number)
{
    if (carrier->free_count == 0) {
        weft__count(&carrier->counts.no_buffers);
        return NULL;
    }
    struct weft__sim_buffer *buffer = &carrier->buffers[carrier->free_buffer];
    if (buffer->memory == NULL) {
        buffer->memory = weft__alloc(carrier->net->allocator, carrier->buffer_bytes, 1);
    }
    if (buffer->memory == NULL) {
        carrier->net->error = -ENOMEM;
        return NULL;
    }
    *number = carrier->free_buffer;
    carrier->free_buffer = buffer->next_free;
    carrier->free_count--;
    return buffer->memory;
}

void weft__sim_buffer_give(struct weft__sim_carrier *carrier, uint16_t number)
{
    weft_assert(carrier->free_count < carrier->buffer_count);
    if (carrier->free_count == 0) {
        carrier->buffers_came_back = carrier->kicked = true;
    }
    carrier->buffers[number].next_free = carrier->free_buffer;
    carrier->free_buffer = number;
    carrier->free_count++;
}

void weft__sim_buffers_free(struct weft__sim_carrier *carrier)
{
    const struct weft_allocator *allocator = carrier->net->allocator;
    for (uint32_t i = 0; carrier->buffers != NULL && i < carrier->buffer_count; i++) {
        weft__free(allocator, carrier->buffers[i].memory, carrier->buffer_bytes);
    }
    weft__free(allocator, carrier->buffers, carrier->buffer_count * sizeof carrier->buffers[0]);
}
