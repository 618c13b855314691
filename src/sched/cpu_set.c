// cpu_set.c - counting, walking and reading sets of CPUs.
#include "sched/cpu_set.h"

#define WORD_BITS ((int)(8 * sizeof(unsigned long)))

int weft__cpu_set_next(const struct weft__cpu_set *set, int from)
{
    int word = from / WORD_BITS;
    if (from >= WEFT__CPUS_MAX) {
        return -1;
    }
    unsigned long rest = set->words[word] & (~0UL << (from % WORD_BITS));
    while (rest == 0) {
        if (++word == (int)WEFT__ARRAY_LEN(set->words)) {
            return -1;
        }
        rest = set->words[word];
    }
    return word * WORD_BITS + __builtin_ctzl(rest);
}

int weft__cpu_set_count(const struct weft__cpu_set *set)
{
    int count = 0;
    for (size_t i = 0; i < WEFT__ARRAY_LEN(set->words); i++) {
        count += __builtin_popcountl(set->words[i]);
    }
    return count;
}

static bool read_number(const char **at, int *number)
{
    const char *digit = *at;
    *number = 0;
    while (*digit >= '0' && *digit <= '9' && *number < WEFT__CPUS_MAX) {
        *number = *number * 10 + (*digit++ - '0');
    }
    bool read = digit > *at && *number < WEFT__CPUS_MAX;
    *at = digit;
    return read;
}

bool weft__cpu_range(const char **at, int *first, int *last)
{
    if (!read_number(at, first)) {
        return false;
    }
    *last = *first;
    if (**at == '-') {
        ++*at;
        return read_number(at, last) && *last >= *first;
    }
    return true;
}

bool weft__cpu_set_parse(struct weft__cpu_set *set, const char *text)
{
    *set = (struct weft__cpu_set){ 0 };
    for (;;) {
        int first;
        int last;
        if (!weft__cpu_range(&text, &first, &last)) {
            return false;
        }
        for (int cpu = first; cpu <= last; cpu++) {
            weft__cpu_set_add(set, cpu);
        }
        if (*text != ',') {
            return *text == '\0' || *text == '\n';
        }
        text++;
    }
}
