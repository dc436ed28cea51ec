# changefeed serve in an image that Testcontainers' modules start instead of Microsoft's
# emulator: in memory, with its ports, arguments, variables and messages. Build it from the root
# of a clone:
#
#     docker build -f deploy/testcontainers.Dockerfile -t changefeed-testcontainers .
FROM golang:1.26 AS build
# VERSION is what --version prints, for instance v0.1.0.
ARG VERSION
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w -X main.buildVersion=${VERSION}" -o /out/changefeed ./cmd/changefeed

FROM scratch
COPY --from=build /out/changefeed /changefeed
USER 65532:65532
EXPOSE 8081 8080
# There is no CMD, because the modules replace it.
ENTRYPOINT ["/changefeed", "emulate"]
