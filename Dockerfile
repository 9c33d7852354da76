# syntax=docker/dockerfile:1
# A static program in an otherwise empty image.

FROM rust:1.95-alpine AS build
# The C library's headers, for the one dependency with native code (ring).
RUN apk add --no-cache musl-dev ca-certificates
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --bin alertkube \
    && cp target/dist/alertkube /alertkube

FROM scratch
# TLS trusts what the operating system trusts, and here there is none but this.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /alertkube /alertkube
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/alertkube"]
CMD ["run"]
