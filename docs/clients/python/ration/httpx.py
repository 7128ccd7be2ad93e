"""Guards the requests of httpx.

    client = httpx.Client(mounts={"https://api.example.com": ration.httpx.Transport(job="import")})
    items = client.get("https://api.example.com/v1/items").json()

AsyncTransport does so for httpx.AsyncClient. The arguments are those of
ration.Gateway, and others of httpx.HTTPTransport: verify, cert and proxy are for
the connection to the gateway.
"""

import httpx

from . import Gateway, error_of, lead_back


class _Guard:
    def __init__(self, job=None, region=None, lane=None, key=None, max_wait=None, url=None, token=None, **options):
        self.gateway = Gateway(job, region, lane, key, max_wait, url, token)
        super().__init__(**options)

    def _inner(self, request):
        url = httpx.URL(self.gateway.through(str(request.url)))
        headers = httpx.Headers(request.headers)
        headers.update({**self.gateway.headers, "Host": url.netloc.decode()})
        return httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)

    def _answered(self, request, response):
        response.headers = httpx.Headers(list(lead_back(str(request.url), response.headers.multi_items())))
        return response


class Transport(_Guard, httpx.HTTPTransport):
    """A transport for httpx.Client."""

    def handle_request(self, request):
        response = super().handle_request(self._inner(request))
        if "Ration-Detail" in response.headers:
            body = response.read()
            response.close()
            raise error_of(response.status_code, response.headers, body)
        return self._answered(request, response)


class AsyncTransport(_Guard, httpx.AsyncHTTPTransport):
    """A transport for httpx.AsyncClient."""

    async def handle_async_request(self, request):
        response = await super().handle_async_request(self._inner(request))
        if "Ration-Detail" in response.headers:
            body = await response.aread()
            await response.aclose()
            raise error_of(response.status_code, response.headers, body)
        return self._answered(request, response)
