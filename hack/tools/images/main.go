package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("images", flag.ExitOnError)
	output := flags.String("output", "dist", "`folder` of the archives")
	version := flags.String("version", "", "`version` of the images, which is their tag")
	revision := flags.String("revision", "", "`commit` that they are built from")
	docker := flags.Bool("docker", false, "write one archive for docker load to stdout instead, with the images of this machine's architecture")
	epoch := flags.Int64("epoch", 0, "`seconds` since 1970 of every time in them: the commit's")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *version == "" || *revision == "" || *epoch <= 0 {
		return fmt.Errorf("-version %q, -revision %q, -epoch %d: set all three; where there is no git repository, make takes them as VERSION, REVISION and SOURCE_DATE_EPOCH", *version, *revision, *epoch)
	}
	of := release{version: *version, revision: *revision, created: time.Unix(*epoch, 0).UTC()}
	if *docker {
		return writeDocker(ctx, of, os.Stdout)
	}
	if err := os.MkdirAll(*output, 0o755); err != nil {
		return fmt.Errorf("make the output folder: %w", err)
	}
	for _, p := range programs {
		path := filepath.Join(*output, p.name+"-"+of.version+".tar")
		digest, err := buildArchive(ctx, p, of, path)
		if err != nil {
			return fmt.Errorf("build %s: %w", path, err)
		}
		fmt.Printf("%s  %s@%s\n", path, p.repository(), digest)
	}
	return nil
}
