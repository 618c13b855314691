// size_watch.c - the list of those who want to know which carriers come and go; see size_watch.h.
//
// Lock: crew.watching, alone. Checked by: tests/model/resize_model.c, tests/api/serve_resize_test.c.
#include "sched/size_watch.h"

#include "base/lock.h"

void weft__size_watch_add(struct weft__crew *crew, struct weft__size_watch *watch)
{
    weft__lock_acquire(&crew->watching);
    watch->next = crew->watches;
    watch->inside = 0;
    crew->watches = watch;
    weft__lock_release(&crew->watching);
}

bool weft__size_watch_remove(struct weft__crew *crew, struct weft__size_watch *watch)
{
    weft__lock_acquire(&crew->watching);
    bool idle = watch->inside == 0; // V2
    if (idle) {
        struct weft__size_watch **link = &crew->watches;
        while (*link != watch) {
            link = &(*link)->next;
        }
        *link = watch->next;
    }
    weft__lock_release(&crew->watching);
    return idle;
}

void weft__size_watches_tell(struct weft__carrier *carrier)
{
    struct weft__crew *crew = carrier->crew;
    weft__lock_acquire(&crew->watching);
    for (struct weft__size_watch *watch = crew->watches; watch != NULL; watch = watch->next) {
        watch->inside++;
        weft__lock_release(&crew->watching);
        watch->told(watch, carrier);
        weft__lock_acquire(&crew->watching);
        watch->inside--;
    }
    weft__lock_release(&crew->watching);
}
