#!/usr/bin/env python3
"""Build, tag and push the service image."""
import argparse
import os
import subprocess
import sys


def sh(cmd, **kwargs):
    print("+", cmd)
    return subprocess.run(cmd, shell=True, check=True, text=True, **kwargs)


def git_sha():
    return subprocess.check_output("git rev-parse --short HEAD", shell=True, text=True).strip()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--registry", default=os.environ.get("REGISTRY", "registry.example.com/team"))
    ap.add_argument("--name", default="api")
    ap.add_argument("--push", action="store_true")
    ap.add_argument("--no-cache", action="store_true")
    args = ap.parse_args()

    sha = git_sha()
    image = f"{args.registry}/{args.name}"
    flags = "--no-cache" if args.no_cache else ""
    try:
        sh(f"docker build {flags} --build-arg GIT_SHA={sha} -t {image}:{sha} -t {image}:latest .")
        if args.push:
            token = os.environ.get("REGISTRY_TOKEN")
            if token:
                sh(f"docker login {args.registry.split('/')[0]} -u ci --password-stdin", input=token)
            sh(f"docker push {image}:{sha}")
            sh(f"docker push {image}:latest")
    except subprocess.CalledProcessError as exc:
        sys.exit(exc.returncode)


if __name__ == "__main__":
    main()
