"""Guards the requests of aiohttp.

    async with ration.aiohttp.session("https://api.example.com/", job="import") as session:
        async with session.get("https://api.example.com/v1/items") as response:
            items = await response.json()
"""

from http.cookies import SimpleCookie

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from . import Gateway, covers, error_of, lead_back


def session(prefix, job=None, region=None, lane=None, key=None, max_wait=None, url=None, token=None, **options):
    """A ClientSession whose requests to addresses with prefix are guarded.

    The arguments are those of ration.Gateway, and others of ClientSession. ssl
    and proxy of a request are for the connection to the gateway.
    """
    gateway = Gateway(job, region, lane, key, max_wait, url, token)

    class Guarded(aiohttp.ClientRequest):
        def __init__(self, method, url, **rest):
            super().__init__(method, url, **rest)
            if not covers(prefix, str(self.original_url)):
                return
            self.url = URL(gateway.through(str(self.url)), encoded=True)
            self.headers["Host"] = self.url.authority
            self.headers.update(gateway.headers)
            self.response_class = _Response
            if gateway.is_local:
                self.proxy = None

    return aiohttp.ClientSession(request_class=Guarded, **options)


class _Response(aiohttp.ClientResponse):
    async def start(self, connection):
        await super().start(connection)
        if "Ration-Detail" in self.headers:
            raise error_of(self.status, self.headers, await self.read())
        headers = CIMultiDict(lead_back(str(self.url), self.headers.items()))
        self._headers = CIMultiDictProxy(headers)
        self._cache.pop("headers", None)
        cookies = SimpleCookie()
        for cookie in headers.getall("Set-Cookie", ()):
            cookies.load(cookie)
        self.cookies = cookies
        return self
