package fenlockcertmagic_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockcertmagic"
	"github.com/fenlock/fenlock/node/memnode"
)

// The node is in memory, so that the example runs: in production all instances have the same
// servers, and a Storage that they share.
func Example() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	dir, err := os.MkdirTemp("", "certmagic")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	storage, err := fenlockcertmagic.New(&certmagic.FileStorage{Path: dir}, locker, "certmagic")
	if err != nil {
		log.Fatal(err)
	}

	certmagic.Default.Storage = storage
	certmagic.Default.Logger = zap.NewNop()
	config := certmagic.NewDefault()
	if err := config.Storage.Lock(context.Background(), "issue_cert_example.com"); err != nil { // as certmagic does
		log.Fatal(err)
	}
	free, err := storage.TryLock(context.Background(), "issue_cert_example.com")
	fmt.Println("free for another one:", free, err)
	fmt.Println("unlocked:", storage.Unlock(context.Background(), "issue_cert_example.com"))
	// Output:
	// free for another one: false <nil>
	// unlocked: <nil>
}
