#!/bin/bash
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: $0 USERNAME PUBKEY_FILE" >&2
    exit 2
fi
user=$1
keyfile=$2

ssh-keygen -l -f "$keyfile" >/dev/null || { echo "$keyfile is not a public key" >&2; exit 1; }

if ! id -u "$user" >/dev/null 2>&1; then
    adduser --disabled-password --gecos "" "$user"
fi

home=$(getent passwd "$user" | cut -d: -f6)
install -d -m 700 -o "$user" -g "$user" "$home/.ssh"
touch "$home/.ssh/authorized_keys"
grep -qxFf "$keyfile" "$home/.ssh/authorized_keys" || cat "$keyfile" >> "$home/.ssh/authorized_keys"
chmod 600 "$home/.ssh/authorized_keys"
chown "$user:$user" "$home/.ssh/authorized_keys"

# allow only restarting the app
echo "$user ALL=(root) NOPASSWD: /usr/bin/systemctl restart myapp" > "/etc/sudoers.d/$user"
chmod 440 "/etc/sudoers.d/$user"
visudo -cf "/etc/sudoers.d/$user"
echo "user $user is ready"
