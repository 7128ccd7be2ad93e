"""Guard HTTP requests with the gateway of ration (ration proxy, serve or exec).

    session = requests.Session()
    session.mount("https://api.example.com/", ration.Adapter(job="import"))
    items = session.get("https://api.example.com/v1/items").json()

or, with the standard library alone:

    opener = ration.opener("https://api.example.com/", job="import")
    items = json.load(opener.open("https://api.example.com/v1/items"))

The gateway is the one that RATION_URL names, http://127.0.0.1:8377 by default;
RATION_TOKEN is its token, if it wants one. ration exec and command: steps set
both. A request that a budget or a cooldown refuses was not sent, and raises
Refused.
"""

import http.client
import json
import os
import urllib.parse
import urllib.request

EXIT_STOPPED = 75  # the exit code that tells ration and cron: go on later


class Refused(Exception):
    """The call does not fit its budget now. It was not sent, and cost nothing."""

    def __init__(self, problem, retry_after):
        super().__init__(problem.get("why") or problem.get("detail") or "refused")
        self.budget = problem.get("budget")
        self.retry_at = problem.get("retry_at")  # RFC 3339
        self.retry_after = retry_after  # seconds


class _Gateway:
    def __init__(self, job=None, region=None, lane=None, max_wait=None):
        self.url = os.environ.get("RATION_URL", "http://127.0.0.1:8377").rstrip("/")
        if not self.url.startswith("http://"):
            raise ValueError("RATION_URL: Python's clients need an http:// address, not " + self.url)
        named = {
            "Ration-Token": os.environ.get("RATION_TOKEN"),
            "Ration-Job": job,
            "Ration-Region": region,
            "Ration-Lane": lane,
            "Ration-Max-Wait": max_wait,
        }
        self.headers = {name: str(value) for name, value in named.items() if value is not None}

    def through(self, url):
        """The address of the gateway for the upstream's url."""
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        query = "?" + parts.query if parts.query else ""
        return self.url + "/to/" + host + (parts.path or "/") + query

    def lead_back(self, url, headers):
        """Turns redirects and links that lead to the gateway into the upstream's addresses."""
        upstream = urllib.parse.urlsplit(url).scheme + "://"
        location, links = headers.get("Location") or "", headers.get("Link") or ""
        if location.startswith("/to/"):
            del headers["Location"]
            headers["Location"] = upstream + location[len("/to/") :]
        if "</to/" in links:
            del headers["Link"]
            headers["Link"] = links.replace("</to/", "<" + upstream)


def _covers(prefix, url):
    """Whether the address url begins with prefix, however its host is spelt."""
    covering, parts = urllib.parse.urlsplit(prefix), urllib.parse.urlsplit(url)
    ports = {"http": 80, "https": 443}
    servers = {(p.scheme, p.hostname, p.port or ports.get(p.scheme)) for p in (covering, parts)}
    return len(servers) == 1 and (parts.path or "/").startswith(covering.path)


def _own_cookies(message):
    """Gives cookies the paths at the upstream, which the gateway has put behind /to/HOST."""
    cookies = message.get_all("Set-Cookie", [])
    del message["Set-Cookie"]
    for cookie in cookies:
        head, found, path = cookie.rpartition("; Path=/to/")
        message["Set-Cookie"] = head + "; Path=/" + path.partition("/")[2] if found else cookie


def _refused(status, headers, read):
    if status == 429 and headers.get("Ration-Refused-By"):
        problem = read() or json.dumps({"detail": headers.get("Ration-Detail")})  # without a body: of HEAD
        return Refused(json.loads(problem), int(headers.get("Retry-After", "1")))
    return None


class _Handler(urllib.request.AbstractHTTPHandler):  # beside the HTTPHandler, which sends the rest
    handler_order = 100  # before the one that would send the request itself

    def __init__(self, prefix, gateway):
        super().__init__()
        self.prefix, self.gateway = prefix, gateway

    def https_open(self, request):
        return self._open(request)

    def http_open(self, request):
        return self._open(request)

    def _open(self, request):
        url = request.full_url
        if not _covers(self.prefix, url):
            return None  # the next handler's
        headers = {**dict(request.header_items()), **self.gateway.headers}
        headers.pop("Host", None)
        inner = urllib.request.Request(self.gateway.through(url), request.data, headers, method=request.get_method())
        inner.timeout = request.timeout
        response = self.do_open(http.client.HTTPConnection, self.do_request_(inner))
        refused = _refused(response.status, response.headers, response.read)
        if refused:
            raise refused
        links = response.headers.get_all("Link", [])
        if links:
            del response.headers["Link"]
            response.headers["Link"] = ", ".join(links)
        self.gateway.lead_back(url, response.headers)
        _own_cookies(response.headers)
        response.url = url
        return response

    https_request = urllib.request.AbstractHTTPHandler.do_request_
    http_request = urllib.request.AbstractHTTPHandler.do_request_


class _Redirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, *answer):
        following = super().redirect_request(request, *answer)
        if following and following.host != request.host:  # which must not learn them
            following.remove_header("Authorization")
            following.remove_header("Cookie")
        return following


def opener(prefix, **caller):
    """An opener of urllib whose requests to addresses with prefix are guarded.

    job, region and lane say who calls; max_wait is how long a request may wait
    for its units, as in "30s".
    """
    return urllib.request.build_opener(_Handler(prefix, _Gateway(**caller)), _Redirect)


try:
    import requests.adapters
except ImportError:  # the opener needs only the standard library
    pass
else:

    class Adapter(requests.adapters.HTTPAdapter):
        """Mount it on a session for the addresses to guard; see opener."""

        __attrs__ = [*requests.adapters.HTTPAdapter.__attrs__, "gateway"]  # of a pickled one

        def __init__(self, job=None, region=None, lane=None, max_wait=None, **options):
            self.gateway = _Gateway(job, region, lane, max_wait)
            super().__init__(**options)

        def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
            inner = request.copy()
            inner.upstream = request
            inner.url = self.gateway.through(request.url)
            inner.headers.update(self.gateway.headers)
            response = super().send(inner, stream=stream, timeout=timeout)
            refused = _refused(response.status_code, response.headers, lambda: response.content)
            if refused:
                raise refused
            self.gateway.lead_back(request.url, response.headers)
            return response

        def build_response(self, request, response):
            original = getattr(response, "_original_response", None)
            if original:  # requests reads cookies from it
                _own_cookies(original.msg)
                response.headers.discard("Set-Cookie")
                for cookie in original.msg.get_all("Set-Cookie", []):
                    response.headers.add("Set-Cookie", cookie)
            return super().build_response(getattr(request, "upstream", request), response)
