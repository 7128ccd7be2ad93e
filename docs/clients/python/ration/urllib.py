"""Guards the requests of urllib, with the standard library alone.

    opener = ration.urllib.opener("https://api.example.com/", job="import")
    items = json.load(opener.open("https://api.example.com/v1/items"))
"""

import http.client
import urllib.request

from . import Gateway, covers, error_of, lead_back


def opener(prefix, **caller):
    """An opener whose requests to addresses with prefix are guarded. caller is as in ration.Gateway."""
    return urllib.request.build_opener(_Handler(prefix, Gateway(**caller)), _Redirect)


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
        if not covers(self.prefix, url):
            return None  # the next handler's
        headers = {**dict(request.header_items()), **self.gateway.headers}
        headers.pop("Host", None)
        inner = urllib.request.Request(self.gateway.through(url), request.data, headers, method=request.get_method())
        inner.timeout = request.timeout
        connection = http.client.HTTPSConnection if inner.type == "https" else http.client.HTTPConnection
        response = self.do_open(connection, self.do_request_(inner))
        if "Ration-Detail" in response.headers:
            raise error_of(response.status, response.headers, response.read())
        answered = list(lead_back(url, response.headers.items()))
        links = ", ".join(value for name, value in answered if name.lower() == "link")
        for name, _ in answered:
            del response.headers[name]
        for name, value in answered:
            if name.lower() != "link":
                response.headers[name] = value
        if links:
            response.headers["Link"] = links
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
