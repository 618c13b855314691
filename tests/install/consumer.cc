// A program outside the tree, in C++.
#include <cstdio>
#include <string>
#include <weft.h>

int main(int argc, char **argv)
{
    std::string value;
    int rc = weft_run(
        [](void *arg) {
            *static_cast<std::string *>(arg) = "set";
            return 0;
        },
        &value, nullptr);
    if (argc != 2 || std::string(argv[1]) != weft_version() || rc != 0 || value != "set") {
        std::printf("version %s, result %d, value '%s'\n", weft_version(), rc, value.c_str());
        return 1;
    }
    return 0;
}
