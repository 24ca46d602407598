#!/bin/sh
# Build the Debian package from this checkout: deb.sh FOLDER [--tree]
# Puts the source tree as Debian wants it into FOLDER/tree, builds it there, and leaves duepost_*.deb in FOLDER. With
# --tree only the tree is made, which needs nothing but a shell: `apt-get build-dep FOLDER/tree` installs the rest.
# DEBFULLNAME and DEBEMAIL name the maintainer, SOURCE_DATE_EPOCH the time of the build.
set -eu
unset MAKEFLAGS OUT BUILD MODE # the package is built in a folder of its own, whatever the outer make was given
folder=$1
cd "$(dirname "$0")/../.."
tree=$folder/tree
package=docker/package
version=$(sed -n 's/^VERSION *:= *//p' Makefile)
# The libraries of each release have other versions: "0.1.0+debian12". A newer release's package is the newer one.
# shellcheck disable=SC1091
suffix=$(. /etc/os-release && echo "+$ID${VERSION_ID:-}")
maintainer="${DEBFULLNAME:-Duepost contributors} <${DEBEMAIL:-duepost@example.org}>"

fail() {
    echo "deb.sh: $*" >&2
    exit 1
}

# Only what a build needs, so that nothing half-done of the checkout comes along.
make_tree() {
    rm -rf "$tree"
    mkdir -p "$tree/docker"
    cp -r api lua src Makefile README.md CHANGELOG.md LICENSE "$tree/"
    cp -r $package "$tree/$package"
    mv "$tree/$package/debian" "$tree/debian"
    for file in service sysusers tmpfiles; do
        cp "$package/duepost.$file" "$tree/debian/duepost.$file"
    done
}

# CHANGELOG.md in Debian's form: its list items in lines of at most 78 bytes, under the version's head and foot.
write_changelog() {
    date=$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")
    awk -v suffix="$suffix" -v maintainer="$maintainer" -v date="$date" '
        function put_item(n, words, line, i) {
            n = split(item, words, " ")
            line = "  *"
            for (i = 1; i <= n; i++) {
                if (length(line " " words[i]) > 78) { print line; line = "   " }
                line = line " " words[i]
            }
            if (n > 0) print line
            item = ""
        }
        function end_version() {
            put_item()
            if (version != "") print "\n -- " maintainer "  " date "\n"
        }
        /^## \[[0-9]/ {
            end_version()
            version = $2
            gsub(/[][]/, "", version)
            print "duepost (" version suffix ") unstable; urgency=medium\n"
            next
        }
        /^- / { put_item(); item = substr($0, 3) }
        /^  [^ ]/ { item = item $0 }
        END { end_version() }' CHANGELOG.md >"$tree/debian/changelog"
    head -n 1 "$tree/debian/changelog" | grep -qF "($version$suffix)" ||
        fail "CHANGELOG.md does not begin with version $version of the Makefile"
}

# The years and holders, and the text as Debian wants it: indented, with a dot in an empty line.
write_copyright() {
    awk '
        /^Copyright/ { sub(/^Copyright \(c\) /, ""); print "Copyright: " $0; print "License: Expat"; is_text = 1; next }
        is_text && ($0 != "" || is_begun) { is_begun = 1; print ($0 == "" ? " ." : " " $0) }' LICENSE \
        >"$tree/debian/license"
    sed -i -e "/^@copyright@/{r $tree/debian/license" -e 'd}' "$tree/debian/copyright"
    rm "$tree/debian/license"
}

make_tree
write_changelog
write_copyright
sed -i "s|@maintainer@|$maintainer|" "$tree/debian/control"
chmod 755 "$tree/debian/rules"
[ "${2:-}" != --tree ] || exit 0

cd "$tree"
dpkg-buildpackage --build=binary --no-sign
rm -f ../duepost_*.buildinfo ../duepost_*.changes
ls -l ../duepost_*.deb
