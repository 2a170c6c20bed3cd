/* Namespaces and mounts: making new ones, entering others', changing what is mounted. */
#include "attack.h"
#include <linux/mount.h>
#include <linux/sched.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static int write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = write(fd, text, strlen(text));
    int e = errno;
    close(fd);
    errno = e;
    return n < 0 ? -1 : 0;
}
/* A private copy of the mounts first, so that a success outside of any sandbox changes nothing for others. The second
 * form becomes root of a new user namespace, as an ordinary user would. */
static int try_own_mounts(int with_user) {
    if (unshare((with_user ? CLONE_NEWUSER : 0) | CLONE_NEWNS)) return -1;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}
/* The command behind `--` with a private copy of the mounts. */
static void own_mounts(void) {
    if (try_own_mounts(0)) end(MISSING, "no mounts of its own: %s", strerrorname_np(errno));
    char **command = rest();
    execv(command[0], command);
    end(MISSING, "%s: %s", command[0], strerrorname_np(errno));
}
static int both_ways(int (*f)(void), const char *what) {
    pid_t child = fork();
    if (child == 0) _exit(f());
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == THROUGH) end(THROUGH, "through: %s", what);
    child = fork();
    if (child == 0) {
        if (try_own_mounts(1)) {
            fprintf(stderr, "unshare(NEWUSER|NEWNS): %s; ", strerrorname_np(errno));
            _exit(STOPPED);
        }
        _exit(f());
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == THROUGH) end(THROUGH, "through: %s in a new user namespace", what);
    return WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
}
static int note(int failed, const char *what) {
    if (!failed) return 1;
    fprintf(stderr, "%s: %s; ", what, strerrorname_np(errno));
    return 0;
}
static int mount_file_systems(void) {
    const char *at = home("mnt");
    mkdir(at, 0700);
    if (note(mount("proc", at, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc")) return THROUGH;
    if (note(mount("sysfs", at, "sysfs", MS_RDONLY, NULL), "sysfs")) return THROUGH;
    if (note(mount("cgroup2", at, "cgroup2", 0, NULL), "cgroup2")) return THROUGH;
    if (note(mount("cgroup", at, "cgroup", 0, "memory"), "cgroup")) return THROUGH;
    if (note(mount("tmpfs", at, "tmpfs", 0, "size=4k"), "tmpfs")) return THROUGH;
    return STOPPED;
}
static void fresh_mounts(void) {
    int code = both_ways(mount_file_systems, "mounted a file system");
    end(code, "stopped");
}
static int mount_calls(void) {
    const char *at = home("mnt");
    mkdir(at, 0700);
    if (note(mount(at, at, NULL, MS_BIND, NULL), "mount")) return THROUGH;
    if (note(syscall(SYS_open_tree, AT_FDCWD, at, 1 /* clone */ | O_CLOEXEC) < 0, "open_tree")) return THROUGH;
    if (note(syscall(SYS_fsopen, "tmpfs", 0) < 0, "fsopen")) return THROUGH;
    struct {
        uint64_t set, clear, propagation, userns;
    } attributes = {0};
    /* Nothing to change: only the permission is asked for. */
    if (note(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attributes, sizeof attributes) < 0, "mount_setattr")) return THROUGH;
    if (note(syscall(SYS_move_mount, AT_FDCWD, at, AT_FDCWD, at, 0) < 0 && errno != EINVAL, "move_mount")) return THROUGH;
    if (note(umount2(at, UMOUNT_NOFOLLOW) < 0 && errno != EINVAL, "umount2")) return THROUGH;
    if (note(syscall(SYS_pivot_root, at, at) < 0 && errno != EINVAL && errno != EBUSY, "pivot_root")) return THROUGH;
    if (note(chroot(at) < 0, "chroot")) return THROUGH;
    return STOPPED;
}
static void mount_family(void) {
    int code = both_ways(mount_calls, "a call of the mount family");
    end(code, "stopped");
}
static int loosen_mounts(void) {
    try_own_mounts(0);
    if (note(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) && mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL),
             "remount for writing"))
        return THROUGH;
    if (note(mount("/proc/self/status", "/proc/version", NULL, MS_BIND, NULL), "bind over a file of /proc")) return THROUGH;
    return STOPPED;
}
static void remount(void) {
    int code = both_ways(loosen_mounts, "remounted");
    end(code, "stopped");
}
static int remove_mask(void) {
    try_own_mounts(0);
    const char *masks[] = {"/proc/kcore", "/proc/sys", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list"};
    for (int i = 0; i < 5; i++)
        /* "Not a mount point" is an answer given only to those who may unmount. */
        if (note(umount2(masks[i], MNT_DETACH) && errno != EINVAL, masks[i])) return THROUGH;
    return STOPPED;
}
static void unmount_mask(void) {
    int status = in_child(remove_mask);
    if (status == THROUGH) end(THROUGH, "through: unmounting was permitted");
    end(status, "stopped");
}
static const struct {
    int flag;
    const char *name;
} kinds[] = {{CLONE_NEWUSER, "user"},     {CLONE_NEWNS, "mnt"},   {CLONE_NEWPID, "pid"},   {CLONE_NEWNET, "net"},
             {CLONE_NEWIPC, "ipc"},       {CLONE_NEWUTS, "uts"},  {CLONE_NEWTIME, "time"}, {CLONE_NEWCGROUP, "cgroup"}};
static int chosen;
static int unshare_chosen(void) {
    if (!unshare(chosen)) return THROUGH;
    fprintf(stderr, "%s; ", strerrorname_np(errno));
    return STOPPED;
}
static void unshare_each(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        chosen = kinds[i].flag;
        int code = in_child(unshare_chosen);
        if (code == THROUGH) end(THROUGH, "through: unshare of a %s namespace", kinds[i].name);
        if (code != STOPPED) end(BROKEN, "unshare %s: %d", kinds[i].name, code);
    }
    end(STOPPED, "stopped: unshare of all kinds");
}
static void clone_each(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].flag == CLONE_NEWTIME) continue; /* shares its bit with the exit signal of clone */
        long child = syscall(SYS_clone, (unsigned long)kinds[i].flag | SIGCHLD, 0, 0, 0, 0);
        if (child == 0) _exit(0);
        if (child > 0) waitpid((pid_t)child, NULL, 0);
        attempt(child > 0 ? 0 : -1, kinds[i].name);
    }
    all_stopped();
}
static void clone3_namespaces(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct clone_args a = {.flags = (uint64_t)kinds[i].flag, .exit_signal = SIGCHLD};
        long child = syscall(SYS_clone3, &a, sizeof a);
        if (child == 0) _exit(0);
        if (child > 0) waitpid((pid_t)child, NULL, 0);
        attempt(child > 0 ? 0 : -1, kinds[i].name);
    }
    all_stopped();
}
static int nested_root(void) {
    char map[64];
    uid_t uid = getuid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
        fprintf(stderr, "unshare: %s; ", strerrorname_np(errno));
        return STOPPED;
    }
    snprintf(map, sizeof map, "0 %d 1\n", (int)uid);
    if (write_text("/proc/self/uid_map", map)) fprintf(stderr, "uid_map: %s; ", strerrorname_np(errno));
    const char *at = home("nested");
    mkdir(at, 0700);
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (!mount("tmpfs", at, "tmpfs", 0, "size=4k")) return THROUGH;
    fprintf(stderr, "mount: %s; ", strerrorname_np(errno));
    return STOPPED;
}
static void nested_user_namespace(void) {
    int code = in_child(nested_root);
    if (code == THROUGH) end(THROUGH, "through: root in a nested user namespace, and mounted");
    end(code, "stopped");
}
static void enter_process_one(void) {
    const char *names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    char path[64];
    long pids[] = {1, need_number("pid"), getppid()};
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < 7; i++) {
            snprintf(path, sizeof path, "/proc/%ld/ns/%s", pids[p], names[i]);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0) {
                attempt(-1, path);
                continue;
            }
            /* Entering one's own user namespace again is answered with EINVAL to everybody. */
            int r = setns(fd, 0);
            if (r < 0 && errno == EINVAL) errno = EPERM;
            attempt(r, path);
            close(fd);
        }
    all_stopped();
}

const struct attack namespace_attacks[] = {
    {"own_mounts", own_mounts},
    {"fresh_mounts", fresh_mounts},
    {"mount_family", mount_family},
    {"remount", remount},
    {"unmount_mask", unmount_mask},
    {"unshare_each", unshare_each},
    {"clone_each", clone_each},
    {"clone3_namespaces", clone3_namespaces},
    {"nested_user_namespace", nested_user_namespace},
    {"enter_process_one", enter_process_one},
    {NULL, NULL},
};
