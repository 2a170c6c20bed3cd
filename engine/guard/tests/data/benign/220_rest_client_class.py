from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Iterator

import requests


class ApiError(Exception):
    def __init__(self, status: int, message: str):
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Ticket:
    id: int
    subject: str
    status: str
    created_at: datetime

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Ticket:
        return cls(data["id"], data["subject"], data["status"], datetime.fromisoformat(data["created_at"]))


class HelpdeskClient:
    def __init__(self, base_url: str, token: str, timeout: float = 10):
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def _request(self, method: str, path: str, **kwargs) -> Any:
        for _ in range(3):
            resp = self.session.request(method, self.base_url + path, timeout=self.timeout, **kwargs)
            if resp.status_code == 429:
                time.sleep(float(resp.headers.get("Retry-After", 1)))
                continue
            if not resp.ok:
                raise ApiError(resp.status_code, resp.text[:200])
            return resp.json() if resp.content else None
        raise ApiError(429, "rate limit")

    def tickets(self, status: str | None = None) -> Iterator[Ticket]:
        params: dict[str, Any] = {"page": 1, "per_page": 50}
        if status:
            params["status"] = status
        while True:
            page = self._request("GET", "/tickets", params=params)
            yield from map(Ticket.from_json, page["items"])
            if params["page"] >= page["pages"]:
                return
            params["page"] += 1

    def create(self, subject: str, body: str) -> Ticket:
        return Ticket.from_json(self._request("POST", "/tickets", json={"subject": subject, "body": body}))

    def close(self, ticket_id: int) -> None:
        self._request("PATCH", f"/tickets/{ticket_id}", json={"status": "closed"})

    def delete(self, ticket_id: int) -> None:
        self._request("DELETE", f"/tickets/{ticket_id}")


if __name__ == "__main__":
    client = HelpdeskClient(os.environ["HELPDESK_URL"], os.environ["HELPDESK_TOKEN"])
    for t in client.tickets("open"):
        print(f"{t.id:>6} {t.created_at:%Y-%m-%d} {t.subject}")
