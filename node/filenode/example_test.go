package filenode_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/filenode"
)

// The processes of one machine, by a file.
func ExampleOpenFile() {
	folder, err := os.MkdirTemp("", "filenode")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	process := func() *fenlock.Locker {
		node, err := filenode.OpenFile(filepath.Join(folder, "locks"))
		if err != nil {
			log.Fatal(err)
		}
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node}})
		if err != nil {
			log.Fatal(err)
		}
		return locker
	}
	first, second := process(), process()
	defer first.Close()
	defer second.Close()

	err = first.Do(context.Background(), "orders/42", func(ctx context.Context, token fence.Token) error {
		_, err := second.TryAcquire(ctx, "orders/42")
		fmt.Println("the other one has to wait:", errors.Is(err, fenlock.ErrHeld))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the other one has to wait: true
}

func ExampleOpen() {
	node, err := filenode.Open("file:///var/lib/fenlock/locks")
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
}
