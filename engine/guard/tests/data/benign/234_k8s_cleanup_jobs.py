import argparse
from datetime import datetime, timedelta, timezone

from kubernetes import client, config
from kubernetes.client.rest import ApiException


def finished_at(job):
    for cond in job.status.conditions or []:
        if cond.type in ("Complete", "Failed") and cond.status == "True":
            return cond.last_transition_time, cond.type
    return None, None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-n", "--namespace", default="default")
    ap.add_argument("--hours", type=float, default=24)
    ap.add_argument("--keep-failed", action="store_true")
    ap.add_argument("--dry-run", action="store_true")
    args = ap.parse_args()

    try:
        config.load_incluster_config()
    except config.ConfigException:
        config.load_kube_config()
    batch = client.BatchV1Api()
    limit = datetime.now(timezone.utc) - timedelta(hours=args.hours)

    deleted = 0
    for job in batch.list_namespaced_job(args.namespace).items:
        when, state = finished_at(job)
        if when is None or when > limit:
            continue
        if state == "Failed" and args.keep_failed:
            continue
        print(f"{job.metadata.name} {state} {when:%Y-%m-%d %H:%M}")
        if args.dry_run:
            continue
        try:
            batch.delete_namespaced_job(job.metadata.name, args.namespace, propagation_policy="Background")
            deleted += 1
        except ApiException as e:
            print(f"  could not delete: {e.reason}")
    print(f"{deleted} jobs deleted")


if __name__ == "__main__":
    main()
