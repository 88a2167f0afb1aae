// Package fenlockcertmagic has the instances of a cluster get each certificate once. It replaces
// the locks of a certmagic.Storage by fenlock's, and leaves the rest of the Storage as it is.
//
//	storage, err := fenlockcertmagic.New(theirs, locker, "certmagic")
//	...
//	certmagic.Default.Storage = storage
//
// All instances that share the Storage need the same prefix, the third argument, and this package:
// those without it are kept out by nothing.
//
// A lock is held for as long as certmagic tries to get a certificate, up to 30 days. So
// fenlock.WithMaxHold is unbounded here, unless an option says otherwise. If an instance dies, its
// locks are free after a TTL.
//
// # When the lock is lost
//
// certmagic gives neither the Issuer nor the Storage anything that ends with a lock. But it renews
// the lock before each attempt in the background. A lock that was lost is taken again then, if it
// is free. The attempt begins by looking whether there is a certificate by now. If it is not free,
// or the nodes are down, the attempt is not made, and the next one is certmagic's as after every
// failure.
//
// During an attempt nothing stops it. An instance may lose its lock meanwhile, because it was
// paused or the nodes were down for longer than a TTL. It may then order a certificate that another
// one orders too. Both are valid, and the one stored later is used. Storage.Store has no token, so
// that it cannot be guarded. If the two store at the same moment, the key of one may lie beside the
// other's certificate, until it is renewed or deleted. A longer fenlock.WithTTL makes that rarer.
//
// # Caddy
//
// A storage of Caddy's is a module, which imports all of Caddy, so that it is not here. It is this,
// in a build of yours (xcaddy build --with):
//
//	func init() { caddy.RegisterModule(new(Fenlock)) }
//
//	// Fenlock is {"storage": {"module": "fenlock", "nodes": [...], "storage": {"module": "file_system"}}}.
//	type Fenlock struct {
//		Nodes   []string        `json:"nodes"`
//		Storage json.RawMessage `json:"storage" caddy:"namespace=caddy.storage inline_key=module"`
//		storage *fenlockcertmagic.Storage
//	}
//
//	func (*Fenlock) CaddyModule() caddy.ModuleInfo {
//		return caddy.ModuleInfo{ID: "caddy.storage.fenlock", New: func() caddy.Module { return new(Fenlock) }}
//	}
//
//	func (f *Fenlock) Provision(ctx caddy.Context) error {
//		module, err := ctx.LoadModule(f, "Storage")
//		if err != nil {
//			return err
//		}
//		theirs, err := module.(caddy.StorageConverter).CertMagicStorage()
//		// ... a Locker on f.Nodes, and
//		f.storage, err = fenlockcertmagic.New(theirs, locker, "caddy")
//		return err
//	}
//
//	func (f *Fenlock) CertMagicStorage() (certmagic.Storage, error) { return f.storage, nil }
package fenlockcertmagic
