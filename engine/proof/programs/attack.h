/* What every hostile program here shares: how it ends, and what it was told about its surroundings.
 *
 * Exit codes: 77 got through, 0 stopped as expected, 2 a precondition is missing, 38 the answer was ENOSYS, or that an
 * option or a flag does not exist (which is "stopped" in a sandbox and "this kernel has no such call" outside of one), anything else: the program is broken. */
#ifndef HOTCELL_ATTACK_H
#define HOTCELL_ATTACK_H
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THROUGH 77
#define STOPPED 0
#define MISSING 2
#define ABSENT 38
#define BROKEN 1

struct attack {
    const char *name;
    void (*run)(void);
};

/* One table for each file, ended by a null name. */
extern const struct attack files_attacks[], proc_attacks[], syscall_attacks[], namespace_attacks[], network_attacks[],
    process_attacks[], resource_attacks[], cgroup_attacks[], works_attacks[], race_attacks[], sharing_attacks[],
    host_attacks[], spelling_attacks[], neighbour_attacks[];

/* What a decoy process keeps in its memory, at the same address in every copy of this static program. */
extern const char decoy_secret[32];
/* What it lets be written: zeros. */
extern char decoy_zeros[16];

/* Prints one line to standard error and ends. */
void end(int code, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The value of `key=value` on the command line; the second form allows its absence. */
const char *need(const char *key);
const char *opt(const char *key);
long need_number(const char *key);
/* What stands after `--`: a command. */
char **rest(void);
/* A path below the writable folder. */
const char *home(const char *name);
/* A marker that the decoys contain. */
int holds_secret(const char *text, size_t length);
/* Reads up to `size - 1` bytes of a file; -1 with errno. */
ssize_t slurp(const char *path, char *buffer, size_t size);
ssize_t slurp_fd(int fd, char *buffer, size_t size);

/* One of several ways to reach the same goal: a result >= 0 ends with THROUGH; a refusal is noted; an errno that is no
 * refusal is noted too and makes the end BROKEN. Finish with `all_stopped`. */
void attempt(long result, const char *what);
/* The same where these further errno values (ended by 0) say that permission was *given*. */
void attempt_or(long result, const char *what, const int *passed);
void all_stopped(void) __attribute__((noreturn));
/* Runs `f` in a child and returns its exit code, or 128 + signal. */
int in_child(int (*f)(void));
#endif
