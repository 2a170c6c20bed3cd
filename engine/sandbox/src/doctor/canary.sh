# Runs in a throw-away sandbox. ROOTED: it has an own file system tree. NAME: of a file in the host's /tmp.
# PORT: of a listener on the host's loopback.

show() {
    echo "== $1"
    while IFS= read -r line || [ -n "$line" ]; do echo "$line"; done <"$2"
} 2>/dev/null

attempt() {
    if (eval "$2") >/dev/null 2>&1 </dev/null; then echo "? $1 yes"; else echo "? $1 no"; fi
}

show status /proc/self/status
show uid_map /proc/self/uid_map
show limits /proc/self/limits
show cgroup /proc/self/cgroup
show mountinfo /proc/self/mountinfo
show hostname /proc/sys/kernel/hostname
show first /proc/1/comm
show devices /proc/net/dev
show routes /proc/net/route
show messages /proc/sysvipc/msg
show memory /proc/sysvipc/shm
show semaphores /proc/sysvipc/sem
echo "== processes"
for process in /proc/[0-9]*; do echo "$process"; done
echo "== namespaces"
ls -l /proc/self/ns 2>/dev/null

attempt write_comm 'echo canary >/proc/self/comm'
attempt signal_parent 'kill -0 "$PPID"'
attempt raise_limit 'ulimit -c 1'
attempt open_too_many 'ulimit -n 3; exec 4</dev/null'
if command -v mknod >/dev/null; then
    attempt make_device 'mknod "/tmp/$NAME.w" c 0 0'
    [ ! -e "/tmp/$NAME.w" ] || rm -f "/tmp/$NAME.w"
fi
if [ "$ROOTED" ]; then
    attempt write_root ': >/canary'
    attempt write_usr ': >/usr/canary'
    attempt write_etc ': >/etc/canary'
    attempt write_sysctl ': >>/proc/sys/kernel/hostname'
    attempt write_tmp ': >"/tmp/$NAME.in"'
    attempt write_home ': >"$HOME/canary"'
    attempt see_host '[ -e "/tmp/$NAME" ]'
    attempt read_locked '(umask 777; : >"/tmp/$NAME.l"); read -r line <"/tmp/$NAME.l" || [ -r "/tmp/$NAME.l" ]'
    if [ "$PORT" ] && [ -x /bin/bash ]; then
        attempt connect '/bin/bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT"'
    fi
fi
echo "== end"
