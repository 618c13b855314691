// temp.h - a file that only a measurement needs, in a folder of its own.
#ifndef WEFT_BENCH_TEMP_H
#define WEFT_BENCH_TEMP_H

#include <stddef.h>

/// Makes a new folder where the system keeps such things, and writes down the path of a file in it,
/// which does not exist yet. 0 or a negative errno.
int temp_make(char *path, size_t size, const char *name);

/// Removes the file, if there is one, and its folder.
void temp_remove(const char *path);

#endif
