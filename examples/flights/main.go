// Command flights loads flights from a Parquet file into a container, by bulk writes, and
// runs the acceptance of `changefeed replicate` with them:
//
//	flights load -input flights.parquet -endpoint http://127.0.0.1:8081/ -key ... -to flights/by-origin
//	flights accept -input flights.parquet -changefeed ./changefeed
//
// The file has the columns of vega-datasets' flights: date, delay, distance, origin and
// destination. A document's id is the number of its row.
//
// accept starts a server and two processes that copy the flights into a container keyed
// by their destination. It kills one process with SIGKILL. When the other has caught up,
// it compares both containers document by document. The command is a module of its own,
// because a Parquet reader has many dependencies.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.SetFlags(0)
		log.Fatal("flights: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	const usage = "flights load|accept; add -help to list the flags"
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	input := flags.String("input", "flights-3m.parquet", "Parquet `file`")
	records := flags.Int("records", 0, "number of rows to load (0 loads all)")
	switch args[0] {
	case "load":
		var a account
		flags.StringVar(&a.endpoint, "endpoint", "http://127.0.0.1:8081/", "`URL` of the account")
		flags.StringVar(&a.key, "key", emulatorKey, "account `key`")
		to := flags.String("to", "flights/by-origin", "`DATABASE/CONTAINER`, created if it does not exist")
		_ = flags.Parse(args[1:]) // Parse exits the process on an error
		database, container, found := strings.Cut(*to, "/")
		if !found {
			return fmt.Errorf("-to is %q; use the form DATABASE/CONTAINER", *to)
		}
		began := time.Now()
		n, err := a.load(ctx, database, container, *input, *records)
		fmt.Printf("%d flights in %s: %s\n", n, time.Since(began).Round(time.Second), rate(n, time.Since(began)))
		return err
	case "accept":
		a := acceptance{out: os.Stdout}
		flags.StringVar(&a.command, "changefeed", "changefeed", "the `program` to try")
		_ = flags.Parse(args[1:]) // Parse exits the process on an error
		a.input, a.records = *input, *records
		return a.run(ctx)
	}
	return errors.New(usage)
}
