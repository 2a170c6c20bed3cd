/* Process trees, signals, and objects that outlive processes. Every bomb here is bounded. */
#include "attack.h"
#include <mqueue.h>
#include <pthread.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

static void wait_here(void) {
    for (;;) pause();
}
static void count_children(long allowed, int with_vfork_flags) {
    long made = 0;
    for (long i = 0; i < allowed * 2 + 20; i++) {
        long child = with_vfork_flags ? syscall(SYS_clone, (unsigned long)(CLONE_FILES | CLONE_FS) | SIGCHLD, 0, 0, 0, 0) : fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            wait_here();
        }
        if (child < 0) break;
        made++;
    }
    int e = errno;
    if (made > allowed + 2) end(THROUGH, "through: %ld processes where %ld are allowed", made, allowed);
    end(made > 0 && e == EAGAIN ? STOPPED : BROKEN, "stopped after %ld processes (%s)", made, strerrorname_np(e));
}
static void fork_bomb(void) { count_children(need_number("processes"), 0); }
static void clone_bomb(void) { count_children(need_number("processes"), 1); }
static void *idle(void *unused) {
    (void)unused;
    wait_here();
    return NULL;
}
static void thread_bomb(void) {
    long allowed = need_number("processes"), made = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_t thread;
    while (made < allowed * 2 + 20 && !pthread_create(&thread, &attributes, idle, NULL)) made++;
    if (made > allowed + 2) end(THROUGH, "through: %ld threads where %ld are allowed", made, allowed);
    end(made > 0 ? STOPPED : BROKEN, "stopped after %ld threads", made);
}
/* Leaves a process behind under a name that the harness looks for when the run is over. */
static void leave_behind(const char *marker) {
    prctl(PR_SET_NAME, marker);
    setsid();
    for (int i = 0; i < 3; i++) signal((int[]){SIGTERM, SIGHUP, SIGINT}[i], SIG_IGN);
    for (int i = 0; i < 20; i++) sleep(1);
    _exit(0);
}
static void daemon_survives(void) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (int fd = 0; fd < 3; fd++) close(fd);
            leave_behind(need("marker"));
        }
        _exit(0);
    }
    usleep(200000);
    end(STOPPED, "a daemon was left behind");
}
static void child_holds_output(void) {
    if (fork() == 0) leave_behind(need("marker"));
    usleep(100000);
    printf("leader is done\n");
    fflush(stdout);
    end(STOPPED, "a child holds the output");
}
static void group_change(void) {
    if (fork() == 0) {
        setpgid(0, 0);
        leave_behind(need("marker"));
    }
    setpgid(0, 0);
    wait_here();
}
static void signal_outside(void) {
    attempt(kill((pid_t)need_number("pid"), 0), "signal 0 to the decoy");
    attempt(kill((pid_t)need_number("super"), 0), "signal 0 to the supervisor");
    int pidfd = (int)syscall(SYS_pidfd_open, need_number("pid"), 0);
    if (pidfd < 0) attempt(-1, "pidfd_open");
    else attempt(syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0), "signal 0 by pidfd");
    all_stopped();
}
static void stop_self(void) {
    printf("before the stop\n");
    fflush(stdout);
    raise(SIGSTOP);
    end(BROKEN, "went on after SIGSTOP");
}
static void ignore_signals(void) {
    for (int s = 1; s < 32; s++) signal(s, SIG_IGN);
    wait_here();
}
static void sysv_shared_memory(void) {
    int id = shmget((key_t)need_number("key"), 0, 0);
    if (id < 0) {
        attempt(-1, "shmget");
        all_stopped();
    }
    const char *at = shmat(id, NULL, SHM_RDONLY);
    if (at == (void *)-1) {
        attempt(-1, "shmat");
        all_stopped();
    }
    end(holds_secret(at, 64) ? THROUGH : BROKEN, "attached another's shared memory");
}
static void sysv_others(void) {
    attempt(semget((key_t)need_number("key"), 0, 0), "semget");
    attempt(msgget((key_t)need_number("key"), 0), "msgget");
    all_stopped();
}
static void posix_queue(void) {
    attempt(mq_open(need("queue"), O_RDONLY), "mq_open");
    all_stopped();
}
/* What the harness runs as its decoy: makes System V and POSIX objects, holds the secret, waits. */
static void decoy(void) {
    int key = (int)need_number("key");
    int id = shmget(key, 4096, IPC_CREAT | 0666);
    if (id >= 0) {
        char *at = shmat(id, NULL, 0);
        if (at != (void *)-1) strcpy(at, decoy_secret);
    }
    semget(key, 1, IPC_CREAT | 0666);
    msgget(key, IPC_CREAT | 0666);
    umask(0);
    mq_open(need("queue"), O_CREAT | O_RDWR, 0666, NULL);
    /* A key that other processes of the same user see in /proc/keys. */
    syscall(SYS_add_key, "user", "hotcell-decoy", "x", 1, -4 /* the user's keyring */);
    printf("ready\n");
    fflush(stdout);
    wait_here();
}

const struct attack process_attacks[] = {
    {"fork_bomb", fork_bomb},
    {"clone_bomb", clone_bomb},
    {"thread_bomb", thread_bomb},
    {"daemon_survives", daemon_survives},
    {"child_holds_output", child_holds_output},
    {"group_change", group_change},
    {"signal_outside", signal_outside},
    {"stop_self", stop_self},
    {"ignore_signals", ignore_signals},
    {"sysv_shared_memory", sysv_shared_memory},
    {"sysv_others", sysv_others},
    {"posix_queue", posix_queue},
    {"decoy", decoy},
    {NULL, NULL},
};
