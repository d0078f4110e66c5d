#!/usr/bin/env bash
# Drives a server with nothing but `buf curl`, which learns the services by reflection.
set -euo pipefail
server=http://$1

call() { # METHOD JSON
  buf curl --protocol grpc --http2-prior-knowledge --data "$2" "$server/openenv_grpc.v1.$1"
}
field() { # NAME, of a JSON object on standard input
  python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

buf curl --protocol grpc --http2-prior-knowledge --list-services "$server"

session=$(call EpisodeService/Open '{}' | field sessionId)
call EpisodeService/Reset "{\"sessionId\": \"$session\"}"
action='{"json": "{\"message\": \"hi\"}"}'
call EpisodeService/Step "{\"sessionId\": \"$session\", \"action\": $action}"
call EpisodeService/Close "{\"sessionId\": \"$session\"}"

# The same on the stream, where session 0 needs no `open`.
call SessionService/Connect "
  {\"operations\": [{\"resetEpisode\": {}}]}
  {\"operations\": [{\"step\": {\"action\": $action}}, {\"getState\": {}}]}"
