package tests

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// runClient is what the process of startClient does.
func runClient(urls, arguments []string) error {
	config := fenlock.Config{TTL: groupTTL, MaxTTL: groupTTL, NodeTimeout: groupTTL / 4}
	for _, url := range urls {
		node, err := valkeynode.Open(url)
		if err != nil {
			return err
		}
		config.Nodes = append(config.Nodes, node)
	}
	l, err := fenlock.New(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	lock, err := l.Acquire(ctx, arguments[0])
	if err != nil {
		return err
	}
	fmt.Println("token", lock.Token())
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	if err := lock.Release(ctx); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("released")
	}
	if len(arguments) < 3 {
		return nil
	}
	input.Scan()
	if lock, err = l.TryAcquire(ctx, arguments[2]); err != nil {
		return err
	}
	fmt.Println("token", lock.Token())
	input.Scan()
	return nil
}
