"""Asks for videos until the budget is spent: prints how many answers came."""

import json
import sys

import ration

URL = "https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN"


def with_requests():
    import requests

    session = requests.Session()
    session.mount("https://www.googleapis.com/", ration.Adapter(job="python"))
    return lambda: session.get(URL).raise_for_status()


def with_urllib():
    opener = ration.opener("https://www.googleapis.com/", job="python")
    return lambda: json.load(opener.open(URL))


get = with_urllib() if sys.argv[1:] == ["urllib"] else with_requests()
answers = 0
try:
    while True:
        get()
        answers += 1
except ration.Refused as refused:
    print(answers)
    print("stopped until", refused.retry_at, file=sys.stderr)
    sys.exit(ration.EXIT_STOPPED)
