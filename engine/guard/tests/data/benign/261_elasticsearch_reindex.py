import argparse
import json
import os
import sys
from datetime import datetime

from elasticsearch import Elasticsearch, NotFoundError


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("alias")
    ap.add_argument("mapping", help="JSON file with settings and mappings")
    ap.add_argument("--keep-old", action="store_true")
    args = ap.parse_args()

    es = Elasticsearch(os.environ.get("ES_URL", "http://localhost:9200"), api_key=os.environ.get("ES_API_KEY"))
    body = json.load(open(args.mapping))
    new = f"{args.alias}-{datetime.now():%Y%m%d%H%M%S}"
    try:
        old = list(es.indices.get_alias(name=args.alias))
    except NotFoundError:
        old = []

    es.indices.create(index=new, settings=body.get("settings"), mappings=body["mappings"])
    print("created", new)
    for index in old:
        r = es.options(request_timeout=3600).reindex(
            source={"index": index}, dest={"index": new}, wait_for_completion=True, refresh=True
        )
        if r["failures"]:
            es.indices.delete(index=new)
            sys.exit(f"reindex failed: {r['failures'][:3]}")
    expected = sum(es.count(index=i)["count"] for i in old)
    actual = es.count(index=new)["count"]
    if actual < expected:
        sys.exit(f"only {actual} of {expected} documents were copied, keeping the old index")

    actions = [{"add": {"index": new, "alias": args.alias}}]
    actions += [{"remove": {"index": i, "alias": args.alias}} for i in old]
    es.indices.update_aliases(actions=actions)
    print(f"alias {args.alias} -> {new} ({actual} documents)")
    if not args.keep_old:
        for i in old:
            es.indices.delete(index=i)
            print("deleted", i)


if __name__ == "__main__":
    main()
