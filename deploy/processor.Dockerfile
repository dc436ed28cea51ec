# A template for the image of your processor. Copy it to the root of your module, next to go.mod:
#
#     docker build --build-arg PROGRAM=./cmd/mailer -t mailer .
#
# It runs as a user without rights, and its root file system may be read-only. The program serves
# changefeed.HealthHandler on port 8080, as examples/host does.
FROM golang:1.26 AS build
# PROGRAM is the package of your program.
ARG PROGRAM=.
WORKDIR /src
# The modules are downloaded again only if these files change.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/processor ${PROGRAM}

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/processor /processor
USER 65532:65532
# /alive, /ready and /metrics.
EXPOSE 8080
# It ends Run's context: the host drains and releases its leases. Give it more time than
# Config.DrainTimeout and twice Config.RequestTimeout: docker stop --time 60.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/processor"]
