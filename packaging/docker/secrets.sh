#!/usr/bin/env bash
# Makes the secrets of docker-compose.yml, unless they are there: a password, and
# the users of the cache (the user `tidekv` with the same password).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# The containers run as three different users and read the files through bind
# mounts, so the files are readable by all and the directory by its owner only.
install -d -m 700 secrets
if [ ! -s secrets/password ]; then
    (umask 022 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >secrets/password)
fi
if [ ! -s secrets/users ]; then
    (umask 022 && printf 'tidekv:%s\n' "$(cat secrets/password)" >secrets/users)
fi
echo "secrets/password and secrets/users are there"
