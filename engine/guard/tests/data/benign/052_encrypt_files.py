#!/usr/bin/env python3
"""Encrypt or decrypt a single file with a password (scrypt + Fernet)."""
import argparse
import base64
import getpass
import os
import sys

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

MAGIC = b"ENC1"


def derive(password: str, salt: bytes) -> bytes:
    kdf = Scrypt(salt=salt, length=32, n=2**15, r=8, p=1)
    return base64.urlsafe_b64encode(kdf.derive(password.encode()))


def encrypt(src, dst, password):
    salt = os.urandom(16)
    token = Fernet(derive(password, salt)).encrypt(open(src, "rb").read())
    with open(dst, "wb") as f:
        f.write(MAGIC + salt + token)


def decrypt(src, dst, password):
    blob = open(src, "rb").read()
    if not blob.startswith(MAGIC):
        raise ValueError("not an encrypted file")
    salt, token = blob[4:20], blob[20:]
    with open(dst, "wb") as f:
        f.write(Fernet(derive(password, salt)).decrypt(token))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("mode", choices=["encrypt", "decrypt"])
    ap.add_argument("src")
    ap.add_argument("dst")
    args = ap.parse_args()

    password = getpass.getpass("Password: ")
    if args.mode == "encrypt":
        if password != getpass.getpass("Repeat: "):
            sys.exit("passwords differ")
        encrypt(args.src, args.dst, password)
    else:
        try:
            decrypt(args.src, args.dst, password)
        except (InvalidToken, ValueError) as e:
            sys.exit(f"cannot decrypt: {e or 'wrong password'}")


if __name__ == "__main__":
    main()
