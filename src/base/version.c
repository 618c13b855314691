// version.c - the version of the library.
#include <weft/base.h>

const char *weft_version(void)
{
    return WEFT_VERSION_STRING;
}
