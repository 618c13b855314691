// hello.c - the smallest weft program: one virtual thread says where it runs.
#include <stdio.h>
#include <weft.h>

static int hello(void *arg)
{
    (void)arg;
    printf("hello from carrier %d of %d\n", weft_carrier_id(), weft_carrier_count());
    return 0;
}

int main(void)
{
    return weft_run(hello, NULL, NULL) < 0; // NULL: default options, then WEFT_* in the environment
}
