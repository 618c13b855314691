// suite_select.c - the rows of `select`.
#include "suite_rows.h"

static const struct contender ready_2[] = ONE("chan/select-ready-2");
static const struct contender ready_8[] = ONE("chan/select-ready-8");
static const struct contender of_2[] = ONE("chan/select-2");
static const struct contender of_8[] = ONE("chan/select-8");
static const struct contender of_2_two[] = TWO("chan/select-2");
static const struct contender of_8_two[] = TWO("chan/select-8");

const struct row suite_select_rows[] = {
    ROW("select", "select-ready-2", "receive from one of 2 channels that have items", ready_2,
        MILLION, 1),
    ROW("select", "select-ready-8", "receive from one of 8 channels that have items", ready_8,
        MILLION, 1),
    ROW("select", "select-2", "wait for an item on 2 channels, and answer", of_2, MILLION / 4, 1),
    ROW("select", "select-8", "wait for an item on 8 channels, and answer", of_8, MILLION / 4, 1),
    ROW("select", "select-2-2", "select-2, two CPUs", of_2_two, MILLION / 50, 2),
    ROW("select", "select-8-2", "select-8, two CPUs", of_8_two, MILLION / 50, 2),
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
