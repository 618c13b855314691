// load_report.h - the result of a load, as text or JSON.
#ifndef WEFT_BENCH_LOAD_REPORT_H
#define WEFT_BENCH_LOAD_REPORT_H

#include <stdio.h>

#include "load.h"

void load_report(FILE *out, bool json, const struct load_plan *plan,
                 const struct load_result *result);

#endif
