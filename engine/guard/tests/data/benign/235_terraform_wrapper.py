#!/usr/bin/env python3
import argparse
import json
import os
import subprocess
import sys


def tf(*args, capture=False, check=True):
    cmd = ["terraform", *args]
    print("$", " ".join(cmd), file=sys.stderr)
    return subprocess.run(cmd, check=check, text=True, stdout=subprocess.PIPE if capture else None)


def select(workspace):
    existing = [w.strip(" *") for w in tf("workspace", "list", capture=True).stdout.splitlines()]
    tf("workspace", "select" if workspace in existing else "new", workspace)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("env", choices=["dev", "staging", "prod"])
    ap.add_argument("--destroy", action="store_true")
    ap.add_argument("-y", "--yes", action="store_true")
    args = ap.parse_args()
    if args.destroy and args.env == "prod":
        sys.exit("prod must be destroyed manually")

    os.environ.setdefault("TF_IN_AUTOMATION", "1")
    plan = f".{args.env}.tfplan"
    try:
        tf("init", "-input=false", "-upgrade=false")
        select(args.env)
        opts = ["-destroy"] if args.destroy else []
        result = tf("plan", "-input=false", "-detailed-exitcode", f"-var-file={args.env}.tfvars", f"-out={plan}", *opts, check=False)
        if result.returncode == 0:
            print("no changes")
            return
        if result.returncode != 2:
            sys.exit(result.returncode)
        if not args.yes and input(f"Apply to {args.env}? Type the environment name: ") != args.env:
            sys.exit("aborted")
        tf("apply", "-input=false", plan)
        outputs = json.loads(tf("output", "-json", capture=True).stdout)
        with open(f"outputs.{args.env}.json", "w") as f:
            json.dump({k: v["value"] for k, v in outputs.items() if not v["sensitive"]}, f, indent=2)
    except subprocess.CalledProcessError as e:
        sys.exit(e.returncode)
    finally:
        if os.path.exists(plan):
            os.remove(plan)


if __name__ == "__main__":
    main()
