"""Asks for videos until the budget is spent: prints how many answers came."""

import asyncio
import json
import sys

import ration

HOST = "https://www.googleapis.com/"
URL = HOST + "youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN"


def with_requests():
    import ration.requests
    import requests

    session = requests.Session()
    session.mount(HOST, ration.requests.Adapter(job="python"))
    return lambda: session.get(URL).raise_for_status()


def with_httpx():
    import httpx
    import ration.httpx

    client = httpx.Client(mounts={HOST: ration.httpx.Transport(job="python")}, timeout=120)  # its own is 5 s
    return lambda: client.get(URL).raise_for_status()


def with_aiohttp():
    import ration.aiohttp

    loop = asyncio.new_event_loop()

    async def get():
        async with ration.aiohttp.session(HOST, job="python", raise_for_status=True) as session:
            await (await session.get(URL)).read()

    return lambda: loop.run_until_complete(get())


def with_urllib():
    import ration.urllib

    opener = ration.urllib.opener(HOST, job="python")
    return lambda: json.load(opener.open(URL))


get = globals()["with_" + (sys.argv[1:] or ["requests"])[0]]()
answers = 0
try:
    while True:
        get()
        answers += 1
except ration.Refused as refused:
    print(answers)
    print("stopped until", refused.retry_at, file=sys.stderr)
    sys.exit(ration.EXIT_STOPPED)
