/* What two runs, or a run and its host, could share: descriptors over sockets, locks on files, terminals, busy files. */
#include "attack.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <termios.h>

/* Sends `fd` with a control message of which `spoil` changes the header. */
static ssize_t send_descriptor(int to, int fd, size_t length, int level, int type) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec io = {"x", 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header.cmsg_len = length;
    control.header.cmsg_level = level;
    control.header.cmsg_type = type;
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return sendmsg(to, &message, MSG_NOSIGNAL);
}
/* Receives one; the space for it may be too small. */
static int receive_descriptor(int from, size_t space) {
    char byte;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = space};
    if (recvmsg(from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) return -2;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}
static int count_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}
static void pass_descriptors(void) {
    int s[2];
    char text[16];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s)) end(BROKEN, "socketpair: %s", strerrorname_np(errno));
    int file = open(home("passed"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, "content", 7) != 7) end(BROKEN, "file: %s", strerrorname_np(errno));
    if (fork() == 0) _exit(send_descriptor(s[1], file, CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS) == 1 ? 0 : 1);
    wait(NULL);
    close(file);
    int got = receive_descriptor(s[0], CMSG_SPACE(sizeof(int)));
    if (got < 0 || pread(got, text, 7, 0) != 7 || memcmp(text, "content", 7)) end(BROKEN, "no descriptor came: %d", got);
    end(STOPPED, "a descriptor went from process to process");
}
/* Malformed control messages are refused one by one, leak nothing and break nothing. */
static void malformed_control(void) {
    int s[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s)) end(BROKEN, "socketpair: %s", strerrorname_np(errno));
    int before = count_descriptors();
    const struct {
        size_t length;
        int fd, type, level;
    } bad[] = {
        {0, 0, SCM_RIGHTS, SOL_SOCKET},
        {1, 0, SCM_RIGHTS, SOL_SOCKET},
        {sizeof(struct cmsghdr) - 1, 0, SCM_RIGHTS, SOL_SOCKET},
        {SIZE_MAX, 0, SCM_RIGHTS, SOL_SOCKET},
        {SIZE_MAX / 2, 0, SCM_RIGHTS, SOL_SOCKET},
        {CMSG_SPACE(sizeof(int)) + 1, 0, SCM_RIGHTS, SOL_SOCKET},
        {CMSG_LEN(sizeof(int)), -1, SCM_RIGHTS, SOL_SOCKET},
        {CMSG_LEN(sizeof(int)), 1 << 30, SCM_RIGHTS, SOL_SOCKET},
        {CMSG_LEN(sizeof(int)), 0, 77, SOL_SOCKET},
        {CMSG_LEN(sizeof(int)), 1, SCM_CREDENTIALS, SOL_SOCKET},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (send_descriptor(s[1], bad[i].fd, bad[i].length, bad[i].level, bad[i].type) >= 0)
            end(BROKEN, "message %zu was taken", i);
    /* A receiver without enough space gets none, and keeps none. */
    for (size_t space = 0; space < CMSG_SPACE(sizeof(int)); space += 5) {
        if (send_descriptor(s[1], 0, CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS) != 1) end(BROKEN, "send: %s", strerrorname_np(errno));
        int fd = receive_descriptor(s[0], space);
        if (fd >= 0) close(fd);
    }
    int after = count_descriptors();
    if (after != before) end(BROKEN, "%d descriptors before, %d after", before, after);
    end(STOPPED, "ten malformed messages were refused, no descriptor is left");
}
/* The sockets of whoever started this program: process 1 of a sandbox, or the parent. */
static void sockets_of_starter(void) {
    pid_t pids[] = {1, getppid()};
    for (int p = 0; p < 2; p++) {
        int pidfd = (int)syscall(SYS_pidfd_open, pids[p], 0), blocked = 0;
        for (int n = 0; n < 64; n++) {
            char path[64], says[64];
            snprintf(path, sizeof path, "/proc/%d/fd/%d", pids[p], n);
            ssize_t length = readlink(path, says, sizeof says - 1);
            if (length > 0 && !strncmp(says, "socket:", 7)) fprintf(stderr, "sees %.*s; ", (int)length, says);
            int fd = (int)syscall(SYS_pidfd_getfd, pidfd, n, 0);
            struct stat s;
            if (fd >= 0 && !fstat(fd, &s) && S_ISSOCK(s.st_mode)) end(THROUGH, "through: socket %d of process %d", n, pids[p]);
            if (fd >= 0) close(fd);
            else if (errno != EBADF) blocked++;
        }
        if (pidfd >= 0) close(pidfd);
        fprintf(stderr, "process %d: %d of 64 refused; ", pids[p], blocked);
    }
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0) end(THROUGH, "through: descriptor %d was handed over", fd);
    end(STOPPED, "stopped: no socket");
}
/* Takes every kind of lock that a file gives, tells which, and keeps them. */
static void hold_locks(void) {
    int writable = opt("writable") != NULL;
    int fd = open(need("file"), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0) end(BROKEN, "open: %s", strerrorname_np(errno));
    struct flock all = {.l_type = writable ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    int whole = flock(fd, LOCK_EX | LOCK_NB), posix = fcntl(fd, F_SETLK, &all);
    int lease = fcntl(fd, F_SETLEASE, F_RDLCK);
    printf("flock %s, record lock %s, lease %s\n", whole ? "refused" : "held", posix ? "refused" : "held", lease ? "refused" : "held");
    fflush(stdout);
    for (;;) sleep(60);
}
/* Whether somebody else's lock is felt or seen. */
static void feel_locks(void) {
    int writable = opt("writable") != NULL;
    int fd = open(need("file"), (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) end(errno == EWOULDBLOCK ? THROUGH : BROKEN, "open: %s", strerrorname_np(errno));
    if (flock(fd, LOCK_EX | LOCK_NB)) end(THROUGH, "through: flock answers %s", strerrorname_np(errno));
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &all)) end(BROKEN, "F_GETLK: %s", strerrorname_np(errno));
    if (all.l_type != F_UNLCK) end(THROUGH, "through: a record lock of process %d is seen", all.l_pid);
    FILE *list = fopen("/proc/locks", "re");
    char line[256], wanted[64];
    struct stat s;
    fstat(fd, &s);
    snprintf(wanted, sizeof wanted, " %02x:%02x:%lu ", major(s.st_dev), minor(s.st_dev), (unsigned long)s.st_ino);
    int listed = 0;
    while (list && fgets(line, sizeof line, list))
        if (strstr(line, wanted)) listed++;
    if (listed > 1) end(THROUGH, "through: %d locks of the file are listed", listed);
    end(STOPPED, "no lock of another is felt");
}
/* What a later sandbox could find: each kind of thing that may outlive a program, or pass to the next. */
#define LEFT_KEY 0x6c656674
#define LEFT_PORT 18111
static const char *const left_files[] = {"/tmp/left", "/dev/shm/left", "/var/tmp/left"};
static struct sockaddr_un left_name(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path + 1, "hotcell-passed-on", 17);
    return a;
}
static const struct sockaddr_in left_address = {.sin_family = AF_INET};
static int loopback(int fd, int (*f)(int, const struct sockaddr *, socklen_t)) {
    struct sockaddr_in a = left_address;
    a.sin_port = htons(LEFT_PORT);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return f(fd, (struct sockaddr *)&a, sizeof a);
}
static int found;
static void look(int is_there, const char *what) {
    if (is_there) {
        found++;
        fprintf(stderr, "%s; ", what);
    }
}
/* How many processes have a name. */
static int named(const char *wanted) {
    int count = 0;
    char path[300], name[32];
    DIR *all = opendir("/proc");
    for (struct dirent *e; all && (e = readdir(all));) {
        snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
        if (slurp(path, name, sizeof name) > 0 && !strncmp(name, wanted, strlen(wanted))) count++;
    }
    if (all) closedir(all);
    return count;
}
static void find_left(void) {
    struct sockaddr_un a = left_name();
    for (int i = 0; i < 3; i++) look(!access(left_files[i], F_OK), left_files[i]);
    look(!access(home("left"), F_OK), "a file at home");
    look(shmget(LEFT_KEY, 0, 0) >= 0, "System V memory");
    look(semget(LEFT_KEY, 0, 0) >= 0, "a semaphore");
    look(msgget(LEFT_KEY, 0) >= 0, "a message queue");
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), t = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    look(!connect(s, (struct sockaddr *)&a, offsetof(struct sockaddr_un, sun_path) + 18), "an abstract socket");
    look(!loopback(t, connect), "a port");
    close(s);
    close(t);
    look(syscall(SYS_keyctl, 10 /* search */, -3 /* the session's */, "user", "hotcell-passed-on", 0) >= 0, "a key");
    look(named("passed-on") > 0, "a process");
    look(getenv("PASSED_ON") != NULL, "a variable");
    mode_t mask = umask(0);
    umask(mask);
    look(mask == 0, "a umask");
    char cwd[PATH_MAX];
    look(getcwd(cwd, sizeof cwd) && !strcmp(cwd, "/tmp"), "a working folder");
    int fd = open(need("file"), O_RDONLY | O_CLOEXEC);
    if (fd < 0) end(BROKEN, "the granted file: %s", strerrorname_np(errno));
    look(flock(fd, LOCK_EX | LOCK_NB) != 0, "a lock");
    close(fd);
    end(found ? THROUGH : STOPPED, "%d left things found", found);
}
static void leave_all(void) {
    struct sockaddr_un a = left_name();
    umask(0);
    for (int i = 0; i < 3; i++) close(open(left_files[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    close(open(home("left"), O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    shmget(LEFT_KEY, 4096, IPC_CREAT | 0666);
    semget(LEFT_KEY, 1, IPC_CREAT | 0666);
    msgget(LEFT_KEY, IPC_CREAT | 0666);
    int s = socket(AF_UNIX, SOCK_STREAM, 0), t = socket(AF_INET, SOCK_STREAM, 0), fd = open(need("file"), O_RDONLY);
    if (bind(s, (struct sockaddr *)&a, offsetof(struct sockaddr_un, sun_path) + 18) || listen(s, 8)) end(BROKEN, "abstract: %s", strerrorname_np(errno));
    if (loopback(t, bind) || listen(t, 8)) end(BROKEN, "port: %s", strerrorname_np(errno));
    syscall(SYS_add_key, "user", "hotcell-passed-on", "x", 1, -3);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB)) end(BROKEN, "lock: %s", strerrorname_np(errno));
    setenv("PASSED_ON", "1", 1);
    if (chdir("/tmp")) end(BROKEN, "chdir: %s", strerrorname_np(errno));
    if (fork() == 0) {
        prctl(PR_SET_NAME, "passed-on");
        setsid();
        for (;;) sleep(60);
    }
    usleep(50000);
    if (opt("find")) {
        /* In the same sandbox all of it is there: what is looked for can be found. */
        pid_t child = fork();
        if (child == 0) find_left();
        int status = 0;
        waitpid(child, &status, 0);
        end(WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN, "looked for");
    }
    printf("left\n");
    fflush(stdout);
    sleep((unsigned)need_number("seconds"));
    end(STOPPED, "left behind");
}
/* A program that was just written can be executed: nobody keeps it open for writing. */
static void written_program_runs(void) {
    static char content[1 << 16];
    for (int i = 0; i < 60; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s-%d", home("tool"), i);
        int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
        ssize_t n;
        if (from < 0 || to < 0) end(BROKEN, "copy: %s", strerrorname_np(errno));
        while ((n = read(from, content, sizeof content)) > 0)
            if (write(to, content, (size_t)n) != n) end(BROKEN, "write: %s", strerrorname_np(errno));
        close(from);
        close(to);
        pid_t child = fork();
        if (child == 0) {
            execl(path, path, "succeed", (char *)NULL);
            _exit(errno == ETXTBSY ? 26 : 127);
        }
        int status;
        waitpid(child, &status, 0);
        if (status) end(BROKEN, "execution %d: status %#x", i, (unsigned)status);
        unlink(path);
    }
    end(STOPPED, "sixty programs were written and executed");
}
static void succeed(void) { end(STOPPED, "executed"); }

/* A terminal of the program's own, with a session, a foreground and a background: stops happen and can be ended. */
static int terminal(void) {
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), zero = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &zero)) end(MISSING, "no terminal: %s", strerrorname_np(errno));
    return master;
}
static int session_with_terminal(int master) {
    char name[32];
    int number;
    setsid();
    if (ioctl(master, TIOCGPTN, &number)) return -1;
    snprintf(name, sizeof name, "/dev/pts/%d", number);
    int slave = open(name, O_RDWR | O_CLOEXEC);
    if (slave >= 0) ioctl(slave, TIOCSCTTY, 0);
    return slave;
}
static int job_control(void) {
    int master = terminal(), slave = session_with_terminal(master), status;
    if (slave < 0) return 3;
    struct termios settings;
    tcgetattr(slave, &settings);
    settings.c_lflag |= TOSTOP;
    if (tcsetattr(slave, TCSANOW, &settings)) return 4;
    for (int writes = 0; writes < 2; writes++) {
        pid_t child = fork();
        if (child == 0) {
            char c;
            setpgid(0, 0);
            _exit((writes ? write(slave, "x", 1) : read(slave, &c, 1)) == 1 ? 0 : 5);
        }
        setpgid(child, child);
        if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) return 6;
        if (WSTOPSIG(status) != (writes ? SIGTTOU : SIGTTIN)) return 7;
        /* To the foreground, with something to read. */
        signal(SIGTTOU, SIG_IGN);
        if (tcsetpgrp(slave, child) || write(master, "y\n", 2) != 2 || kill(-child, SIGCONT)) return 8;
        if (waitpid(child, &status, 0) != child || status) return 9;
        tcsetpgrp(slave, getpgrp());
        signal(SIGTTOU, SIG_DFL);
    }
    return 0;
}
static void own_terminal_jobs(void) {
    int code = in_child(job_control);
    end(code ? BROKEN : STOPPED, "background, stop, foreground: %d", code);
}
/* The signals that stop who reads or writes a terminal from the background stop nobody in a session without one, where no
 * shell would ever continue it. */
static int raise_stops(void) {
    raise(SIGTTIN);
    raise(SIGTTOU);
    raise(SIGTSTP);
    return 0;
}
static int raise_in_session(void) {
    setsid();
    return raise_stops();
}
static void terminal_signals(void) {
    if (getsid(0) == getpid()) raise_stops();
    int code = in_child(raise_in_session);
    end(code ? BROKEN : STOPPED, "went on after the signals of a terminal: %d", code);
}
static void no_terminal(void) {
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    attempt(fd, "/dev/tty");
    if (tcgetpgrp(0) >= 0) end(THROUGH, "through: standard input is the terminal of this session");
    all_stopped();
}
/* Runs a command in the background of a terminal; 77 when the terminal stops it. */
static void in_background_of_terminal(void) {
    int master = terminal(), status;
    pid_t leader = fork();
    if (leader == 0) {
        int slave = session_with_terminal(master);
        struct termios settings;
        tcgetattr(slave, &settings);
        settings.c_lflag |= TOSTOP;
        tcsetattr(slave, TCSANOW, &settings);
        pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            dup2(slave, 0);
            char **command = rest();
            execv(command[0], command);
            _exit(126);
        }
        setpgid(child, child);
        waitpid(child, &status, WUNTRACED);
        if (WIFSTOPPED(status)) {
            kill(-child, SIGKILL);
            _exit(THROUGH);
        }
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN);
    }
    waitpid(leader, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN);
}

const struct attack sharing_attacks[] = {
    {"pass_descriptors", pass_descriptors},
    {"malformed_control", malformed_control},
    {"sockets_of_starter", sockets_of_starter},
    {"find_left", find_left},
    {"leave_all", leave_all},
    {"hold_locks", hold_locks},
    {"feel_locks", feel_locks},
    {"written_program_runs", written_program_runs},
    {"succeed", succeed},
    {"own_terminal_jobs", own_terminal_jobs},
    {"terminal_signals", terminal_signals},
    {"no_terminal", no_terminal},
    {"in_background_of_terminal", in_background_of_terminal},
    {NULL, NULL},
};
