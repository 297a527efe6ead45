#!/bin/sh
# Submit a job script to "the queue" of this machine: start it in the background and print an id, as a scheduler's
# submit command does. Used by profiles/local-cluster.
set -eu
nohup sh "$1" > "$1.out" 2>&1 < /dev/null &
echo "$!"
