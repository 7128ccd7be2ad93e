"""Guard HTTP requests with the gateway of ration (ration proxy, serve or exec).

ration.requests, ration.httpx, ration.aiohttp and ration.urllib send the requests
of these libraries through it. A program that sends them by itself asks before
each call, and reports what was answered:

    grant = ration.Gateway(job="import").spend("items.list")
    response = my_client.get("https://api.example.com/v1/items")
    grant.report(response.status, response.headers, response.body)

The gateway is the one that RATION_URL names, http://127.0.0.1:8377 by default,
and RATION_TOKEN is its token, if it wants one. ration exec and command: steps set
both. A request that a budget or a cooldown refuses was not sent, and raises
Refused.
"""

import json
import os
import re
from datetime import datetime
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

EXIT_STOPPED = 75  # the exit code that tells ration and cron: go on later


class Error(Exception):
    """The gateway's own answer, which the upstream has not given.

    status, type (such as "ledger-down") and detail say what it is; problem has
    all of its document. retry_after is in seconds, or None.
    """

    status = type = detail = retry_after = problem = None


class Refused(Error):
    """The call does not fit its budget now. It was not sent, and cost nothing.

    budget, limit, used, remaining and shortfall are None if they are unknown,
    as in a cooldown. retry_at is a datetime.
    """

    budget = limit = used = remaining = shortfall = retry_at = reason = None


class LedgerDown(Error):
    """The ledger is down, busy or misconfigured, and the call was not sent."""


class Rejected(Error):
    """A mistake in the request, the token or costs.yaml, such as a host that is
    not guarded or a call that never fits. To repeat it does not help."""


def error_of(status, headers, body=b""):
    """Returns the Error that an answer with a Ration-Detail header is. Those of the upstream have none."""
    detail = headers["Ration-Detail"]
    try:
        problem = json.loads(body)
    except ValueError:
        problem = {"detail": detail}  # of HEAD
    if status == 429:
        kind, names = Refused, ("budget", "limit", "used", "remaining", "shortfall", "reason")
    else:
        kind, names = LedgerDown if status == 503 else Rejected if status < 500 else Error, ()
    error = kind(problem.get("why") or detail)
    error.status, error.detail, error.problem = status, detail, problem
    error.type = problem.get("type", "").rpartition(":")[2]
    error.retry_after = int(headers["Retry-After"]) if "Retry-After" in headers else None
    for name in names:
        setattr(error, name, problem.get(name))
    if kind is Refused:
        error.budget = error.budget or headers.get("Ration-Refused-By")
        error.retry_at = time_of(problem.get("retry_at"))
    return error


def time_of(text):
    """The datetime of a time in JSON, or None."""
    if not text:
        return None
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return datetime.strptime(seconds + "." + (fraction or "0")[:6] + "+0000", "%Y-%m-%dT%H:%M:%S.%f%z")


class Gateway:
    """Where requests are charged.

    job, region, lane and key say who calls; max_wait is how long a request may
    wait for its units, as in "30s". url and token are those of the environment
    by default.
    """

    def __init__(self, job=None, region=None, lane=None, key=None, max_wait=None, url=None, token=None):
        self.url = (url or os.environ.get("RATION_URL") or "http://127.0.0.1:8377").rstrip("/")
        if not re.match("https?://", self.url):
            raise ValueError("RATION_URL: Python's clients need an http:// or https:// address, not " + self.url)
        caller = {"job": job, "region": region, "lane": lane, "key": key, "max_wait": max_wait}
        self.caller = {name: str(value) for name, value in caller.items() if value is not None}
        self.headers = {"Ration-" + name.title().replace("_", "-"): value for name, value in self.caller.items()}
        if token or os.environ.get("RATION_TOKEN"):
            self.headers["Ration-Token"] = token or os.environ["RATION_TOKEN"]
        # A proxy cannot reach the gateway of this host.
        self.is_local = bool(re.fullmatch(r"localhost|127\..*|::1", urlsplit(self.url).hostname or ""))

    def through(self, url):
        """The address of the gateway for the upstream's url."""
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return self.url + "/to/" + host + (parts.path or "/") + ("?" + parts.query if parts.query else "")

    def spend(self, method=None, calls=1, units=None, amounts=None, upstream=None, verb=None, url=None, idempotency_key=None):
        """Charges calls of a method, or of the request verb url, and returns their Grant. Raises Refused."""
        asked = {"method": method, "calls": calls, "units": units, "amounts": amounts, "upstream": upstream, "verb": verb, "url": url}
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}
        answer = self.post("/v1/spend", {**asked, **self.caller}, headers)
        return Grant(self, answer["grant"], answer)

    def grant(self, token):
        """The Grant of a token: that of a spend, or of the header Ration-Grant of a guarded answer."""
        return Grant(self, token, {})

    def limit(self, client, limit, window, estimate=False):
        """Counts a request of a client of your own, if it fits limit in window, such as "1m".

        The result has allowed, remaining, retry_after (in seconds, or None) and retry_at.
        """
        try:
            answer = self.post("/v1/limit", {"client": client, "limit": limit, "window": window, "estimate": estimate})
        except Refused as refused:
            answer = refused.problem
        return SimpleNamespace(allowed=answer["allowed"], limit=answer["limit"], remaining=answer["remaining"],
                               retry_after=answer["retry_after_s"], retry_at=time_of(answer["retry_at"]))

    def post(self, path, document, headers=None):
        """Posts a document to the gateway's API, without what is None, and returns the answer's."""
        body = json.dumps({name: value for name, value in document.items() if value is not None}).encode()
        own = {"Content-Type": "application/json", **(headers or {})}
        if "Ration-Token" in self.headers:
            own["Ration-Token"] = self.headers["Ration-Token"]
        opener = build_opener(*[ProxyHandler({})] * self.is_local)
        try:
            with opener.open(Request(self.url + path, body, own)) as answer:
                return json.load(answer)
        except HTTPError as failed:
            if "Ration-Detail" not in failed.headers:
                raise
            with failed:
                raise error_of(failed.code, failed.headers, failed.read()) from None


class Grant:
    """An admitted call. token is what names it; answer is the gateway's document, such as answer["remaining"]."""

    def __init__(self, gateway, token, answer):
        self.gateway, self.token, self.answer = gateway, token, answer

    def settle(self, units=None, amounts=None):
        """Replaces what the call was charged by what it really cost."""
        return self._post("settle", {"units": units, "amounts": amounts})

    def refund(self):
        """Returns the units of a call that was never sent."""
        return self._post("refund", {})

    def report(self, status, headers=None, body=None, units=None, amounts=None):
        """Says what the upstream answered, and returns what that did."""
        pairs = headers.items() if hasattr(headers, "items") else headers or ()
        values = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        return self._post("report", {"status": status, "headers": values, "body": text, "units": units, "amounts": amounts})

    def _post(self, what, document):
        return self.gateway.post("/v1/grants/" + quote(self.token, safe="") + "/" + what, document)


def lead_back(url, headers):
    """Yields the headers of an answer to url with the upstream's own addresses, in place of the gateway's."""
    upstream = urlsplit(url).scheme + "://"
    for name, value in headers:
        kind = name.lower()
        if kind == "location" and value.startswith("/to/"):
            value = upstream + value[len("/to/") :]
        elif kind == "link":
            value = value.replace("</to/", "<" + upstream)
        elif kind == "set-cookie":
            head, found, path = value.rpartition("; Path=/to/")
            value = head + "; Path=/" + path.partition("/")[2] if found else value
        yield name, value


def covers(prefix, url):
    """Whether the address url begins with prefix, however its host is spelt."""
    covering, parts = urlsplit(prefix), urlsplit(url)
    ports = {"http": 80, "https": 443}
    servers = {(p.scheme, p.hostname, p.port or ports.get(p.scheme)) for p in (covering, parts)}
    return len(servers) == 1 and (parts.path or "/").startswith(covering.path)
