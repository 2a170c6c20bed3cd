#!/usr/bin/env bash
# Basic hardening for a new Debian/Ubuntu server. Run as root, with your key already installed.
set -euo pipefail

ADMIN_USER="${1:?usage: harden_ssh.sh ADMIN_USER}"

if [[ ! -s "/home/$ADMIN_USER/.ssh/authorized_keys" ]]; then
  echo "No authorized_keys for $ADMIN_USER; you would lock yourself out." >&2
  exit 1
fi

apt-get update
apt-get install -y ufw fail2ban unattended-upgrades

cp -n /etc/ssh/sshd_config /etc/ssh/sshd_config.orig
cat > /etc/ssh/sshd_config.d/90-hardening.conf <<EOF
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
X11Forwarding no
MaxAuthTries 4
AllowUsers $ADMIN_USER
EOF
sshd -t
systemctl reload ssh

ufw default deny incoming
ufw default allow outgoing
ufw allow OpenSSH
ufw allow 80,443/tcp
ufw --force enable

cat > /etc/fail2ban/jail.local <<'EOF'
[sshd]
enabled = true
maxretry = 5
bantime = 1h
EOF
systemctl enable --now fail2ban
dpkg-reconfigure -f noninteractive unattended-upgrades

ufw status verbose
