// Command object writes a report to an object store and to a file, under tokens. A holder that has
// lost the lock and does not know it writes too late, and both refuse it.
//
//	go run ./examples/object
//	go run ./examples/object -without       # and without guards
//	go run ./examples/object -bucket https://s3.eu-central-1.amazonaws.com/my-bucket -region eu-central-1
//
// Watch what is left of client 2's line. The store is one in memory unless you name yours, with the
// keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: it gets an object example-report. A store
// needs conditional writes (package fence/fences3), and a file a moment under flock(2), in which
// the token is compared (file.go).
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/examples/internal/stage"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fences3"
	"github.com/fenlock/fenlock/node/memnode"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

var (
	bucket = flag.String("bucket", "", "URL of a bucket of yours")
	region = flag.String("region", "us-east-1", "its region")
)

const key = "example-report"

func main() { stage.Main(play, nil) }

func play(ctx context.Context) error {
	store := &fences3.Guard{Bucket: *bucket, Client: &http.Client{Transport: fences3.Signer{Region: *region,
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}}}
	if *bucket == "" {
		backend := s3mem.New()
		if err := backend.CreateBucket("bucket"); err != nil {
			return err
		}
		server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
		defer server.Close()
		store.Bucket, store.Client.Transport = server.URL+
			"/bucket", fences3.Signer{Region: *region, AccessKey: "any", SecretKey: "any"}
	}
	report := &file{path: filepath.Join(stage.Folder, "report")}

	// The node's clock is set by hand, so that client 1's lease runs out and client 1 does not notice.
	var now atomic.Int64
	node := memnode.New("node", memnode.WithClock(func() time.Duration { return time.Duration(now.Load()) }))
	var tokens []fence.Token
	for i := range 2 {
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}})
		if err != nil {
			return err
		}
		defer locker.Close()
		lock, err := locker.TryAcquire(ctx, "examples/object")
		if err != nil {
			return err
		}
		stage.Say("client %d has the lock", i+1)
		tokens = append(tokens, lock.Token())
		if i == 0 {
			now.Add(int64(time.Minute))
			stage.Say("client 1 is paused, and its lease runs out")
		}
	}
	for _, client := range []int{2, 1} {
		line := fmt.Sprintf("written by client %d", client)
		token := tokens[client-1]
		if stage.Without {
			token = tokens[1] // as if all were the same
		}
		object := store.Write(ctx, key, token, func(_ []byte, stamp string) ([]byte, error) {
			return fmt.Appendf(nil, "%s\n%s\n", line, stamp), nil
		})
		for where, err := range map[string]error{"object": object, "file": report.write(token, line)} {
			switch {
			case err == nil:
				stage.Say("  client %d writes the %s", client, where)
			case errors.Is(err, fence.ErrStale):
				stage.Say("  client %d writes the %s, and is refused: its token is older", client, where)
			default:
				return err
			}
		}
	}
	return check(ctx, store, tokens[1], report)
}

// check reads what is there.
func check(ctx context.Context, store *fences3.Guard, token fence.Token, report *file) error {
	var object []byte
	errRead := errors.New("only read")
	err := store.Write(ctx, key, token, func(old []byte, _ string) ([]byte, error) {
		object = old
		return nil, errRead
	})
	if !errors.Is(err, errRead) {
		return err
	}
	text, err := os.ReadFile(report.path)
	if err != nil {
		return err
	}
	want := []byte("written by client 2\n")
	if !bytes.HasPrefix(object, want) || !bytes.Contains(text, want) {
		return fmt.Errorf("client 2's report is lost: the object is %q, and the file %q", object, text)
	}
	stage.Say("The object and the file are client 2's.")
	return nil
}
