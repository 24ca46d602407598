# Duepost in a container, on Debian slim: `docker build -t duepost .`, or with `--build-arg DEBIAN=bookworm`.
#
# The image is complete: with a volume at /data and nothing else it runs with a Redis of its own (9 MB of the image);
# with DUEPOST_REDIS it uses yours. docker/README.md says how to run it.
ARG DEBIAN=trixie

FROM debian:${DEBIAN}-slim AS build
WORKDIR /build
# What a build needs is said in one place, deps.sh. It comes first: sources change more often than what they need.
COPY tests/support/deps.sh tests/support/
RUN apt-get update -q && apt-get install -y -q --no-install-recommends make && sh tests/support/deps.sh build
COPY Makefile ./
COPY api api
COPY lua lua
COPY src src
RUN make -j"$(nproc)" && strip -o duepost build/release/duepost
# The packages of the libraries it was linked with. Their names differ from one Debian to the next, so they are asked
# for; by the file's name alone, since /lib may be a link to /usr/lib.
RUN objdump -p duepost | sed -n 's/^ *NEEDED *//p' | sed 's|^|*/|' | xargs dpkg-query -S | cut -d: -f1 | sort -u \
    >packages && cat packages

FROM debian:${DEBIAN}-slim
COPY --from=build /build/packages /tmp/packages
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive xargs -a /tmp/packages \
        apt-get install -y -q --no-install-recommends ca-certificates redis-server \
    && apt-get clean \
    && rm -rf /tmp/packages /var/lib/apt/lists/* /var/log/* /var/cache/debconf/*-old \
    && echo 'duepost:x:10001:10001::/data:/usr/sbin/nologin' >>/etc/passwd \
    && echo 'duepost:x:10001:' >>/etc/group \
    && install -d -m 700 -o 10001 -g 10001 /data
COPY --from=build /build/duepost /usr/local/bin/duepost
COPY LICENSE /usr/share/doc/duepost/copyright

ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Duepost" \
      org.opencontainers.image.description="A delayed-task gateway: POST a task, it arrives as a webhook when it is due" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="MIT"

# Nothing but /data is written, so the root file system may be read-only. /data is no VOLUME: with a Redis of your own
# it stays empty, and every container would leave a nameless volume behind.
ENV DUEPOST_LISTEN=0.0.0.0:8080 \
    DUEPOST_DATA_DIR=/data
WORKDIR /data
USER 10001:10001
EXPOSE 8080
# SIGTERM lets what is in flight end, for drain-timeout (30 s): give `docker stop` more time than its own 10 s.
STOPSIGNAL SIGTERM
# Asks /readyz at the address in the environment: set the address there and not by a flag.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["duepost", "healthcheck"]
ENTRYPOINT ["duepost"]
CMD ["serve"]
