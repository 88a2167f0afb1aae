package fenlockcertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/integration/fenlockcertmagic"
	"github.com/fenlock/fenlock/node/memnode"
)

// authority is a certmagic.Issuer. Before it issues it calls before, if that is there.
type authority struct {
	key    *ecdsa.PrivateKey
	before func(ctx context.Context, nth int) error

	mu     sync.Mutex
	orders int
}

func newAuthority(t testing.TB, before func(ctx context.Context, nth int) error) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return &authority{key: key, before: before}
}

func (a *authority) IssuerKey() string { return "test" }

func (a *authority) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.mu.Lock()
	a.orders++
	nth := a.orders
	a.mu.Unlock()
	if a.before != nil {
		if err := a.before(ctx, nth); err != nil {
			return nil, err
		}
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(nth)), Subject: pkix.Name{CommonName: "test"}, DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// issued returns how many were ordered.
func (a *authority) issued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.orders
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func locker(t *testing.T, node *memnode.Node, observer fenlock.Observer) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}, Observer: observer})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func storage(t *testing.T, dir string, locks fenlockcertmagic.Locks, opts ...fenlock.Option) *fenlockcertmagic.Storage {
	t.Helper()
	s, err := fenlockcertmagic.New(&certmagic.FileStorage{Path: dir}, locks, "certmagic", opts...)
	must(t, err)
	return s
}

// instance is a process of its own that gets certificates.
func instance(t *testing.T, s certmagic.Storage, a certmagic.Issuer) *certmagic.Config {
	t.Helper()
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	config = certmagic.New(cache, certmagic.Config{Storage: s, Issuers: []certmagic.Issuer{a}, Logger: zap.NewNop()})
	return config
}

// The second instance waits while the first orders, and then has the first one's certificate.
func TestOneOrders(t *testing.T) {
	node, dir := memnode.New("n"), t.TempDir()
	waits := make(chan struct{}, 1)
	begun, finish := make(chan struct{}), make(chan struct{})
	a := newAuthority(t, func(_ context.Context, nth int) error {
		if nth == 1 {
			close(begun)
			<-finish
		}
		return nil
	})
	first := instance(t, storage(t, dir, locker(t, node, fenlock.Observer{})), a)
	second := instance(t, storage(t, dir, locker(t, node, fenlock.Observer{
		Wait: func(context.Context, string) { waits <- struct{}{} },
	})), a)
	var both sync.WaitGroup
	both.Go(func() {
		if err := first.ObtainCertSync(t.Context(), "example.com"); err != nil {
			t.Errorf("the first: %v", err)
		}
	})
	<-begun
	both.Go(func() {
		if err := second.ObtainCertAsync(t.Context(), "example.com"); err != nil {
			t.Errorf("the second: %v", err)
		}
	})
	<-waits
	close(finish)
	both.Wait()
	if a.issued() != 1 {
		t.Errorf("%d were ordered", a.issued())
	}
	cert, err := second.CacheManagedCertificate(t.Context(), "example.com")
	if err != nil || cert.Leaf.SerialNumber.Int64() != 1 {
		t.Errorf("what the second has: %v", err)
	}
}

// Attempts go on for hours, under the same lock. The first one is refused each time; a waiter gets
// nothing.
func TestHeldAcrossRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, dir := memnode.New("n"), t.TempDir()
		began := time.Now()
		a := newAuthority(t, func(context.Context, int) error {
			if time.Since(began) < 6*time.Hour {
				return errors.New("the domain does not resolve")
			}
			return nil
		})
		other := newAuthority(t, nil)
		first := instance(t, storage(t, dir, locker(t, node, fenlock.Observer{})), a)
		second := instance(t, storage(t, dir, locker(t, node, fenlock.Observer{})), other)
		var both sync.WaitGroup
		both.Go(func() {
			if err := first.ObtainCertAsync(t.Context(), "example.com"); err != nil {
				t.Errorf("the first: %v", err)
			}
		})
		time.Sleep(time.Second)
		both.Go(func() {
			if err := second.ObtainCertAsync(t.Context(), "example.com"); err != nil {
				t.Errorf("the second: %v", err)
			}
		})
		both.Wait()
		if a.issued() < 10 || other.issued() != 0 || time.Since(began) < 6*time.Hour {
			t.Errorf("after %v, %d orders of the first, %d of the second", time.Since(began), a.issued(), other.issued())
		}
	})
}

// The first instance loses its lock after an attempt, and another has it. There is no further
// attempt. When the other instance has finished, the first has its certificate.
func TestLossEndsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, dir := memnode.New("n"), t.TempDir()
		a := newAuthority(t, func(context.Context, int) error {
			node.Crash()
			time.AfterFunc(15*time.Second, node.Restart)
			return errors.New("not yet")
		})
		first := instance(t, storage(t, dir, locker(t, node, fenlock.Observer{})), a)
		ended := make(chan error, 1)
		go func() { ended <- first.ObtainCertAsync(t.Context(), "example.com") }()
		time.Sleep(20 * time.Second) // the lock is lost, and the node back soon
		other := newAuthority(t, func(context.Context, int) error {
			time.Sleep(2 * time.Minute) // beyond the first one's next attempt
			return nil
		})
		second := instance(t, storage(t, dir, locker(t, node, fenlock.Observer{})), other)
		if err := second.ObtainCertSync(t.Context(), "example.com"); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if a.issued() != 1 || other.issued() != 1 {
			t.Errorf("%d and %d orders", a.issued(), other.issued())
		}
	})
}

// Alone, an instance that has lost its lock goes on under a new lock.
func TestTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		l := locker(t, node, fenlock.Observer{})
		s := storage(t, t.TempDir(), l)
		a := newAuthority(t, func(ctx context.Context, nth int) error {
			if nth == 1 {
				node.Crash()
				time.AfterFunc(15*time.Second, node.Restart)
				return errors.New("not yet")
			}
			if ok, err := storage(t, t.TempDir(), locker(t, node, fenlock.Observer{})).TryLock(ctx,
				"issue_cert_example.com"); ok || err != nil {
				t.Errorf("another one has the lock: %t, %v", ok, err)
			}
			return nil
		})
		if err := instance(t, s, a).ObtainCertAsync(t.Context(), "example.com"); err != nil || a.issued() != 2 {
			t.Errorf("%d orders, %v", a.issued(), err)
		}
	})
}

// What the three methods say of a lock that is lost, as certmagic calls them.
func TestLossIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		s := storage(t, t.TempDir(), locker(t, node, fenlock.Observer{}))
		ctx := t.Context()
		must(t, s.Lock(ctx, "a"))
		if err := s.RenewLockLease(ctx, "a", time.Hour); err != nil {
			t.Errorf("while it is held: %v", err)
		}
		node.Crash()
		if err := s.RenewLockLease(ctx, "a", time.Hour); !errors.Is(err, fenlock.ErrNoQuorum) {
			t.Errorf("while the node is down: %v", err)
		}
		time.Sleep(fenlock.DefaultTTL)
		if err := s.RenewLockLease(ctx, "a", time.Hour); !errors.Is(err, fenlock.ErrLost) ||
			!errors.Is(err, fenlock.ErrNoQuorum) {
			t.Errorf("when it is lost: %v", err)
		}
		node.Restart()
		time.Sleep(fenlock.DefaultMaxTTL + time.Second)
		other := storage(t, t.TempDir(), locker(t, node, fenlock.Observer{}))
		must(t, other.Lock(ctx, "a"))
		if err := s.RenewLockLease(ctx, "a", time.Hour); !errors.Is(err, fenlock.ErrLost) ||
			!errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("when it is another one's: %v", err)
		}

		// The next one of the process waits for Unlock, which would release its lock otherwise.
		if ok, err := s.TryLock(ctx, "a"); ok || err != nil {
			t.Errorf("TryLock: %t, %v", ok, err)
		}
		if err := other.Unlock(ctx, "a"); err != nil {
			t.Error(err)
		}
		next := make(chan error, 1)
		go func() { next <- s.Lock(ctx, "a") }()
		synctest.Wait()
		if err := s.Unlock(ctx, "a"); err != nil {
			t.Errorf("nothing is left to unlock: %v", err)
		}
		if err := <-next; err != nil {
			t.Error(err)
		}
		if ok, err := other.TryLock(ctx, "a"); ok || err != nil {
			t.Errorf("what the next one has: %t, %v", ok, err)
		}
		if err := s.Unlock(ctx, "a"); err != nil {
			t.Error(err)
		}
		if err := s.Unlock(ctx, "a"); !errors.Is(err, fenlock.ErrReleased) {
			t.Errorf("once more: %v", err)
		}
		if err := s.RenewLockLease(ctx, "a", time.Hour); !errors.Is(err, fenlock.ErrReleased) {
			t.Errorf("of nothing: %v", err)
		}
	})
}

// TryLock does not wait: the clock stands still. Lock waits as long as its context.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		s := storage(t, t.TempDir(), locker(t, node, fenlock.Observer{}))
		other := storage(t, t.TempDir(), locker(t, node, fenlock.Observer{}))
		if ok, err := s.TryLock(t.Context(), "a"); !ok || err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, who := range []*fenlockcertmagic.Storage{s, other} {
			if ok, err := who.TryLock(t.Context(), "a"); ok || err != nil {
				t.Errorf("TryLock: %t, %v", ok, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("TryLock waited %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var both sync.WaitGroup
		for _, who := range []*fenlockcertmagic.Storage{s, other} {
			both.Go(func() {
				if err := who.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fenlock.ErrHeld) {
					t.Errorf("Lock: %v", err)
				}
			})
		}
		both.Wait()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("they waited %v", took)
		}
		if err := s.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		node.Crash()
		if ok, err := s.TryLock(t.Context(), "a"); ok || !errors.Is(err, fenlock.ErrNoQuorum) {
			t.Errorf("while the node is down: %t, %v", ok, err)
		}
	})
}

// A process that ends with certmagic.CleanUpOwnLocks leaves no lock behind. What it was for does
// not release the next holder's.
func TestCleanUp(t *testing.T) {
	node, dir := memnode.New("n"), t.TempDir()
	other := storage(t, dir, locker(t, node, fenlock.Observer{}))
	a := newAuthority(t, func(ctx context.Context, _ int) error {
		certmagic.CleanUpOwnLocks(ctx, zap.NewNop())
		if ok, err := other.TryLock(ctx, "issue_cert_example.com"); !ok || err != nil {
			t.Errorf("after the clean-up: %t, %v", ok, err)
		}
		return errors.New("the process ends")
	})
	if err := instance(t, storage(t, dir, locker(t, node, fenlock.Observer{})), a).ObtainCertSync(t.Context(),
		"example.com"); err == nil {
		t.Error("it goes on")
	}
	if ok, err := storage(t, dir, locker(t, node, fenlock.Observer{})).TryLock(t.Context(),
		"issue_cert_example.com"); ok || err != nil {
		t.Errorf("what the other one has: %t, %v", ok, err)
	}
}

// Any name can be locked, and no two names have one lock. On Groups, as it has to be somewhere.
func TestNames(t *testing.T) {
	g, err := groups.New(groups.Config{Groups: []groups.Group{
		{ID: "a", Locker: locker(t, memnode.New("a"), fenlock.Observer{})},
		{ID: "b", Locker: locker(t, memnode.New("b"), fenlock.Observer{})},
	}})
	must(t, err)
	s := storage(t, t.TempDir(), g)
	long := strings.Repeat("x", fenlock.MaxNameLength)
	names := []string{"", "/", "a", "A", "a/", "*.example.com", "%", "%25", "a\n", "a%0A", "a\xff", "a%FF", "a�", "ü",
		"{a}", "\x00", "\u0085",
		long, long + "x", long + "y", "%sha256/", strings.Repeat("\n", 300), strings.Repeat("%0A", 300),
		strings.Repeat("\xff", 600)}
	for _, name := range names {
		if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
			t.Errorf("%.40q: %t, %v", name, ok, err)
		}
	}
	for _, name := range names {
		if err := s.Unlock(t.Context(), name); err != nil {
			t.Errorf("%.40q: %v", name, err)
		}
	}
}

// A Locker that panics, by its Observer, keeps no other caller from the name.
func TestPanic(t *testing.T) {
	panics := true
	l := locker(t, memnode.New("n"), fenlock.Observer{Acquire: func(context.Context, fenlock.AcquireEvent) {
		if panics {
			panic("an observer")
		}
	}})
	s := storage(t, t.TempDir(), l)
	func() {
		defer func() { recover() }()
		s.Lock(t.Context(), "a")
	}()
	panics = false
	if err := s.Lock(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// So does one that panics at the release.
func TestPanicInUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		s := storage(t, t.TempDir(), locker(t, memnode.New("n"),
			fenlock.Observer{Release: func(context.Context, fenlock.ReleaseEvent) {
				if panics {
					panic("an observer")
				}
			}}))
		must(t, s.Lock(t.Context(), "a"))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("nobody hears of the panic")
				}
			}()
			s.Unlock(t.Context(), "a")
		}()
		panics = false
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Lock(ctx, "a"); err != nil {
			t.Error(err)
		}
	})
}

func TestInvalid(t *testing.T) {
	l := locker(t, memnode.New("n"), fenlock.Observer{})
	theirs := &certmagic.FileStorage{Path: t.TempDir()}
	var none *fenlock.Locker
	for what, f := range map[string]func() (*fenlockcertmagic.Storage, error){
		"no storage":   func() (*fenlockcertmagic.Storage, error) { return fenlockcertmagic.New(nil, l, "a") },
		"nil":          func() (*fenlockcertmagic.Storage, error) { return fenlockcertmagic.New(theirs, nil, "a") },
		"a nil Locker": func() (*fenlockcertmagic.Storage, error) { return fenlockcertmagic.New(theirs, none, "a") },
		"no prefix":    func() (*fenlockcertmagic.Storage, error) { return fenlockcertmagic.New(theirs, l, "") },
		"a long prefix": func() (*fenlockcertmagic.Storage, error) {
			return fenlockcertmagic.New(theirs, l, strings.Repeat("a", 500))
		},
		"a nil option": func() (*fenlockcertmagic.Storage, error) { return fenlockcertmagic.New(theirs, l, "a", nil) },
	} {
		if made, err := f(); made != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
