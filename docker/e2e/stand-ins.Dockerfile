# Images that e2e.sh makes when no registry can be reached: Debian's packages, called and used as the usual ones are.
FROM debian:trixie-slim AS redis
RUN apt-get update -q && apt-get install -y -q --no-install-recommends redis-server && apt-get clean \
    && install -d -o redis -g redis /data
WORKDIR /data
USER redis
CMD ["redis-server", "--protected-mode", "no"]

FROM debian:trixie-slim AS valkey
RUN apt-get update -q && apt-get install -y -q --no-install-recommends valkey-server && apt-get clean \
    && install -d -o valkey -g valkey /data
WORKDIR /data
USER valkey
CMD ["valkey-server", "--protected-mode", "no"]

FROM debian:trixie-slim AS haproxy
RUN apt-get update -q && apt-get install -y -q --no-install-recommends haproxy && apt-get clean
USER haproxy
STOPSIGNAL SIGUSR1
CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]

FROM debian:trixie-slim AS prometheus
RUN apt-get update -q && apt-get install -y -q --no-install-recommends prometheus && apt-get clean \
    && install -d -o nobody -g nogroup /prometheus
USER nobody
ENTRYPOINT ["prometheus"]
