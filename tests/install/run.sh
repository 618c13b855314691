#!/bin/sh
# run.sh BUILD VERSION - installs weft into an empty folder and builds programs against it from
# outside the tree: with pkg-config in C and C++, shared and static, and with CMake.
set -u
build=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
number=0 status=0

# step NAME COMMAND... - one TAP line.
step() {
    name=$1
    shift
    number=$((number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        printf '%s\n' "$output" | sed 's/^/# /'
        status=1
    fi
}

skip() {
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

install_it() {
    meson install -C "$build" --no-rebuild --destdir "$work/stage" >/dev/null || return 1
    # The package must be found where it is now, not where it was configured to be.
    pc=$(find "$work/stage" -name weft.pc) && [ -n "$pc" ] || return 1
    libdir=$(dirname "$(dirname "$pc")")
}

check_run() {
    LD_LIBRARY_PATH=$libdir "$1" "$version"
}

with_pkg_config() { # COMPILER SOURCE PROGRAM
    # shellcheck disable=SC2046 # a list of words
    $1 -Wall -Wextra -Werror "$here/$2" -o "$work/$3" $(pkg-config --cflags --libs weft) &&
        check_run "$work/$3"
}

with_static() {
    # shellcheck disable=SC2046
    cc -Wall -Wextra -Werror "$here/consumer.c" -o "$work/static" \
        $(pkg-config --cflags --libs --static weft | sed 's/-lweft/-l:libweft.a/') &&
        ! readelf -d "$work/static" | grep -q 'NEEDED.*libweft' && check_run "$work/static"
}

with_cmake() {
    mkdir "$work/project" && cp "$here"/consumer.c "$here"/consumer.cc "$here"/CMakeLists.txt \
        "$work/project" &&
        cmake -S "$work/project" -B "$work/cmake" -DCMAKE_PREFIX_PATH="${libdir%/lib*}" &&
        cmake --build "$work/cmake" &&
        for program in consumer_c consumer_cc consumer_static; do
            check_run "$work/cmake/$program" || return 1
        done
}

refuses_other_series() {
    mkdir "$work/refused" && cat >"$work/refused/CMakeLists.txt" <<'END' || return 1
cmake_minimum_required(VERSION 3.16)
project(refused C)
find_package(weft 999.0 REQUIRED)
END
    ! cmake -S "$work/refused" -B "$work/refused-build" -DCMAKE_PREFIX_PATH="${libdir%/lib*}"
}

step 'install' install_it
libdir=$(dirname "$(dirname "$(find "$work/stage" -name weft.pc)")")
export PKG_CONFIG_PATH="$libdir/pkgconfig"
step 'pkg-config knows the version' pkg-config --exact-version="$version" weft
step 'pkg-config, C' with_pkg_config cc consumer.c shared_c
if command -v c++ >/dev/null; then
    step 'pkg-config, C++' with_pkg_config c++ consumer.cc shared_cc
else
    skip 'pkg-config, C++' 'there is no C++ compiler'
fi
step 'pkg-config, static' with_static
if command -v cmake >/dev/null; then
    step 'CMake' with_cmake
    step 'CMake refuses another version' refuses_other_series
else
    skip 'CMake' 'there is no cmake'
    skip 'CMake refuses another version' 'there is no cmake'
fi
echo "1..$number"
exit $status
