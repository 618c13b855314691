// temp.c - see temp.h.
#include "temp.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int temp_make(char *path, size_t size, const char *name)
{
    const char *place = getenv("TMPDIR");
    place = place != NULL && place[0] != '\0' ? place : P_tmpdir;
    size_t used = (size_t)snprintf(path, size, "%s/weft-bench-XXXXXX", place);
    if (used + 1 + strlen(name) >= size) {
        return -ENAMETOOLONG;
    }
    if (mkdtemp(path) == NULL) {
        return -errno;
    }
    snprintf(path + used, size - used, "/%s", name);
    return 0;
}

void temp_remove(const char *path)
{
    char folder[PATH_MAX];
    unlink(path);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    rmdir(folder);
}
