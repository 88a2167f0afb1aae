package valkeynode_test

import (
	"context"
	"crypto/tls"
	"log"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/valkey-io/valkey-go"
)

// An option of valkey-go is for what a URL does not say, such as short-lived credentials.
func ExampleNew() {
	n, err := valkeynode.New(valkey.ClientOption{
		InitAddress: []string{"valkey.example.com:6379"},
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
		AuthCredentialsFn: func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			return valkey.AuthCredentials{Username: "lock-user", Password: tokenOfTheCloud()}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
}

func tokenOfTheCloud() string { return "" }

// All defaults, in one call.
func ExampleOpenLocker() {
	locker, err := valkeynode.OpenLocker("valkey://a.example.com", "valkey://b.example.com", "valkey://c.example.com")
	if err != nil {
		log.Fatal(err) // says which URL it is about, without its password
	}
	defer locker.Close()
}

// What is to differ from the defaults is in the Config.
func ExampleOpenAll() {
	nodes, err := valkeynode.OpenAll("valkey://a.example.com", "valkey://b.example.com", "valkey://c.example.com")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: nodes, TTL: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
}

func ExampleOpen() {
	n, err := valkeynode.Open("valkeys://lock-user@valkey.example.com?passwordfile=/etc/fenlock/password")
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
}

// pay writes a key under a lock with this token.
func pay(ctx context.Context, token fence.Token) error {
	guard, err := valkeynode.OpenGuard("valkey://data.example.com") // once in a program
	if err != nil {
		return err
	}
	defer guard.Close()
	return guard.Set(ctx, "orders/42", "paid", token) // a *fence.StaleError if a newer token was there
}

func ExampleOpenGuard() {
	_ = pay
}

// Several slots of one cluster, for more locks than one member can do: each hash tag is a group of
// one node.
func ExampleOpenLocker_cluster() {
	var config groups.Config
	for _, tag := range []string{"locks-0", "locks-1", "locks-2"} { // of slots at different members
		locker, err := valkeynode.OpenLocker("valkeys-cluster://cluster.example.com/" + tag)
		if err != nil {
			log.Fatal(err)
		}
		config.Groups = append(config.Groups, groups.Group{ID: tag, Locker: locker})
	}
	locks, err := groups.New(config)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
}
