// text.h - putting a line together without stdio: in signal handlers, and where nothing may fail.
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include "base/base.h"

/// Text in the caller's storage, always ended by a zero byte. What does not fit is cut off.
struct weft__text {
    char *start;
    size_t length;
    size_t room; // of the storage, the zero byte included; at least 1
};

static inline void weft__text_init(struct weft__text *text, char *storage, size_t room)
{
    *text = (struct weft__text){ .start = storage, .room = room };
    storage[0] = '\0';
}

static inline void weft__text_add(struct weft__text *text, const char *words)
{
    while (*words != '\0' && text->length + 1 < text->room) {
        text->start[text->length++] = *words++;
    }
    text->start[text->length] = '\0';
}

static inline void weft__text_add_number(struct weft__text *text, uint64_t number)
{
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    weft__text_add(text, digits + at);
}

#endif
