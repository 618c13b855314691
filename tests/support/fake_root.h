// fake_root.h - a made-up /proc and /sys in a folder of its own.
#ifndef WEFT_TEST_FAKE_ROOT_H
#define WEFT_TEST_FAKE_ROOT_H

#include "support/temp.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[256];

static inline void make_root(void)
{
    temp_folder(root, sizeof root);
}

static inline void write_file(const char *path, const char *text)
{
    char full[4096];
    int length = snprintf(full, sizeof full, "%s%s", root, path);
    CHECK(length > 0 && (size_t)length < sizeof full);
    for (char *at = strchr(full + strlen(root) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(full, 0700);
        *at = '/';
    }
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK_OK(fd);
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static inline void remove_root(void)
{
    char command[sizeof root + 16];
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK_EQ(system(command), 0);
}

#endif
