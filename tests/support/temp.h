// temp.h - files and folders that only a test needs.
#ifndef WEFT_TEST_TEMP_H
#define WEFT_TEST_TEMP_H

#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/// Where the system keeps such things.
static inline const char *temp_place(void)
{
    const char *place = getenv("TMPDIR");
    return place != NULL && place[0] != '\0' ? place : P_tmpdir;
}

/// An empty file that has no name, on a file system.
static inline int temp_file(void)
{
    char name[256];
    int length = snprintf(name, sizeof name, "%s/weft-XXXXXX", temp_place());
    CHECK(length > 0 && (size_t)length < sizeof name);
    int fd = mkostemp(name, O_CLOEXEC);
    CHECK_OK(fd);
    CHECK_OK(unlink(name));
    return fd;
}

/// Makes a new folder, and writes down its name.
static inline void temp_folder(char *name, size_t size)
{
    int length = snprintf(name, size, "%s/weft-XXXXXX", temp_place());
    CHECK(length > 0 && (size_t)length < size);
    CHECK(mkdtemp(name) != NULL);
}

#endif
