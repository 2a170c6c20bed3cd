// Questions to a kernel that no shell command asks. Each prints one word or line; 0 means yes, 1 means no.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static int no(const char *what) {
    printf("no: %s: %s\n", what, strerror(errno));
    return 1;
}

static int landlock(void) {
    long abi = syscall(444 /* landlock_create_ruleset */, NULL, 0, 1U /* LANDLOCK_CREATE_RULESET_VERSION */);
    if (abi < 0)
        return no("landlock_create_ruleset");
    printf("%ld\n", abi);
    return 0;
}

static int xattr(const char *folder) {
    char file[4096];
    snprintf(file, sizeof file, "%s/xattr-probe.%d", folder, getpid());
    int fd = open(file, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0)
        return no("open");
    int result = fsetxattr(fd, "user.hotcell", "1", 1, 0);
    int error = errno;
    unlink(file);
    errno = error;
    if (result < 0)
        return no("fsetxattr");
    puts("yes");
    return 0;
}

static int put(pid_t pid, const char *name, const char *text) {
    char file[64];
    snprintf(file, sizeof file, "/proc/%d/%s", pid, name);
    int fd = open(file, O_WRONLY);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n < 0 ? -1 : 0;
}

static int idmap(const char *folder) {
    int ready[2];
    if (pipe(ready))
        return no("pipe");
    pid_t child = fork();
    if (child == 0) {
        char byte = unshare(CLONE_NEWUSER) ? 0 : 1;
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char byte = 0;
    int result = 1, user = -1, tree = -1;
    char file[64];
    if (read(ready[0], &byte, 1) != 1 || !byte) {
        puts("no: unshare");
        goto end;
    }
    if (put(child, "uid_map", "0 100000 65536") || put(child, "gid_map", "0 100000 65536")) {
        no("id map");
        goto end;
    }
    snprintf(file, sizeof file, "/proc/%d/ns/user", child);
    user = open(file, O_RDONLY | O_CLOEXEC);
    tree = syscall(428 /* open_tree */, AT_FDCWD, folder, 1 /* OPEN_TREE_CLONE */ | O_CLOEXEC);
    if (user < 0 || tree < 0) {
        no(user < 0 ? "namespace" : "open_tree");
        goto end;
    }
    struct {
        uint64_t set, clear, propagation, userns;
    } attributes = {0x100000 /* MOUNT_ATTR_IDMAP */, 0, 0, user};
    if (syscall(442 /* mount_setattr */, tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes)) {
        no("mount_setattr");
        goto end;
    }
    puts("yes");
    result = 0;
end:
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return result;
}

static int into_cgroup(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return no("open");
    uint64_t arguments[11] = {0x200000000ULL /* CLONE_INTO_CGROUP */, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, fd};
    long pid = syscall(435 /* clone3 */, arguments, sizeof arguments);
    if (pid < 0)
        return no("clone3");
    if (pid == 0) {
        char text[4096] = "";
        int own = open("/proc/self/cgroup", O_RDONLY);
        ssize_t n = own < 0 ? -1 : read(own, text, sizeof text - 1);
        if (n <= 0 || write(1, text, n) != n)
            _exit(1);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status != 0;
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "landlock"))
        return landlock();
    if (count == 3 && !strcmp(words[1], "xattr"))
        return xattr(words[2]);
    if (count == 3 && !strcmp(words[1], "idmap"))
        return idmap(words[2]);
    if (count == 3 && !strcmp(words[1], "into-cgroup"))
        return into_cgroup(words[2]);
    fprintf(stderr, "usage: probe landlock | xattr FOLDER | idmap FOLDER | into-cgroup FOLDER\n");
    return 2;
}
