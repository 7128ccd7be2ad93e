#!/bin/sh
# Asks for videos until the budget is spent: prints how many answers came.
. "$(dirname "$0")/ration.sh"

url='https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN'
answers=0 status=0
while [ "$status" -eq 0 ]; do
  ration_curl "$url" -H 'Ration-Job: shell' -o /dev/null && answers=$((answers + 1)) || status=$?
done
[ "$status" -ne 75 ] || echo "$answers"
exit "$status"
