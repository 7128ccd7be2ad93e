# docker build -t ration .   docs/deploy/README.md says how to run it.
# A tag is for people; pin both by digest where you build releases.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=true -ldflags="-s -w" -o /ration ./cmd/ration
# Owned by root, for the folders that only root may change: ration refuses others.
RUN mkdir -p /tree/etc/ration /tree/var/lib && cd /tree/var/lib && mkdir -m 0700 ration && chown 65532:65532 ration

# It has CA certificates and no shell. ration brings the time zones itself.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /ration /usr/bin/ration
COPY --from=build /tree/ /
COPY --from=build /src/LICENSE /usr/share/doc/ration/LICENSE
ENV RATION_CONFIG=/etc/ration RATION_STATE=/var/lib/ration
USER 65532:65532
VOLUME /var/lib/ration
ENTRYPOINT ["/usr/bin/ration"]
CMD ["serve", "--listen", "none"]
