# glibc is needed: on musl the SDK's wheel comes without its CLI.
ARG BASE_IMAGE=python:3.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
WORKDIR /srv/runtally
RUN python -m venv /opt/venv
COPY requirements-runtime.lock ./
RUN /opt/venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements-runtime.lock
COPY LICENSE NOTICE ./
COPY app ./app
COPY runtally ./runtally
COPY migrations ./migrations
COPY docs ./docs
COPY .env.example ./
RUN python -m compileall -q app runtally migrations \
    && printf '#!/bin/sh\nexec /opt/venv/bin/python -m app "$@"\n' > /opt/venv/bin/runtally \
    && chmod 0755 /opt/venv/bin/runtally

FROM ${BASE_IMAGE}
# For graphs with native tools; the engine must allow user namespaces.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap socat \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --create-home --home-dir /home/runtally --uid 10001 runtally \
    && install -d -o runtally -g runtally -m 0700 /var/lib/runtally
COPY --from=build /opt/venv /opt/venv
COPY --from=build /srv/runtally /srv/runtally
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/srv/runtally \
    PYTHONUNBUFFERED=1 \
    RUNTALLY_DATA_DIR=/var/lib/runtally
WORKDIR /srv/runtally
# By number, so that an orchestrator can see that it is not root.
USER 10001
VOLUME /var/lib/runtally
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["runtally", "serve", "--host", "0.0.0.0"]
