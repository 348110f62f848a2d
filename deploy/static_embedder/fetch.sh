#!/bin/sh
# Fetch the packages in sources.txt into FOLDER with each registry's ordinary client.
# usage: fetch.sh FOLDER        (run it again after a failed transfer: it keeps what it has fetched)
set -u
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
into=$(cd "$1" && pwd)

unpacked() { [ -d "$into/$1" ] && [ -n "$(ls -A "$into/$1" 2>/dev/null)" ]; }
named() { printf '%s' "$1" | sed 's/==.*//; s/\(.\)@.*/\1/' | tr '/:@' '___'; } # the folder, without the version

fetch() { # registry package folder
    tmp=$(mktemp -d)
    (
        cd "$tmp" || exit 1
        case $1 in
        pip) python3 -m pip download -q --no-deps --disable-pip-version-check "$2" ;;
        npm) npm pack --silent "$2" >/dev/null ;;
        go) GOMODCACHE="$tmp/go" GOFLAGS=-modcacherw go mod download "$2" ;;
        maven) mvn -q dependency:copy -Dartifact="$2:jar:sources" -DoutputDirectory="$tmp" ;;
        deb) apt-get download -q "$2" >/dev/null ;;
        esac
    ) || { echo "not fetched: $1 $2" >&2; rm -rf "$tmp"; return; }
    mkdir -p "$into/$3"
    for file in "$tmp"/*; do
        case $file in
        *.whl | *.jar | *.zip) python3 -m zipfile -e "$file" "$into/$3" ;;
        *.tar.gz | *.tgz) tar -xzf "$file" -C "$into/$3" ;;
        *.deb) dpkg-deb -x "$file" "$into/$3" ;;
        */go) cp -r "$file/." "$into/$3" && rm -rf "$into/$3/cache" ;;
        esac
    done
    rm -rf "$tmp"
}

crates() { # all crates through one manifest, because cargo fetches no single crate
    unpacked cargo && return
    tmp=$(mktemp -d)
    mkdir -p "$tmp/src" && : >"$tmp/src/lib.rs"
    printf '[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n' >"$tmp/Cargo.toml"
    sed -n 's/^cargo \(.*\)@\(.*\)/\1 = "=\2"/p' "$here/sources.txt" >>"$tmp/Cargo.toml"
    (cd "$tmp" && cargo vendor -q "$into/cargo" >/dev/null) || echo "not fetched: cargo" >&2
    rm -rf "$tmp"
}

grep -Ev '^(#|$|cargo )' "$here/sources.txt" | while read -r registry package; do
    folder=$registry/$(named "$package")
    unpacked "$folder" || fetch "$registry" "$package" "$folder" </dev/null
done
crates
