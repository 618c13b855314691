// A program outside the tree, in C.
#include <stdio.h>
#include <string.h>
#include <weft.h>

static int set(void *arg)
{
    *(int *)arg = 42;
    return 0;
}

int main(int argc, char **argv)
{
    int value = 0;
    int rc = weft_run(set, &value, NULL);
    if (argc != 2 || strcmp(weft_version(), argv[1]) != 0 || rc != 0 || value != 42) {
        printf("version %s, result %d, value %d\n", weft_version(), rc, value);
        return 1;
    }
    return 0;
}
