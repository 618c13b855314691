// load_report.c - the result of a load, as text or JSON.
#include "load_report.h"

static const double percentiles[] = { 50, 75, 90, 99, 99.9, 99.99, 100 };
#define PERCENTILES (sizeof percentiles / sizeof percentiles[0])

static double per_second(const struct load_result *result)
{
    return result->span_ns > 0 ? (double)result->requests * 1e9 / (double)result->span_ns : 0;
}

static void as_text(FILE *out, const struct load_plan *plan, const struct load_result *result)
{
    const struct hist *hist = &result->latency_ns;
    fprintf(out, "%s: %u connections, %zu bytes, ", plan->address.text, plan->connections,
            plan->size_bytes);
    if (plan->rate > 0) {
        fprintf(out, "open loop, %.0f requests/s wanted\n", plan->rate);
    } else {
        fprintf(out, "closed loop, %u in flight on each\n", plan->depth);
    }
    fprintf(out, "%llu requests in %.3f s: %.0f requests/s\n", (unsigned long long)result->requests,
            (double)result->span_ns / 1e9, per_second(result));
    fprintf(out, "latency, us: mean %.1f, min %.1f\n", hist_mean(hist) / 1e3,
            hist->count > 0 ? (double)hist->min / 1e3 : 0);
    for (unsigned i = 0; i < PERCENTILES; i++) {
        fprintf(out, "  p%-6g %12.1f\n", percentiles[i],
                (double)hist_percentile(hist, percentiles[i]) / 1e3);
    }
}

static void as_json(FILE *out, const struct load_plan *plan, const struct load_result *result)
{
    const struct hist *hist = &result->latency_ns;
    // An address has no character that JSON would want escaped but these two.
    fputs("{\"address\": \"", out);
    for (const char *c = plan->address.text; *c != '\0'; c++) {
        fprintf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    fprintf(out,
            "\", \"connections\": %u, \"depth\": %u, \"size_bytes\": %zu, \"rate\": %.3f,\n"
            " \"requests\": %llu, \"seconds\": %.6f, \"requests_per_s\": %.1f,\n"
            " \"latency_us\": {\"mean\": %.3f, \"min\": %.3f",
            plan->connections, plan->depth, plan->size_bytes, plan->rate,
            (unsigned long long)result->requests, (double)result->span_ns / 1e9, per_second(result),
            hist_mean(hist) / 1e3, hist->count > 0 ? (double)hist->min / 1e3 : 0);
    for (unsigned i = 0; i < PERCENTILES; i++) {
        fprintf(out, ", \"p%g\": %.3f", percentiles[i],
                (double)hist_percentile(hist, percentiles[i]) / 1e3);
    }
    fputs("}}\n", out);
}

void load_report(FILE *out, bool json, const struct load_plan *plan,
                 const struct load_result *result)
{
    if (json) {
        as_json(out, plan, result);
    } else {
        as_text(out, plan, result);
    }
}
