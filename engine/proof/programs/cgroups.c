/* Changing one's own limits, and what a sandbox is told about the host. */
#include "attack.h"

static void try_group(const char *folder) {
    char path[PATH_MAX];
    static const char *const files[] = {"cgroup.procs", "tasks", "memory.limit_in_bytes", "memory.max", "pids.max", "cgroup.subtree_control"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd >= 0) end(THROUGH, "through: opened %s for writing", path);
    }
    snprintf(path, sizeof path, "%s/hotcell-nested", folder);
    if (!mkdir(path, 0755)) {
        rmdir(path);
        end(THROUGH, "through: made %s", path);
    }
    fprintf(stderr, "%s: %s; ", folder, strerrorname_np(errno));
}
/* For each line of /proc/self/cgroup the folder below each place where cgroups are usually mounted. */
static void own_cgroup(void) {
    static char text[8192];
    if (slurp("/proc/self/cgroup", text, sizeof text) <= 0) end(MISSING, "no /proc/self/cgroup");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *controller = strchr(line, ':'), *path = controller ? strchr(controller + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        controller++;
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "/sys/fs/cgroup/%s%s", *controller ? controller : "unified", path);
        try_group(folder);
        snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", path);
        try_group(folder);
    }
    end(STOPPED, "stopped");
}
static void release_agent(void) {
    static const char *const files[] = {"/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/systemd/release_agent",
                                        "/sys/fs/cgroup/pids/release_agent"};
    for (int i = 0; i < 3; i++) attempt(open(files[i], O_WRONLY | O_CLOEXEC), files[i]);
    const char *at = home("cg");
    mkdir(at, 0700);
    attempt(mount("cgroup", at, "cgroup", 0, "memory"), "mount of a cgroup tree");
    all_stopped();
}
static void environment(void) {
    static const char *const allowed[] = {"PATH", "HOME", "LANG", "TMPDIR", "PWD", "SHLVL", "_", "USER", "LOGNAME"};
    for (char **e = environ; *e; e++) {
        size_t i = 0, count = sizeof allowed / sizeof *allowed;
        for (; i < count; i++) {
            size_t n = strlen(allowed[i]);
            if (!strncmp(*e, allowed[i], n) && (*e)[n] == '=') break;
        }
        if (i == count) end(THROUGH, "through: the environment has %s", *e);
    }
    end(STOPPED, "stopped: only allowed names");
}

const struct attack cgroup_attacks[] = {
    {"own_cgroup", own_cgroup},
    {"release_agent", release_agent},
    {"environment", environment},
    {NULL, NULL},
};
