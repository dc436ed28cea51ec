package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/serve"
)

// emulatorLines are the lines by which Testcontainers' modules know that an emulator is ready:
// "Started", which Java's wants on a line of its own that ends like this, and Go's anywhere, and
// "Now listening on", for which JavaScript's waits.
const emulatorLines = "Now listening on: the endpoint above\nStarted\r\n"

// testcontainersHosts are the names of the machine that runs the containers, as Testcontainers
// passes them to clients in containers and in GitLab's jobs.
var testcontainersHosts = []string{"docker", "host.docker.internal", "host.testcontainers.internal"}

// emulateCommand returns the command that deploy/testcontainers.Dockerfile runs. It's hidden,
// because it serves programs that start Microsoft's images, and not people. Its flags and
// variables are those of the images that these programs set.
func emulateCommand() *cobra.Command {
	var address, protocol, port, health, explorer, telemetry string
	cmd := &cobra.Command{
		Use:    "emulate",
		Short:  "Serve a store in memory, started as Microsoft's emulator images are",
		Hidden: true,
		// The image's entry point is this command, so the root's flag is out of reach there.
		Version: versionLine(),
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if o, wrapped := out.(*output); wrapped {
				out = o.Writer // which doesn't escape the carriage return that Java's module wants
			}
			cfg := serve.Config{
				Hosts: testcontainersHosts, AllowWellKnownKey: true, Partitions: 1, Drain: 10 * time.Second, LogLevel: slog.LevelInfo,
				Version: versionName(), Out: out, Log: cmd.ErrOrStderr(), Announce: emulatorLines,
				Listen: net.JoinHostPort(address, cmp.Or(port, os.Getenv("PORT"), "8081")), Health: net.JoinHostPort(address, health),
			}
			// The older image speaks TLS. The newer one, the only one that has an explorer to switch
			// off, speaks plain HTTP unless it is told otherwise.
			defaultProtocol := "https"
			if cmd.Flags().Changed("enable-explorer") {
				defaultProtocol = "http"
			}
			switch p := cmp.Or(protocol, os.Getenv("PROTOCOL"), defaultProtocol); p {
			case "https":
				cfg.TLS = "self-signed"
			case "http":
				cfg.TLS = "off"
			default:
				return &usageError{fmt.Errorf("the protocol is %q: it must be http or https", p)}
			}
			err := serve.Run(cmd.Context(), cfg)
			if _, ok := errors.AsType[*serve.ConfigError](err); ok {
				return &usageError{err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "address", "0.0.0.0", "IP `address` to listen on")
	flags.StringVar(&health, "health-port", "8080", "`port` of /alive, /ready and /status")
	flags.StringVar(&protocol, "protocol", "", "`protocol`: http or https (default: the variable PROTOCOL, or else https, or http with --enable-explorer)")
	flags.StringVar(&port, "port", "", "`port` of the endpoint (default: the variable PORT, or else 8081)")
	flags.StringVar(&explorer, "enable-explorer", "", "no effect, because this server has no explorer")
	flags.StringVar(&telemetry, "enable-telemetry", "", "no effect, because this server sends no telemetry")
	return cmd
}
