// sim_net.c - slots, descriptors and events of the simulated network (sim_net.h, N1 and N2).

#include "runtime/sim_net.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/sim_ops.h"
#include "runtime/sim_stream.h"

#define DEFAULT_LATENCY_NS (20 * WEFT_US)
#define DEFAULT_JITTER_NS (20 * WEFT_US)
#define DEFAULT_CUT_NS (200 * WEFT_MS)
#define DEFAULT_BUFFER_BYTES (64 * 1024u)
#define DEFAULT_DESCRIPTORS 1000000u
/// Inside one machine a way takes up to so long.
#define LOCAL_DELAY_NS 2047

bool weft__sim_chance(struct weft__sim_net *net, uint32_t per_million)
{
    return per_million != 0 && weft__rng_below(&net->rng, 1000000) < per_million;
}

uint64_t weft__sim_upto(struct weft__sim_net *net, uint64_t most)
{
    uint64_t drawn = weft__rng_next(&net->rng);
    return most == UINT64_MAX ? drawn : drawn % (most + 1);
}

weft_time weft__sim_delay(struct weft__sim_net *net, int domain)
{
    if (domain == AF_UNIX) {
        return weft__sim_upto(net, LOCAL_DELAY_NS);
    }
    weft_time jitter = weft__sim_upto(net, net->options.jitter_ns);
    weft_time most = UINT64_MAX - jitter;
    return jitter + (net->options.latency_ns < most ? net->options.latency_ns : most);
}

/// The array with room for one more item, moved if need be. NULL: no memory, and it stays as it is.
static void *grown(struct weft__sim_net *net, void *array, size_t item_bytes, size_t count,
                   size_t *room)
{
    if (count < *room) {
        return array;
    }
    size_t more = *room == 0 ? 16 : 2 * *room;
    void *larger = weft__alloc(net->allocator, more * item_bytes, _Alignof(max_align_t));
    if (larger == NULL) {
        return NULL;
    }
    if (*room > 0) {
        memcpy(larger, array, *room * item_bytes);
    }
    weft__free(net->allocator, array, *room * item_bytes);
    *room = more;
    return larger;
}

// Sockets.

struct weft__sim_socket *weft__sim_at(const struct weft__sim_net *net, struct weft__sim_ref ref)
{
    if (ref.generation == 0 || net->slots[ref.slot].generation != ref.generation) {
        return NULL;
    }
    return net->slots[ref.slot].socket;
}

/// A free slot, or UINT32_MAX: no memory.
static uint32_t take_slot(struct weft__sim_net *net)
{
    if (net->free_slot == 0) {
        struct weft__sim_slot *slots = grown(net, net->slots, sizeof *slots, net->slot_count,
                                             &net->slot_room);
        if (slots == NULL) {
            return UINT32_MAX;
        }
        net->slots = slots;
        net->slots[net->slot_count] = (struct weft__sim_slot){ .generation = 1 };
        return net->slot_count++;
    }
    uint32_t slot = net->free_slot - 1;
    net->free_slot = net->slots[slot].next_free;
    return slot;
}

struct weft__sim_socket *weft__sim_socket_make(struct weft__sim_net *net, int domain, int type,
                                               int protocol)
{
    struct weft__sim_socket *socket = weft__alloc(net->allocator, sizeof *socket,
                                                  _Alignof(struct weft__sim_socket));
    if (socket == NULL) {
        return NULL;
    }
    uint32_t slot = take_slot(net);
    if (slot == UINT32_MAX) {
        weft__free(net->allocator, socket, sizeof *socket);
        return NULL;
    }
    net->slots[slot].socket = socket;
    socket->self = (struct weft__sim_ref){ slot, net->slots[slot].generation };
    socket->domain = domain;
    socket->type = type;
    socket->protocol = protocol;
    socket->send_bytes = socket->receive_bytes = net->options.buffer_bytes;
    socket->last = &socket->first;
    return socket;
}

static void forget_touched(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    struct weft__sim_socket **at = &net->touched_first;
    while (socket->touched && *at != socket) {
        at = &(*at)->touched_next;
    }
    if (socket->touched) {
        *at = socket->touched_next;
        net->touched_last = *at == NULL ? at : net->touched_last;
    }
}

static void free_socket(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    weft__free(net->allocator, socket->groups, WEFT__SIM_GROUPS * sizeof *socket->groups);
    weft__free(net->allocator, socket, sizeof *socket);
}

void weft__sim_socket_free(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    struct weft__sim_slot *slot = &net->slots[socket->self.slot];
    weft_assert(socket->readers == NULL && socket->writers == NULL && socket->pollers == NULL);
    forget_touched(net, socket);
    net->stuck -= socket->stuck;
    slot->socket = NULL;
    slot->generation += slot->generation == UINT32_MAX ? 2 : 1;
    slot->next_free = net->free_slot;
    net->free_slot = socket->self.slot + 1;
    while (socket->first != NULL) {
        struct weft__sim_chunk *chunk = socket->first;
        socket->first = chunk->next;
        weft__sim_chunk_free(net, chunk); // may free other sockets
    }
    free_socket(net, socket);
}

// Descriptors.

struct weft__sim_socket *weft__sim_of_fd(const struct weft__sim_net *net, int fd)
{
    uint32_t index = (uint32_t)fd - WEFT__SIM_FD;
    return fd >= WEFT__SIM_FD && index < net->descriptor_count
               ? weft__sim_at(net, net->descriptors[index])
               : NULL;
}

int weft__sim_bad_fd(int fd)
{
    return fd < 0 || fd >= WEFT__SIM_FD ? -EBADF : -ENOTSUP;
}

int weft__sim_fd_give(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    if (net->open_descriptors >= net->options.descriptors) {
        return -EMFILE;
    }
    uint32_t index = net->lowest_free;
    while (index < net->descriptor_count && net->descriptors[index].generation != 0) {
        index++;
    }
    if (index == net->descriptor_count) {
        struct weft__sim_ref *table = grown(net, net->descriptors, sizeof *table, index,
                                            &net->descriptor_room);
        if (table == NULL) {
            return -ENOMEM;
        }
        net->descriptors = table;
        net->descriptor_count++;
    }
    net->descriptors[index] = socket->self;
    net->lowest_free = index + 1;
    net->open_descriptors++;
    socket->holders++;
    return WEFT__SIM_FD + (int)index;
}

void weft__sim_fd_take(struct weft__sim_net *net, int fd)
{
    uint32_t index = (uint32_t)fd - WEFT__SIM_FD;
    net->descriptors[index] = (struct weft__sim_ref){ 0, 0 };
    net->open_descriptors--;
    net->lowest_free = index < net->lowest_free ? index : net->lowest_free;
}

// Chunks.

struct weft__sim_chunk *weft__sim_chunk_make(struct weft__sim_net *net, size_t size)
{
    struct weft__sim_chunk *chunk = weft__alloc(net->allocator, sizeof *chunk + size,
                                                _Alignof(struct weft__sim_chunk));
    if (chunk != NULL) {
        chunk->size = size;
    }
    return chunk;
}

static void free_chunk(struct weft__sim_net *net, struct weft__sim_chunk *chunk)
{
    weft__free(net->allocator, chunk->rights, chunk->rights_count * sizeof chunk->rights[0]);
    weft__free(net->allocator, chunk, sizeof *chunk + chunk->size);
}

void weft__sim_chunk_free(struct weft__sim_net *net, struct weft__sim_chunk *chunk)
{
    if (chunk == NULL) {
        return;
    }
    for (uint32_t i = 0; i < chunk->rights_count; i++) {
        struct weft__sim_socket *socket = weft__sim_at(net, chunk->rights[i]);
        if (socket != NULL) {
            weft__sim_socket_release(net, socket);
        }
    }
    free_chunk(net, chunk);
}

// Events.

struct weft__sim_event *weft__sim_event_make(struct weft__sim_net *net, uint8_t kind,
                                             struct weft__sim_ref to, struct weft__sim_ref from)
{
    struct weft__sim_event *event = weft__alloc(net->allocator, sizeof *event,
                                                _Alignof(struct weft__sim_event));
    if (event == NULL) {
        net->error = -ENOMEM;
        return NULL;
    }
    event->kind = kind;
    event->to = to;
    event->from = from;
    return event;
}

static void free_event(struct weft__sim_net *net, struct weft__sim_event *event)
{
    weft__free(net->allocator, event, sizeof *event);
}

static bool earlier(const struct weft__sim_event *a, const struct weft__sim_event *b)
{
    return a->when != b->when ? a->when < b->when : a->number < b->number;
}

void weft__sim_event_send(struct weft__sim_net *net, struct weft__sim_event *event, weft_time when)
{
    struct weft__sim_event **events = grown(net, net->events, sizeof(void *), net->event_count,
                                            &net->event_room);
    if (events == NULL) {
        net->error = -ENOMEM;
        weft__sim_chunk_free(net, event->chunk);
        free_event(net, event);
        return;
    }
    net->events = events;
    event->when = when;
    event->number = net->events_born++;
    size_t at = net->event_count++;
    while (at > 0 && earlier(event, net->events[(at - 1) / 2])) {
        net->events[at] = net->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    net->events[at] = event;
}

static struct weft__sim_event *pop_event(struct weft__sim_net *net)
{
    struct weft__sim_event *first = net->events[0];
    struct weft__sim_event *moved = net->events[--net->event_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < net->event_count && earlier(net->events[child + 1], net->events[child])) {
            child++;
        }
        if (child >= net->event_count || !earlier(net->events[child], moved)) {
            break;
        }
        net->events[at] = net->events[child];
        at = child;
    }
    net->events[at] = moved;
    return first;
}

weft_time weft__sim_net_next(const struct weft__sim_net *net)
{
    return net->event_count > 0 ? net->events[0]->when : WEFT_FOREVER;
}

static void arrive(struct weft__sim_net *net, struct weft__sim_event *event)
{
    weft__sim_note(net->clock, event->number << 8 | event->kind);
    switch (event->kind) {
    case WEFT__SIM_NOTIFY:
        event->op->result_flags = WEFT__OP_NOTIFY;
        weft__sim_end(net, event->op, 0);
        break;
    case WEFT__SIM_DATAGRAM:
    case WEFT__SIM_UNREACHED: weft__sim_datagram_arrives(net, event); break;
    default: weft__sim_stream_arrives(net, event); break;
    }
    weft__sim_chunk_free(net, event->chunk);
    free_event(net, event);
}

void weft__sim_net_arrive(struct weft__sim_net *net)
{
    while (net->event_count > 0 && net->events[0]->when <= net->clock->now) {
        arrive(net, pop_event(net));
        weft__sim_settle(net);
    }
}

// All of it.

static void set_default(uint32_t *option, uint32_t value)
{
    *option = *option != 0 ? *option : value;
}

static void set_default_time(weft_time *option, weft_time value)
{
    *option = *option != 0 ? *option : value;
}

void weft__sim_net_open(struct weft__sim_net *net, struct weft__sim_carrier *carriers, int count,
                        const struct weft__driver_config *config)
{
    struct weft_sim_net *options = &net->options;
    set_default_time(&options->latency_ns, DEFAULT_LATENCY_NS);
    set_default_time(&options->jitter_ns, DEFAULT_JITTER_NS);
    set_default_time(&options->cut_ns, DEFAULT_CUT_NS);
    set_default(&options->buffer_bytes, DEFAULT_BUFFER_BYTES);
    set_default(&options->descriptors, DEFAULT_DESCRIPTORS);
    net->allocator = config->allocator;
    net->carriers = carriers;
    net->touched_last = &net->touched_first;
    for (int i = 0; i < count; i++) {
        carriers[i].number = i;
        carriers[i].net = net;
        carriers[i].ready_last = &carriers[i].ready;
        carriers[i].buffer_bytes = config->buffer_bytes;
        carriers[i].buffer_count = config->buffers;
    }
    net->carrier_count = count;
}

static void drop_socket(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    while (socket->first != NULL) {
        struct weft__sim_chunk *chunk = socket->first;
        socket->first = chunk->next;
        free_chunk(net, chunk);
    }
    free_socket(net, socket);
}

void weft__sim_net_close(struct weft__sim_net *net)
{
    for (uint32_t i = 0; i < net->slot_count; i++) {
        if (net->slots[i].socket != NULL) {
            drop_socket(net, net->slots[i].socket);
        }
    }
    for (size_t i = 0; i < net->event_count; i++) {
        if (net->events[i]->chunk != NULL) {
            free_chunk(net, net->events[i]->chunk);
        }
        free_event(net, net->events[i]);
    }
    for (int i = 0; i < net->carrier_count; i++) {
        weft__sim_driver.close(&net->carriers[i]);
    }
    weft__free(net->allocator, net->events, net->event_room * sizeof(void *));
    weft__free(net->allocator, net->descriptors, net->descriptor_room * sizeof net->descriptors[0]);
    weft__free(net->allocator, net->slots, net->slot_room * sizeof net->slots[0]);
}
