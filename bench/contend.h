// contend.h - weft-bench as its own child.
#ifndef WEFT_BENCH_CONTEND_H
#define WEFT_BENCH_CONTEND_H

/// Plays weft's or a floor's part in the benchmark `name`. Returns the exit code.
int contend(const char *name, const char *count);

/// Plays weft's or a floor's server, by the protocol of serve.h. Returns the exit code.
int contend_serve(const char *name, const char *mode, const char *address);

#endif
