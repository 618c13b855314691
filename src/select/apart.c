// apart.c - beginning and ending what waits in no queue: joins and descriptors.
//
//   S8  They begin after the select stands in its queues, and are ended before it returns. One that
//       is ready when it begins commits the select by withdrawing it, unless somebody was faster.
//   S9  Whatever has happened on a descriptor when its op ends wins over a deadline (and over the
//       cancel of a future, which is how others make deadlines for it): so a deadline in the past
//       finds out what is ready.
#include <errno.h>

#include "select/select.h"

static bool is_apart(const struct weft__case *c)
{
    return c->kind == WEFT__CASE_JOIN || c->kind == WEFT__CASE_FD;
}

/// Begins one. Its result if it is ready, else WAITS, or -EAGAIN if it has to be begun later.
static int begin(struct weft__select *select, struct weft__case *c)
{
    if (c->kind == WEFT__CASE_FD) {
        c->result = -ECANCELED;
        return weft__case_fd_begin(select, c);
    }
    return weft__case_join_begin(select, c) ? WEFT__SYNC_WAITS : 0;
}

struct weft__case *weft__select_begin_apart(struct weft__select *select, bool *late)
{
    *late = false;
    if ((select->unlike & WEFT__CASES_APART) == 0) {
        return NULL;
    }
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = &select->cases[select->cases[i].order];
        if (!is_apart(c) || c->waits) {
            continue;
        }
        int rc = begin(select, c);
        if (rc == -EAGAIN) {
            *late = true;
        } else if (rc != WEFT__SYNC_WAITS) {
            c->result = rc;
            return weft__select_withdraw(select) ? c : NULL;
        }
    }
    return NULL;
}

void weft__select_end_apart(struct weft__select *select, const struct weft__case *chosen)
{
    if ((select->unlike & WEFT__CASES_APART) == 0) {
        return;
    }
    select->leaving = true;
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = &select->cases[i];
        if (!c->waits) {
            continue;
        }
        if (c->kind == WEFT__CASE_FD) {
            weft__case_fd_ask(select, c);
        } else if (c != chosen) {
            weft__case_join_end(c);
        }
    }
}

struct weft__case *weft__select_late(struct weft__select *select)
{
    if ((select->unlike & WEFT__CASES_FD) == 0) {
        return NULL;
    }
    for (uint32_t i = 0; i < select->count; i++) {
        struct weft__case *c = &select->cases[select->cases[i].order];
        if (c->kind == WEFT__CASE_FD && c->result != -ECANCELED) {
            return c;
        }
    }
    return NULL;
}
