/* Reading and changing files that were not granted. `secret=` is a denied file, `ro=` one granted read-only, both 0666. */
#include "attack.h"
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/xattr.h>

static void try_read(int fd, const char *what) {
    char text[256];
    if (fd < 0) {
        attempt(-1, what);
        return;
    }
    ssize_t n = slurp_fd(fd, text, sizeof text);
    close(fd);
    if (n > 0 && holds_secret(text, (size_t)n)) end(THROUGH, "through: %s", what);
    if (n < 0) attempt(-1, what);
    else end(BROKEN, "%s: opened, without the secret in it", what);
}

static void read_denied(void) {
    try_read(open(need("secret"), O_RDONLY), "open");
    all_stopped();
}
static void read_by_symlink(void) {
    const char *one = home("link1"), *two = home("link2"), *three = home("link3");
    if (symlink(need("secret"), one) || symlink(one, two) || symlink(two, three)) end(MISSING, "no symlink in home");
    try_read(open(one, O_RDONLY), "symlink");
    try_read(open(three, O_RDONLY), "chain of symlinks");
    all_stopped();
}
static void hard_link(void) {
    char beside[PATH_MAX];
    const char *targets[] = {need("secret"), need("ro")};
    for (int i = 0; i < 2; i++) {
        snprintf(beside, sizeof beside, "%s.alias", targets[i]);
        attempt(link(targets[i], beside), "link beside it");
        attempt(link(targets[i], home("alias")), "link into home");
        int fd = open(targets[i], O_PATH | O_CLOEXEC);
        if (fd >= 0) {
            char self[64];
            snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
            attempt(linkat(AT_FDCWD, self, AT_FDCWD, home("alias2"), AT_SYMLINK_FOLLOW), "link by descriptor");
            close(fd);
        }
    }
    all_stopped();
}
static void rename_denied(void) {
    char beside[PATH_MAX];
    const char *targets[] = {need("secret"), need("ro")};
    int fd = open(home("mine"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) end(MISSING, "home is not writable");
    for (int i = 0; i < 2; i++) {
        snprintf(beside, sizeof beside, "%s.moved", targets[i]);
        attempt(rename(targets[i], beside), "rename beside it");
        attempt(rename(targets[i], home("moved")), "rename into home");
        attempt(rename(home("mine"), targets[i]), "rename over it");
    }
    all_stopped();
}
static void truncate_denied(void) {
    const char *targets[] = {need("secret"), need("ro")};
    for (int i = 0; i < 2; i++) {
        attempt(truncate(targets[i], 0), "truncate");
        attempt(open(targets[i], O_WRONLY | O_TRUNC | O_CLOEXEC), "O_WRONLY|O_TRUNC");
        /* O_RDONLY|O_TRUNC truncates on Linux. */
        attempt(open(targets[i], O_RDONLY | O_TRUNC | O_CLOEXEC), "O_RDONLY|O_TRUNC");
    }
    all_stopped();
}
static void unlink_denied(void) {
    attempt(unlink(need("secret")), "unlink of the denied file");
    attempt(unlink(need("ro")), "unlink of the read-only file");
    attempt(unlinkat(AT_FDCWD, need("ro"), 0), "unlinkat");
    all_stopped();
}
static void open_variants(void) {
    const char *secret = need("secret"), *ro = need("ro");
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    try_read((int)syscall(SYS_openat2, AT_FDCWD, secret, &how, sizeof how), "openat2");
    try_read((int)syscall(SYS_open, secret, O_RDONLY, 0), "open by its old number");
    struct open_how writing = {.flags = O_WRONLY | O_CLOEXEC};
    attempt(syscall(SYS_openat2, AT_FDCWD, ro, &writing, sizeof writing), "openat2 for writing");
    attempt(syscall(SYS_open, ro, O_RDWR, 0), "open for writing by its old number");
    attempt(syscall(SYS_creat, ro, 0600), "creat");
    char beside[PATH_MAX];
    snprintf(beside, sizeof beside, "%s.new", ro);
    attempt(syscall(SYS_creat, beside, 0600), "creat beside it");
    all_stopped();
}
static void spellings(void) {
    const char *secret = need("secret");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "//%s", secret);
    try_read(open(path, O_RDONLY), "//");
    snprintf(path, sizeof path, "/.%s", secret);
    try_read(open(path, O_RDONLY), "/./");
    snprintf(path, sizeof path, "/usr/..%s", secret);
    try_read(open(path, O_RDONLY), "/usr/../");
    snprintf(path, sizeof path, "../../../../../../../../../../..%s", secret);
    try_read(open(path, O_RDONLY), "from the working folder upwards");
    const char *anchors[] = {"/", "/usr", "/proc/self/cwd", "/tmp"};
    for (int i = 0; i < 4; i++) {
        int dir = open(anchors[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0) continue;
        snprintf(path, sizeof path, "../../../../../../..%s", secret);
        try_read(openat(dir, path, O_RDONLY), "relative to a descriptor");
        close(dir);
    }
    if (!chdir("/")) try_read(open(secret + 1, O_RDONLY), "relative to /");
    all_stopped();
}
static void through_proc(void) {
    const char *secret = need("secret");
    char path[PATH_MAX];
    const char *roots[] = {"/proc/self/root", "/proc/1/root", "/proc/thread-self/root", "/proc/self/task/1/root"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s%s", roots[i], secret);
        try_read(open(path, O_RDONLY), roots[i]);
    }
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)getppid(), secret);
    try_read(open(path, O_RDONLY), "/proc/PPID/root");
    snprintf(path, sizeof path, "/proc/%ld/root%s", need_number("pid"), secret);
    try_read(open(path, O_RDONLY), "/proc/DECOY/root");
    snprintf(path, sizeof path, "/proc/self/cwd/../../../../../../..%s", secret);
    try_read(open(path, O_RDONLY), "/proc/self/cwd/..");
    snprintf(path, sizeof path, "/proc/%ld/cwd/../../../../../../..%s", need_number("pid"), secret);
    try_read(open(path, O_RDONLY), "/proc/DECOY/cwd/..");
    all_stopped();
}
static void make_device(void) {
    attempt(mknod(home("zero"), S_IFCHR | 0600, (1 << 8) | 5), "mknod of a character device");
    attempt(mknod(home("loop"), S_IFBLK | 0600, 7 << 8), "mknod of a block device");
    all_stopped();
}
static void open_by_handle(void) {
    struct {
        struct file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } handle = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount_id;
    const char *folder = home("handle");
    mkdir(folder, 0700);
    if (name_to_handle_at(AT_FDCWD, folder, &handle.head, &mount_id, 0)) {
        attempt(-1, "name_to_handle_at");
        /* Opening is what counts; an invented handle still shows whether the call is permitted. */
        handle.head.handle_bytes = 8;
        handle.head.handle_type = 1;
    }
    int dir = open(home("."), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static const int passed[] = {ESTALE, 0};
    /* Of a folder: that is what the kernel lets root of a user namespace have. */
    attempt_or(open_by_handle_at(dir, &handle.head, O_RDONLY | O_DIRECTORY), "open_by_handle_at", passed);
    all_stopped();
}
static void change_attributes(void) {
    const char *ro = need("ro");
    attempt(chmod(ro, 0600), "chmod");
    attempt(chown(ro, getuid(), getgid()), "chown");
    attempt(utimes(ro, NULL), "utimes");
    attempt(setxattr(ro, "user.hotcell", "x", 1, 0), "setxattr");
    int fd = open(ro, O_RDONLY | O_CLOEXEC), flags;
    if (fd < 0) attempt(-1, "open");
    else if (!ioctl(fd, FS_IOC_GETFLAGS, &flags)) attempt(ioctl(fd, FS_IOC_SETFLAGS, &flags), "FS_IOC_SETFLAGS");
    all_stopped();
}
static void inotify_watch(void) {
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd < 0) attempt(-1, "inotify_init1");
    else attempt(inotify_add_watch(fd, need("secret"), IN_ALL_EVENTS), "inotify_add_watch");
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", need("secret"));
    *strrchr(folder, '/') = 0;
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    attempt(dir < 0 ? -1 : fcntl(dir, F_NOTIFY, DN_ACCESS), "F_NOTIFY");
    all_stopped();
}
static void fanotify_watch(void) {
    int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC, O_RDONLY);
    attempt(fd, "fanotify_init");
    all_stopped();
}
static void many_files(void) {
    long allowed = need_number("files"), made = 0;
    const char *folders[] = {home("."), "/tmp", "/dev/shm"};
    for (int f = 0; f < 3; f++)
        for (long i = 0; i < allowed + 600; i++) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/n%ld", folders[f], i);
            int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (fd < 0) break;
            close(fd);
            made++;
        }
    if (made > allowed + 500) end(THROUGH, "through: made %ld files where %ld are allowed", made, allowed);
    end(made > 0 ? STOPPED : BROKEN, "stopped after %ld files", made);
}
static void fill_disk(void) {
    long allowed = need_number("disk_mib"), wrote = 0;
    const char *folders[] = {home("."), "/tmp", "/dev/shm"};
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    for (int f = 0; f < 3; f++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/fill", folders[f]);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) continue;
        for (long i = 0; i < allowed * 2; i++) {
            if (write(fd, block, sizeof block) != (ssize_t)sizeof block) break;
            wrote++;
        }
        close(fd);
    }
    if (wrote > allowed + 8) end(THROUGH, "through: wrote %ld MiB where %ld are allowed", wrote, allowed);
    end(wrote > 0 ? STOPPED : BROKEN, "stopped after %ld MiB", wrote);
}

/* A slash behind a link makes a folder of it, whatever O_NOFOLLOW says. */
static void no_follow(void) {
    char folder[PATH_MAX], name[PATH_MAX], path[2 * PATH_MAX], text[64];
    snprintf(folder, sizeof folder, "%s", need("secret"));
    char *slash = strrchr(folder, '/');
    snprintf(name, sizeof name, "%s", slash + 1);
    *slash = 0;
    const char *to[] = {folder, need("secret")};
    const char *tails[] = {"/", "/.", "//", "/./", "/../readable/"};
    for (int l = 0; l < 2; l++) {
        const char *link = home(l ? "to-file" : "to-folder");
        unlink(link);
        if (symlink(to[l], link)) end(MISSING, "symlink: %s", strerrorname_np(errno));
        for (size_t t = 0; t < sizeof tails / sizeof *tails; t++) {
            snprintf(path, sizeof path, "%s%s", link, tails[t]);
            int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
            int file = fd < 0 ? -1 : openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
            if (file >= 0 && read(file, text, 1) == 1) end(THROUGH, "through: %s", tails[t]);
            attempt(-1, tails[t]);
        }
    }
    all_stopped();
}

const struct attack files_attacks[] = {
    {"no_follow", no_follow},
    {"read_denied", read_denied},
    {"read_by_symlink", read_by_symlink},
    {"hard_link", hard_link},
    {"rename", rename_denied},
    {"truncate", truncate_denied},
    {"unlink", unlink_denied},
    {"open_variants", open_variants},
    {"spellings", spellings},
    {"through_proc", through_proc},
    {"make_device", make_device},
    {"open_by_handle", open_by_handle},
    {"change_attributes", change_attributes},
    {"inotify", inotify_watch},
    {"fanotify", fanotify_watch},
    {"many_files", many_files},
    {"fill_disk", fill_disk},
    {NULL, NULL},
};
