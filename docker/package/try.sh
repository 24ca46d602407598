#!/bin/bash
# Try the Debian package on bare systems: try.sh SUITE [TARBALL], SUITE being bookworm, trixie or noble. As root, with
# mmdebstrap and a systemd that can run in namespaces; the machine itself is not touched.
#
# One bare system builds the package from the last commit, with what it declares and nothing else, and a second one
# installs it with apt. That one is booted, and try_inside.sh looks at the service: it starts, delivers, is upgraded,
# stops, is purged.
# COMMIT is another one than the last; TARBALL is a bare system made before, by `mmdebstrap --variant=apt SUITE TARBALL`.
set -u
here=$(cd "$(dirname "$0")" && pwd)

# --- in namespaces of its own: boot the system in folder $2 ---------------------------------------------------------

device() { # NAME MAJOR MINOR
    mknod -m 666 "$root/dev/$1" c "$2" "$3"
}

boot() {
    root=$1
    ip link set lo up
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    device null 1 3 && device zero 1 5 && device full 1 7 && device random 1 8 && device urandom 1 9 && device tty 5 0
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    # Not only chroot, in which the kernel allows no user namespaces and with them no PrivateUsers.
    cd "$root" && pivot_root . mnt &&
        exec chroot . env -i container=duepost-try PATH="$inside_path" \
            sh -c 'umount -l /mnt && exec /lib/systemd/systemd' </dev/null >/dev/null 2>&1
}

# A cgroup of its own becomes the root of the one that is booted. $1/mnt is a place to mount what is needed for a moment.
boot_apart() {
    mount -t cgroup2 cgroup2 "$1/mnt"
    mkdir "$1/mnt/duepost-try-$$"
    echo 0 >"$1/mnt/duepost-try-$$/cgroup.procs"
    umount "$1/mnt"
    exec unshare --pid --fork --kill-child --net --uts --ipc --cgroup --mount bash "$0" --boot "$1"
}

inside_path=/usr/sbin:/usr/bin:/sbin:/bin
case ${1:-} in
--boot) boot "$2" ;;
--boot-apart) boot_apart "$2" ;;
"") echo "usage: $0 SUITE [TARBALL]" >&2; exit 2 ;;
esac

# --- the machine's side ---------------------------------------------------------------------------------------------

suite=$1
tarball=${2:-}
work=$(mktemp -d /var/tmp/duepost-try-XXXXXX)
guest=
init=
passed=0
failed=0

end_guest() {
    kill -9 "${init:-$guest}" # with its init all of a PID namespace ends
    wait "$guest"
    mount -t cgroup2 cgroup2 "$work/install/mnt"
    find "$work/install/mnt/duepost-try-$guest" -depth -type d -exec rmdir {} +
    umount "$work/install/mnt"
}
finish() {
    [ -z "$guest" ] || end_guest 2>/dev/null
    for root in "$work/build" "$work/install"; do
        umount -l "$root/proc" 2>/dev/null
    done
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' HUP INT TERM

check() { # NAME COMMAND...: count it; what it said is shown when it fails
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        tail -n 30 "$work/log" | sed 's/^/        /'
        return 1
    fi
}
sum() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
in_root() { # ROOT COMMAND...: a root's own environment, not the caller's
    local root=$1
    shift
    chroot "$root" env -i PATH=$inside_path HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
make_root() { # ROOT
    mkdir "$1" && tar -xf "$tarball" -C "$1" --exclude='./dev/*' && cp /etc/resolv.conf /etc/hosts "$1/etc/" &&
        mknod -m 666 "$1/dev/null" c 1 3 && mount -t proc proc "$1/proc" && in_root "$1" apt-get update
}
install_in() { # ROOT PACKAGE...
    in_root "$1" apt-get install -y --no-install-recommends "${@:2}"
}

echo "--- the package on $suite"
if [ -z "$tarball" ]; then
    tarball=$work/bare.tar
    check "a bare system is made" mmdebstrap --variant=apt "$suite" "$tarball" || sum
fi

copy_commit() {
    mkdir "$work/build/duepost" && git -C "$here/../.." archive "${COMMIT:-HEAD}" | tar -x -C "$work/build/duepost"
}
build() { in_root "$work/build" sh -c "cd /duepost && $1"; }
lint() {
    install_in "$work/build" lintian && build 'lintian --fail-on error,warning --display-info build/deb/duepost_*.deb'
}

check "a bare system is there to build on" make_root "$work/build" || sum
check "the last commit is copied" copy_commit || sum
check "the source tree is made" build 'sh docker/package/deb.sh build/deb --tree' || sum
check "what the package declares can be installed" \
    in_root "$work/build" apt-get build-dep -y --no-install-recommends /duepost/build/deb/tree || sum
check "the package builds with that" build 'sh docker/package/deb.sh build/deb' || sum
check "lintian finds no errors and no warnings" lint

check "a bare system is there to install on" make_root "$work/install" || sum
cp "$work"/build/duepost/build/deb/duepost_*.deb "$work/install/root/duepost.deb"
cp "$here/try_inside.sh" "$work/install/root/"
check "apt installs it from the file, with a redis-server" \
    in_root "$work/install" apt-get install -y /root/duepost.deb || sum
check "the program runs" in_root "$work/install" duepost --version
install_in "$work/install" curl procps >"$work/log" 2>&1 || { cat "$work/log"; failed=$((failed + 1)); sum; }
umount "$work/install/proc"

unshare --mount bash "$0" --boot-apart "$work/install" 2>"$work/boot" &
guest=$!
for ((i = 0; i < 100; i++)); do
    init=$(pgrep -P "$guest" -x systemd) && break
    sleep 0.1
done
has_booted() { [ -n "$init" ] || { cat "$work/boot"; return 1; }; }
check "the system boots" has_booted || sum
nsenter --target "$init" --all --root --wd env -i PATH=$inside_path LC_ALL=C.UTF-8 bash /root/try_inside.sh |
    tee "$work/inside" | grep -v '^end$'
passed=$((passed + $(grep -c '^ok ' "$work/inside")))
failed=$((failed + $(grep -c '^FAILED ' "$work/inside")))
grep -q '^end$' "$work/inside" || check "the checks inside come to their end" false
sum
