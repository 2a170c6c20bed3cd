"""Export starred repositories to a markdown list."""
import os
import sys

import requests

QUERY = """
query($cursor: String) {
  viewer {
    starredRepositories(first: 100, after: $cursor, orderBy: {field: STARRED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes { nameWithOwner url description primaryLanguage { name } stargazerCount }
    }
  }
}
"""


def run_query(token, variables):
    r = requests.post(
        "https://api.github.com/graphql",
        json={"query": QUERY, "variables": variables},
        headers={"Authorization": f"bearer {token}"},
        timeout=30,
    )
    r.raise_for_status()
    body = r.json()
    if "errors" in body:
        raise RuntimeError(body["errors"][0]["message"])
    return body["data"]


def starred(token):
    cursor = None
    while True:
        page = run_query(token, {"cursor": cursor})["viewer"]["starredRepositories"]
        yield from page["nodes"]
        if not page["pageInfo"]["hasNextPage"]:
            return
        cursor = page["pageInfo"]["endCursor"]


def main():
    token = os.environ.get("GITHUB_TOKEN") or sys.exit("GITHUB_TOKEN is missing")
    by_lang = {}
    for repo in starred(token):
        lang = (repo["primaryLanguage"] or {}).get("name", "Other")
        by_lang.setdefault(lang, []).append(repo)
    with open("STARS.md", "w") as out:
        for lang in sorted(by_lang):
            out.write(f"\n## {lang}\n\n")
            for repo in by_lang[lang]:
                out.write(f"- [{repo['nameWithOwner']}]({repo['url']}) - {repo['description'] or ''}\n")


if __name__ == "__main__":
    main()
