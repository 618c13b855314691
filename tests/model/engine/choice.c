// choice.c - the vector of decisions that makes an execution repeatable.
//
// Every free decision of an execution (who runs, which store is read, where a store goes, whether
// a weak compare-and-swap fails) is one call of mc__choice(). Exhaustive mode walks the tree of
// decisions depth first: it repeats the last vector with its last digit that can still grow
// increased by one, and takes 0 for every decision after that.
//
// Decision 0 is always the tame one (the same thread goes on, the newest store is read), so the
// first execution is the sequential one and a printed vector is mostly zeros.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { MAX_CHOICES = 20000, MAX_ALTERNATIVES = 36 };

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static struct {
    uint8_t taken;
    uint8_t count;
} choices[MAX_CHOICES];
static int length, position;
static int repeated; // choices[0..repeated) were taken by the execution before, too
static enum mc__mode mode;
static uint64_t random_state;
static char text[MAX_CHOICES + 1];

static _Noreturn void give_up(const char *why)
{
    fprintf(stderr, "model checker: %s\n", why);
    exit(2);
}

void mc__choices_begin(enum mc__mode new_mode, uint64_t seed)
{
    mode = new_mode;
    random_state = mc__mix(seed, 0x5eed);
    if (mode != MC__REPLAY) {
        length = 0;
    }
    position = 0;
    repeated = 0;
}

void mc__choices_rewind(void)
{
    position = 0;
    if (mode == MC__RANDOM) {
        length = 0;
    }
}

bool mc__choices_advance(void)
{
    while (length > 0 && choices[length - 1].taken + 1 >= choices[length - 1].count) {
        length--;
    }
    if (length == 0) {
        return false;
    }
    choices[length - 1].taken++;
    repeated = length;
    return true;
}

bool mc__is_replaying(void)
{
    return mode == MC__REPLAY;
}

int mc__choices_made(void)
{
    return position;
}

int mc__choices_repeated(void)
{
    return repeated;
}

// The last of the repeated choices is the one that was advanced, so what follows it is new.
bool mc__choices_are_new(void)
{
    return mode == MC__EXHAUSTIVE && position >= repeated;
}

static int fresh_choice(int count)
{
    if (mode != MC__RANDOM) {
        return 0;
    }
    random_state += 0x9E3779B97F4A7C15u;
    return (int)(mc__mix(random_state, 1) % (unsigned)count);
}

int mc__choice(int count)
{
    if (count <= 1) {
        return 0;
    }
    if (count > MAX_ALTERNATIVES) {
        give_up("more alternatives at one point than a vector can spell");
    }
    if (position < length && choices[position].count == 0) {
        choices[position].count = (uint8_t)count; // from the command line, which has no counts
    }
    if (position < length) {
        if (choices[position].count != count || choices[position].taken >= count) {
            give_up("the execution did not repeat: setup must put back all that threads change");
        }
        return choices[position++].taken;
    }
    if (length == MAX_CHOICES) {
        give_up("more choices in one execution than a vector can hold");
    }
    choices[length].taken = (uint8_t)fresh_choice(count);
    choices[length].count = (uint8_t)count;
    length++;
    return choices[position++].taken;
}

bool mc__choices_parse(const char *vector)
{
    length = 0;
    for (const char *c = vector; *c != '\0'; c++) {
        const char *digit = strchr(digits, *c);
        if (digit == NULL || length == MAX_CHOICES) {
            return false;
        }
        choices[length].taken = (uint8_t)(digit - digits);
        choices[length].count = 0;
        length++;
    }
    return true;
}

// Zeros at the end need not be said: decisions past the end are zero.
const char *mc__choices_text(void)
{
    int end = length;
    while (end > 1 && choices[end - 1].taken == 0) {
        end--;
    }
    for (int i = 0; i < end; i++) {
        text[i] = digits[choices[i].taken];
    }
    text[end] = '\0';
    return end > 0 ? text : "0";
}
