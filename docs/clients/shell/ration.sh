# Guards the requests of curl with the gateway of ration (ration proxy, serve or
# exec). Source it:
#
#   . ./ration.sh
#   ration_curl https://api.example.com/v1/items -H 'Ration-Job: import' -o items.json || exit
#
# The address comes first, then curl's own arguments. The gateway is the one that
# RATION_URL names, http://127.0.0.1:8377 by default, or unix:PATH for a socket;
# RATION_TOKEN is its token, if it wants one. ration exec and command: steps set
# both. A request that a budget or a cooldown refuses was not sent: ration_curl
# says why on stderr and returns 75, which tells ration and cron to go on later.
# For any other error it returns what curl does with --fail: 22 for a status of
# 400 or more, and says why on stderr if that is the gateway's own answer. A
# redirect to a host that is not guarded is an error, and so is one that would
# take credentials to another host, or a request with a body anywhere. With
# --dump-header -, which leaves it no headers to read, it returns 22 for a refusal
# too: give a file.
ration_curl() (
  url=$1
  case ${url%%/*} in
    '') url=${url#/to/} ;; # of a Link header
    *:) url=${url#*://} ;;
  esac
  shift
  gateway=${RATION_URL:-http://127.0.0.1:8377}
  case $gateway in
    unix:*) set -- --unix-socket "${gateway#unix:}" "$@" && gateway=http://localhost ;;
    *) # all goes to the gateway: curl would send the token to wherever a redirect leads
      server=${gateway#*://} && server=${server%%/*}
      case $server in
        *]) server=$server: ;;
        *:*) ;;
        *) server=$server: ;;
      esac
      set -- --connect-to "::$server" "$@"
      ;;
  esac
  own=$(mktemp) || exit 1
  errors=$(mktemp) || exit 1
  trap 'rm -f "$own" "$errors"' EXIT
  headers=$own previous=
  redirects=50 repeatable=yes # by curl, to which all hosts are one; one by one with what may be credentials
  for argument; do
    case $previous in
      -D | --dump-header) headers=$argument ;; # the last one is curl's
      -H | --header)
        case $argument in
          @-) redirects=0 repeatable=no ;;
          @* | *[Aa][Uu][Tt][Hh]*:* | [Cc][Oo][Oo][Kk][Ii][Ee]:*) redirects=0 ;;
        esac
        ;;
    esac
    case $argument in
      --user-agent*) ;;
      --user* | --cookie* | --oauth2* | --netrc* | --config*) redirects=0 ;;
      --data* | --json* | --form* | --upload* | --request*) repeatable=no ;;
      --* | -H | -[oDwAe]*) ;; # with their values
      -*[ubnKH]*) redirects=0 ;;
    esac
    case $argument in
      --* | -[oDwAe]*) ;;
      -*[dFTX]*) repeatable=no ;;
    esac
    previous=$argument
  done
  [ "$headers" != - ] || headers=$own
  hops=0
  while :; do
    status=0
    # Every user of the host can read arguments: the token is not among them.
    curl --silent --show-error --fail --noproxy '*' --location --max-redirs "$redirects" --dump-header "$own" \
      --header @/dev/fd/3 "$@" "${gateway%/}/to/$url" 2>"$errors" 3<<TOKEN || status=$?
${RATION_TOKEN:+Ration-Token: $RATION_TOKEN}
TOKEN
    [ "$status" -eq 47 ] && [ "$redirects" -eq 0 ] && [ "$hops" -lt 20 ] || break
    location=$(sed -n 's/^[Ll]ocation: *//p' "$headers" | tr -d '\r' | tail -n 1)
    case $repeatable$location in
      yes/to/"${url%%[/?]*}"/*) url=${location#/to/} && hops=$((hops + 1)) ;;
      *) echo "a redirect to $location is not followed: the request has credentials" >"$errors" && break ;;
    esac
  done
  if [ "$status" -eq 22 ] && grep -qi '^ration-refused-by:' "$headers"; then
    echo "refused by $(sed -n 's/^[Rr]ation-[Rr]efused-[Bb]y: *//p' "$headers" | tr -d '\r'), try again in $(sed -n 's/^[Rr]etry-[Aa]fter: *//p' "$headers" | tr -d '\r') s" >&2
    exit 75
  fi
  cat "$errors" >&2
  [ "$status" -ne 22 ] || sed -n 's/^[Rr]ation-[Dd]etail: */ration: /p' "$headers" | tr -d '\r' >&2
  exit "$status"
)
