//go:build linux

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// S3 is an object store: Versity's gateway on a folder. Each operation is several requests, which
// all clients send about one object, so that it takes a longer TTL. A lease is longer by what the
// store's clock is coarse. It is a static program, whose clock no library can move.
var S3 = &Engine{
	Name: "s3", TTL: 4 * time.Second, Lingers: 6 * time.Second, WallClock: true,
	start: func(t testing.TB, _ Persistence, _ []string) Server { return s3{testserver.StartVersity(t), t} },
	url: func(_, through string, node int) string {
		return fmt.Sprintf("%s?name=%d", testserver.VersityURL(through, s3Bucket, s3Prefix), node)
	},
}

const s3Bucket, s3Prefix = "bucket", "locks"

// s3 is a server of an object store.
type s3 struct {
	*testserver.Versity
	t testing.TB
}

// Wipe deletes the objects of a server that is down. The bucket stays.
func (s s3) Wipe() {
	if err := os.RemoveAll(filepath.Join(s.Bucket(s3Bucket), s3Prefix)); err != nil {
		s.t.Fatal(err)
	}
}
