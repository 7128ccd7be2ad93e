"""The claims about the clients, against a gateway and an upstream of the tests of ration.

Each function that begins with test is called with each library's client.
"""

import asyncio
import json
import os
import pickle
import ssl
import sys
import traceback
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import aiohttp
import httpx
import ration
import ration.aiohttp
import ration.httpx
import ration.requests
import ration.urllib
import requests

HOST, OTHER, AWAY = ("http://" + os.environ[name] for name in ("HOST", "OTHER", "AWAY"))
CA, CERT, KEY = (os.environ["TLS_FILES"] + "/" + name for name in ("ca.pem", "cert.pem", "key.pem"))
NAMED = "http://gateway.internal"  # which only the proxy reaches


class Requests:
    def __init__(self, prefix=HOST + "/", verify=True, cert=None, proxy=None, **options):
        self.session = requests.Session()
        self.session.mount(prefix, ration.requests.Adapter(**options))
        self.options = {"verify": verify, "cert": cert, "proxies": proxy and {"http": proxy}}

    def send(self, method, url, headers=None, body=None):
        answer = self.session.request(method, url, headers=headers, data=body, allow_redirects=True, **self.options)
        return SimpleNamespace(status=answer.status_code, text=answer.text, links=answer.links, headers=answer.headers)


class Httpx:
    def __init__(self, prefix=HOST, proxy=None, **options):
        if proxy:
            options["proxy"] = httpx.Proxy(proxy)
        transport = ration.httpx.Transport(**options)
        self.client = httpx.Client(mounts={prefix.rstrip("/"): transport}, trust_env=False, follow_redirects=True)

    def send(self, method, url, headers=None, body=None):
        answer = self.client.request(method, url, headers=headers, content=body)
        return SimpleNamespace(status=answer.status_code, text=answer.text, links=answer.links, headers=answer.headers)


LOOP = asyncio.new_event_loop()
LOOP.set_exception_handler(lambda *_: None)  # for sessions that are not closed


class AsyncHttpx:
    def __init__(self, prefix=HOST, proxy=None, **options):
        if proxy:
            options["proxy"] = httpx.Proxy(proxy)
        transport = ration.httpx.AsyncTransport(**options)
        self.client = httpx.AsyncClient(mounts={prefix.rstrip("/"): transport}, trust_env=False, follow_redirects=True)

    def send(self, method, url, headers=None, body=None):
        answer = LOOP.run_until_complete(self.client.request(method, url, headers=headers, content=body))
        return SimpleNamespace(status=answer.status_code, text=answer.text, links=answer.links, headers=answer.headers)


class Aiohttp:
    def __init__(self, prefix=HOST + "/", verify=None, cert=None, proxy=None, **options):
        self.request = {"proxy": proxy}
        if verify:
            self.request["ssl"] = ssl.create_default_context(cafile=verify)
            self.request["ssl"].load_cert_chain(*cert)
        jar = aiohttp.CookieJar(unsafe=True)  # of addresses in place of names
        self.session = LOOP.run_until_complete(self.open(prefix, cookie_jar=jar, **options))

    async def open(self, prefix, **options):
        return ration.aiohttp.session(prefix, **options)

    def send(self, method, url, headers=None, body=None):
        async def send():
            async with self.session.request(method, url, headers=headers, data=body, **self.request) as answer:
                links = {name: {"url": str(link["url"])} for name, link in answer.links.items()}
                return SimpleNamespace(status=answer.status, text=await answer.text(), links=links, headers=answer.headers)

        return LOOP.run_until_complete(send())


class Urllib:
    def __init__(self, prefix=HOST + "/", **options):
        self.opener = ration.urllib.opener(prefix, **options)
        self.opener.add_handler(urllib.request.HTTPCookieProcessor())

    def send(self, method, url, headers=None, body=None):
        request = urllib.request.Request(url, body and body.encode(), headers or {}, method=method)
        try:
            answer = self.opener.open(request)
        except urllib.error.HTTPError as failed:
            answer = failed
        links = requests.utils.parse_header_links(answer.headers["Link"] or "")
        links = {link["rel"]: link for link in links}
        return SimpleNamespace(status=answer.status, text=answer.read().decode(), links=links, headers=answer.headers)


def seen():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(HOST + "/seen").read().decode().split("\n")


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def raised(kind, call):
    try:
        result = call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised: {result}")


def test_a_request_is_charged_and_passes(new):
    answer = new(job="import", max_wait="5s").send("POST", HOST + "/v1/items?a=1&b", body="text")
    echo = json.loads(answer.text)
    equal((echo["method"], echo["path"], echo["body"]), ("POST", "/v1/items?a=1&b", "text"))
    grant = ration.Gateway().grant(answer.headers["Ration-Grant"])
    equal(grant.settle(units=2)["units"], 2)
    equal(seen(), ["POST /v1/items?a=1&b text"])


def test_redirects_and_links_are_followed(new):
    client = new()
    equal(client.send("GET", HOST + "/v1/302").status, 200)
    equal(client.send("GET", client.send("GET", HOST + "/v1/page").links["next"]["url"]).status, 200)
    equal(seen(), ["GET /v1/302", "GET /v1/there", "GET /v1/page", "GET /v1/next"])


def test_another_host_learns_no_secret(new):
    for page in ("/v1/other", "/v1/away"):
        equal(new().send("GET", HOST + page, {"Authorization": "secret"}).status, 200)
    equal(seen(), ["GET /v1/other secret", "GET /v1/there", "GET /v1/away secret", "GET /v1/there"])


def test_cookies_belong_to_the_upstreams_paths(new):
    client = new()
    equal("/to/" in str(client.send("GET", HOST + "/v1/login").headers), False)
    for page, want in (("/v1/me", ["folder=2", "root=1"]), ("/v2/me", ["root=1"])):
        equal(sorted(json.loads(client.send("GET", HOST + page).text)["cookie"].split("; ")), want)
    seen()


def test_a_refusal_says_what_is_left_and_when_to_come_back(new):
    refused = raised(ration.Refused, lambda: new().send("GET", HOST + "/v1/spent"))
    equal((refused.budget, refused.limit, refused.used, refused.remaining, refused.shortfall), ("spent", 5, 3, 2, 1))
    day = timedelta(days=1)
    assert timedelta() < refused.retry_at - datetime.now(timezone.utc) <= day, refused.retry_at
    assert 0 < refused.retry_after <= day.total_seconds(), refused.retry_after
    assert "spent has 2 of 5 units left" in str(refused) and refused.type == "refused", refused
    equal(pickle.loads(pickle.dumps(refused)).retry_at, refused.retry_at)
    equal(raised(ration.Refused, lambda: new().send("HEAD", HOST + "/v1/spent")).budget, "spent")
    equal(seen(), [""])


def test_the_gateways_errors_are_not_the_upstreams(new):
    down = raised(ration.LedgerDown, lambda: new(url=os.environ["DOWN_URL"]).send("GET", HOST + "/v1/items"))
    equal((down.status, down.type, down.retry_after), (503, "ledger-down", 1))
    rejected = raised(ration.Rejected, lambda: new(prefix=AWAY).send("GET", AWAY + "/v1/items"))
    assert (rejected.status, rejected.type) == (403, "not-guarded") and "costs.yaml" in rejected.detail, rejected
    equal(raised(ration.Rejected, lambda: new(token="wrong-token").send("GET", HOST + "/v1/items")).status, 401)
    equal(seen(), [""])
    failed = new().send("GET", HOST + "/v1/failed")
    equal((failed.status, failed.text), (503, "the upstream's own\n"))
    equal(seen(), ["GET /v1/failed"])


def test_the_connection_to_the_gateway_has_its_tls_and_proxy(new):
    if new is Urllib:
        return
    secure = new(url=os.environ["TLS_URL"], verify=CA, cert=(CERT, KEY))
    equal(secure.send("GET", HOST + "/v1/items").status, 200)
    raised(Exception, lambda: new(url=os.environ["TLS_URL"]).send("GET", HOST + "/v1/items"))
    equal(new(url=NAMED, proxy=os.environ["PROXY"]).send("GET", HOST + "/v1/items").status, 200)
    equal(seen(), ["GET /v1/items", "GET /v1/items"])


def test_a_program_asks_and_reports(new):
    if new is not Urllib:  # without a library
        return
    gateway = ration.Gateway(job="asks", region="north")
    grant = gateway.spend("items.get", calls=2, idempotency_key="page 3")
    equal((grant.answer["calls"], grant.answer["limit"], grant.answer["budget"]), (2, 1000, "day"))
    equal(gateway.spend("items.get", calls=2, idempotency_key="page 3").token, grant.token)
    equal(grant.report(200, {"Content-Type": "text/plain"}, b"text", units=4)["units"], 4)
    equal(gateway.grant(grant.token).settle(5)["units"], 5)
    equal(grant.refund()["units"], 0)
    equal(raised(ration.Refused, lambda: gateway.spend("items.spent")).shortfall, 1)
    equal(raised(ration.Rejected, lambda: gateway.spend("items.got")).type, "unknown-method")
    equal(gateway.spend(verb="POST", url=HOST + "/v1/items").answer["method"], "items.insert")
    equal([gateway.limit("203.0.113.9", 2, "1h").allowed for _ in range(3)], [True, True, False])
    limit = gateway.limit("203.0.113.9", 2, "1h")
    assert limit.remaining == 0 and 0 < limit.retry_after <= 3600 and limit.retry_at > datetime.now(timezone.utc), limit


def test_a_copied_session_is_guarded(new):
    if new is Requests:
        equal(pickle.loads(pickle.dumps(new().session)).get(HOST + "/v1/items").status_code, 200)
        equal(seen(), ["GET /v1/items"])


def test_an_address_is_guarded_however_it_is_spelt(new):
    host = "https://www.example.com"
    for prefix, url, want in (
        (host + "/", "HTTPS://WWW.example.com/v1", True),
        ("https://WWW.example.com", host + ":443/v1", True),
        (host + ":443/v1/", "https://me:secret@www.example.com/v1/x", True),
        (host, host + ".example/v1", False),
        (host + "/v2/", host + "/v1", False),
        (host + "/", host + ":444/v1", False),
    ):
        equal((url, ration.covers(prefix, url)), (url, want))


failed = 0
for name, test in list(globals().items()):
    for new in (Requests, Httpx, AsyncHttpx, Aiohttp, Urllib) if name.startswith("test") else ():
        try:
            test(new)
        except Exception:
            print(f"{new.__name__}: {name}\n{traceback.format_exc(limit=-2)}", file=sys.stderr)
            seen()
            failed = 1
sys.exit(failed)
