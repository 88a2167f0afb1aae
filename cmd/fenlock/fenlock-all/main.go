//go:build linux || darwin || freebsd

// Command fenlock-all is fenlock with everything: nodes on PostgreSQL, MySQL, etcd and ZooKeeper,
// "fenlock ui", "fenlock demo" and "fenlock run --metrics". fenlock becomes it when one of these is
// asked for; alone, it does all that fenlock does, only with a slower start.
package main

import (
	"context"
	"fmt"
	"net"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/command"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/demo"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/metrics"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/servers"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/ui"
)

func main() {
	command.Main(&command.Extras{
		Engines: servers.Open, Page: openPage, Metrics: serveMetrics, Demo: playScenes,
		DemoClient: demo.RunClient,
	})
}

func openPage(p command.Page) (address string, serve func(context.Context) error, err error) {
	group, err := ui.NewGroup(p.Nodes)
	if err != nil {
		return "", nil, err
	}
	listener, err := ui.Listen(p.Listen, p.Token != "")
	if err != nil {
		group.Close()
		return "", nil, fmt.Errorf("--listen: %w", err)
	}
	printed := p.Token
	if p.Secret {
		printed = ""
	}
	return ui.URL(listener.Addr(), p.Hosts, printed), func(ctx context.Context) error {
		defer group.Close()
		return ui.Serve(ctx, listener, ui.Config{
			Source: group, Prefix: p.Prefix, History: p.History, Token: p.Token, AllowRelease: p.AllowRelease, Hosts: p.Hosts,
			Log: p.Log,
		})
	}, nil
}

func serveMetrics(l net.Listener, token, name string, failed func(error)) (o fenlock.Observer, end func()) {
	var set metrics.Set
	o = metrics.NewLocks(&set, name).Observer()
	return o, metrics.Serve(l, metrics.Handler(token, set.Answer), failed)
}

func playScenes(ctx context.Context, s command.Show) error {
	screen := demo.Terminal{Out: s.Out, Colour: s.Colour}
	player := demo.Player{Client: s.Client, Beat: s.Beat, Emit: func(e demo.Event) {
		if screen.Show(e); screen.Err != nil {
			s.Unseen(screen.Err)
		}
	}}
	return player.Play(ctx, demo.Scenes(s.Scenes...)...)
}
