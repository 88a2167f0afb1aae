package etcdnode

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Examine implements node.Examiner. It reads, asks each member of the URL how it does, and
// writes nothing. The cluster has no clock that it tells.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "etcd", Member: n.member}
	err := n.Run(ctx, "examine", func(ctx context.Context) error { return n.examine(ctx, look, &e) })
	return e, err
}

func (n *Node) examine(ctx context.Context, look node.Look, e *node.Examination) error {
	first, cancel := context.WithTimeout(ctx, engine.FirstAnswer)
	l, f, err := n.voting.look(first)
	cancel()
	e.Server = f.Server
	if s := l.status; s != nil {
		e.Version, e.Role = s.Version, "follower"
		if s.Leader == s.Header.MemberId {
			e.Role = "leader"
		}
		if s.IsLearner {
			e.Role = "learner"
		}
	}
	if err != nil {
		return err
	}
	f.Examine(e, look.MaxTTL)
	if len(e.Members) == 1 { // it is all of its group, whatever its clients call it
		e.Members = nil
	}
	err = engine.MeasureTrips(e, func() (none time.Time, err error) {
		_, err = n.read(ctx, clientv3.OpGet(n.keys.meta(), clientv3.WithKeysOnly()))
		return none, err
	})
	if err != nil {
		return err
	}
	if m, _ := n.pool.now(); !n.given {
		e.Address, _, _ = net.SplitHostPort(m.address)
	}
	if err := n.voting.admission.Check(f.Terms); err != nil {
		return err
	}
	e.Findings = append(n.ownFindings(), n.memberFindings(ctx, l.status)...)
	if look.Thorough {
		return n.thoroughly(ctx, e)
	}
	return nil
}

// ownFindings are about how the client comes to the cluster.
func (n *Node) ownFindings() (found []node.Finding) {
	if n.given {
		return nil
	}
	if n.user == "" && !n.tls {
		found = append(found, node.Found("access", node.Warning,
			"There is no authentication: any client that reaches the cluster can release locks and make up tokens.").
			Do("Enable it, with a role that has the prefix only (docs/etcd.md), or client certificates."))
	}
	if n.user != "" && !n.tls {
		found = append(found, node.Found("tls", node.Warning,
			"The password goes over the network in clear.").Do("Use etcds:// and certificates."))
	}
	return found
}

// fullFrom is the share of the quota of the database from which on it is nearly full.
const fullFrom = 0.8

// memberFindings are about the cluster and the members that the URL names.
func (n *Node) memberFindings(ctx context.Context, s *clientv3.StatusResponse) (found []node.Finding) {
	if quota := s.DbSizeQuota; quota > 0 && float64(s.DbSize) > fullFrom*float64(quota) {
		found = append(found, node.Found("database-size", node.Warning,
			"The database has %d of at most %d MiB. When it is full, no lock can be taken or extended.", s.DbSize>>20,
			quota>>20).
			Do("Compact and defragment it (etcdctl compact, defrag), or raise --quota-backend-bytes."))
	}
	for _, problem := range s.Errors {
		found = append(found, node.Found("alarm", node.Error, "The cluster reports: %s.", problem).
			Do(
				"etcdctl alarm list says which member; NOSPACE: compact, defragment, etcdctl alarm disarm; CORRUPT: docs of etcd."))
	}
	m, _ := n.pool.now()
	c, err := m.open(ctx)
	if err != nil {
		return found
	}
	try, cancel := context.WithTimeout(ctx, memberPatience)
	list, err := c.MemberList(try)
	cancel()
	if err == nil { // not every user may ask
		found = append(found, countFindings(list.Members)...)
	}
	if n.given {
		return found
	}
	for _, m := range n.pool.members {
		if _, err := m.answers(ctx); err != nil {
			found = append(found, node.Found("member", node.Warning, "The member %s does not answer: %v.", m.address, err).
				Do("Look at that machine; the others carry the locks as long as they are a majority."))
		}
	}
	return found
}

// countFindings are about how many members there are.
func countFindings(members []*pb.Member) (found []node.Finding) {
	voting := 0
	for _, m := range members {
		if !m.IsLearner {
			voting++
		}
	}
	switch {
	case voting == 1:
		found = append(found, node.Found("members", node.Note,
			"The cluster has one member: when its machine is down, no lock can be taken or extended."))
	case voting%2 == 0:
		found = append(found, node.Found("members", node.Note,
			"The cluster has %d members: with %d it would survive as many failures.", voting, voting-1))
	}
	return found
}

// thoroughly reads all stripes.
func (n *Node) thoroughly(ctx context.Context, e *node.Examination) error {
	return n.pages(ctx, func(kv *mvccpb.KeyValue) (bool, error) {
		z, err := n.parse(kv)
		if _, is := cas.ParseStripe(strings.TrimPrefix(string(kv.Key), n.keys.stripes())); err == nil && !is {
			err = errForeign
		}
		if err = errors.Join(err, z.Check()); err != nil {
			e.Findings = append(e.Findings, node.Found("damage", node.Error, "The record at %.100q is damaged: %v.", kv.Key,
				err).Do("When no lock is held, delete all keys below %s; tokens begin at the clients' clocks then.", string(n.keys)))
		}
		return true, nil
	})
}
