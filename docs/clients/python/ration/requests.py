"""Guards the requests of requests.

    session = requests.Session()
    session.mount("https://api.example.com/", ration.requests.Adapter(job="import"))
    items = session.get("https://api.example.com/v1/items").json()
"""

import requests.adapters
from requests.utils import should_bypass_proxies

from . import Gateway, error_of, lead_back


class Adapter(requests.adapters.HTTPAdapter):
    """Mount it on a session for the addresses to guard.

    The arguments are those of ration.Gateway, and others of HTTPAdapter. verify,
    cert and proxies of a request are for the connection to the gateway.
    """

    __attrs__ = [*requests.adapters.HTTPAdapter.__attrs__, "gateway"]  # of a pickled one

    def __init__(self, job=None, region=None, lane=None, key=None, max_wait=None, url=None, token=None, **options):
        self.gateway = Gateway(job, region, lane, key, max_wait, url, token)
        super().__init__(**options)

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
        inner = request.copy()
        inner.upstream = request
        inner.url = self.gateway.through(request.url)
        inner.headers.update(self.gateway.headers)
        if self.gateway.is_local or should_bypass_proxies(inner.url, no_proxy=None):
            proxies = None
        response = super().send(inner, stream, timeout, verify, cert, proxies)
        if "Ration-Detail" in response.headers:
            raise error_of(response.status_code, response.headers, response.content)
        return response

    def build_response(self, request, response):
        upstream = getattr(request, "upstream", request)
        headers = list(lead_back(upstream.url, response.headers.items()))
        response.headers.clear()
        for name, value in headers:
            response.headers.add(name, value)
        original = getattr(response, "_original_response", None)
        if original:  # requests reads cookies from it
            del original.msg["Set-Cookie"]
            for name, value in headers:
                if name.lower() == "set-cookie":
                    original.msg[name] = value
        return super().build_response(upstream, response)
