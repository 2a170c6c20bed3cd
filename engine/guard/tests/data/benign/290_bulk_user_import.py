import csv
import os
import secrets
import sys

import requests

BASE = os.environ.get("KEYCLOAK_URL", "http://localhost:8080")
REALM = os.environ.get("KEYCLOAK_REALM", "company")


def admin_token():
    r = requests.post(
        f"{BASE}/realms/master/protocol/openid-connect/token",
        data={
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": os.environ["KEYCLOAK_ADMIN"],
            "password": os.environ["KEYCLOAK_ADMIN_PASSWORD"],
        },
        timeout=15,
    )
    r.raise_for_status()
    return r.json()["access_token"]


def create(session, row):
    temp = secrets.token_urlsafe(12)
    body = {
        "username": row["email"].lower(),
        "email": row["email"].lower(),
        "firstName": row.get("first_name", ""),
        "lastName": row.get("last_name", ""),
        "enabled": True,
        "requiredActions": ["UPDATE_PASSWORD", "VERIFY_EMAIL"],
        "credentials": [{"type": "password", "value": temp, "temporary": True}],
    }
    r = session.post(f"{BASE}/admin/realms/{REALM}/users", json=body, timeout=15)
    if r.status_code == 409:
        return "exists"
    r.raise_for_status()
    user_id = r.headers["Location"].rsplit("/", 1)[-1]
    session.put(f"{BASE}/admin/realms/{REALM}/users/{user_id}/execute-actions-email", json=["UPDATE_PASSWORD"], timeout=15)
    return "created"


def main():
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {admin_token()}"
    with open(sys.argv[1], newline="") as f:
        for row in csv.DictReader(f):
            try:
                print(row["email"], create(session, row))
            except requests.HTTPError as e:
                print(row["email"], "ERROR", e.response.text[:120])


if __name__ == "__main__":
    main()
