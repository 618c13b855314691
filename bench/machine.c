// machine.c - kernel, processor, compiler and versions of the peers.
#include "machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <weft.h>

static void cpu_model(char *out, size_t size)
{
    char line[512];
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (f == NULL) {
        return;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, "%s", colon + 2);
            break;
        }
    }
    fclose(f);
}

static void peer_versions(struct machine *out, const char *peers)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/versions", peers);
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return;
    }
    while (out->versions_used < MACHINE_VERSIONS_MAX &&
           fgets(out->versions[out->versions_used], sizeof out->versions[0], f) != NULL) {
        char *line = out->versions[out->versions_used++];
        line[strcspn(line, "\n")] = '\0';
    }
    fclose(f);
}

void machine_look(struct machine *out, const char *peers)
{
    memset(out, 0, sizeof *out);
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(out->kernel, sizeof out->kernel, "%s %s %s", name.sysname, name.release,
                 name.machine);
    }
    cpu_model(out->cpu, sizeof out->cpu);
#if defined(__clang__)
    snprintf(out->compiler, sizeof out->compiler, "clang %s", __clang_version__);
#else
    snprintf(out->compiler, sizeof out->compiler, "gcc %s", __VERSION__);
#endif
    snprintf(out->weft, sizeof out->weft, "%s", weft_version());
    out->cpus = get_nprocs();
    struct sysinfo info;
    if (sysinfo(&info) == 0) {
        out->memory_bytes = (unsigned long long)info.totalram * info.mem_unit;
        out->load_average = (double)info.loads[0] / (1 << SI_LOAD_SHIFT);
    }
    if (peers != NULL) {
        peer_versions(out, peers);
    }
}
