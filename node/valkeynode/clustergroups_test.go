package valkeynode_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/internal/testserver"
)

// tagsOf returns a hash tag for each primary of a cluster, whose slot it has. Each is admitted.
func (c *slotted) tagsOf(maxTTL time.Duration) []string {
	c.t.Helper()
	for _, s := range c.All {
		s.Do("ACL", "SETUSER", "default", "~*")
	}
	tags := make([]string, 3)
	for i, found := 0, 0; found < len(tags); i++ {
		tag := fmt.Sprint("jobs-", i)
		owner := testserver.Owner("{"+tag+"}", c.All...)
		for at, s := range c.All[:3] {
			if s == owner && tags[at] == "" {
				tags[at], found = tag, found+1
				s.MarkAdmitted("{"+tag+"}fenlock:", maxTTL)
			}
		}
	}
	return tags
}

// spread returns names spread over groups of one node each, all in one cluster.
func (c *slotted) spread(tags []string) *groups.Groups {
	c.t.Helper()
	var config groups.Config
	for _, tag := range tags {
		config.Groups = append(config.Groups, groups.Group{ID: tag, Locker: client(c.t, time.Minute,
			func(c *fenlock.Config) { c.TTL = 10 * time.Second }, c.url()+"/"+tag)})
	}
	g, err := groups.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { g.Close() })
	return g
}

// Several slots of one cluster are as many groups of one node, each at its own member. What befalls
// a member stops the names of its group, and no other.
func TestGroupsOfOneCluster(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false, time.Minute, "cluster-require-full-coverage no")
		tags := c.tagsOf(time.Minute)
		one, two := c.spread(tags), c.spread(tags)
		names := map[string]string{} // by the tag of their group
		for i := 0; len(names) < len(tags); i++ {
			name := fmt.Sprint("orders/", i)
			group, _ := one.Of(name)
			names[group.ID] = name
		}
		for at, tag := range tags {
			lock, err := one.Acquire(bounded(t), names[tag])
			if err != nil {
				t.Fatalf("%s: %v", tag, err)
			}
			if said := c.All[at].Do("EXISTS", "{"+tag+"}fenlock:"+names[tag]); said != "1" {
				t.Errorf("%s is not at the member that has the slot of %s: %s", names[tag], tag, said)
			}
			isHeldFor(t, two, names[tag])
			givesBack(t, lock)
		}
		c.All[0].Kill()
		for _, tag := range tags[1:] {
			lock, err := two.Acquire(bounded(t), names[tag])
			if err != nil {
				t.Fatalf("%s, while another member is down: %v", tag, err)
			}
			givesBack(t, lock)
		}
		if _, err := two.TryAcquire(bounded(t), names[tags[0]]); !errors.Is(err, fenlock.ErrNoQuorum) {
			t.Errorf("at the member that is down: %v", err)
		}
	})
}

// isHeldFor fails unless a name is held by another process. A first try may come before there is a
// connection.
func isHeldFor(t *testing.T, g *groups.Groups, name string) {
	t.Helper()
	eventually(t, func() error {
		_, err := g.TryAcquire(context.Background(), name)
		switch {
		case err == nil:
			t.Fatalf("%s is held by two processes", name)
		case errors.Is(err, fenlock.ErrHeld):
			return nil
		}
		return err
	})
}
