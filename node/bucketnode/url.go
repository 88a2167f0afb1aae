package bucketnode

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenlock/fenlock/node/engine"
)

// place is what a node's URL says.
type place struct {
	name     string // for people, and what all clients of its group call the node
	endpoint string // host, or host:port
	bucket   string
	prefix   string // of the keys: it ends with a slash
	client   *minio.Core
	idle     func() // closes the connections that are not in use
}

var form = engine.Form{Engine: "bucketnode", Example: "s3://s3.eu-central-1.amazonaws.com/bucket/prefix",
	Schemes: []string{"s3"}}

const (
	dialTimeout = 5 * time.Second
	idleTimeout = 30 * time.Second // stores close what is idle for longer
)

// parseURL reads a node's URL.
func parseURL(raw string) (*place, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	p := &place{endpoint: u.Hosts[0], bucket: bucket, prefix: prefix + "/"}
	switch {
	case bucket == "" || prefix == "":
		return nil, u.Invalidf("there is no bucket, or no prefix: the form is %s", form.Example)
	case s3utils.CheckValidBucketName(bucket) != nil:
		return nil, u.Invalidf("no bucket can have this name")
	case path.Clean("/"+prefix) != "/"+prefix || s3utils.CheckValidObjectName(prefix) != nil || len(prefix) > 512:
		return nil, u.Invalidf("no object can have this prefix")
	case (u.User == "") != !u.HasPassword():
		return nil, u.Invalidf("an access key and its secret go together, or both come from the environment")
	}
	// One connection carries one request, and a request whose connection has broken is not sent again.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 8}
	if u.TLS {
		if transport.TLSClientConfig, err = u.TLSConfig(); err != nil {
			return nil, u.Invalidf("%v", err)
		}
		transport.TLSClientConfig.ServerName = u.Get("servername") // behind a proxy
		transport.DialTLSContext = dialTLS(u)
	}
	p.idle = transport.CloseIdleConnections
	p.client, err = minio.NewCore(p.endpoint, &minio.Options{Creds: keysOf(u), Secure: u.TLS, Transport: transport,
		Region: regionOf(u), MaxRetries: 1})
	if err != nil {
		return nil, u.Invalidf("%v", err)
	}
	p.name = cmp.Or(u.Name, p.endpoint+"/"+bucket+"/"+prefix)
	return p, nil
}

// dialTLS returns what makes a connection with TLS, by the certificates as they are then. A bucket
// may be a part of the host that it is made to.
func dialTLS(u *engine.URL) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		c, err := u.TLSConfig()
		if err != nil {
			return nil, err
		}
		if c.ServerName = u.Get("servername"); c.ServerName == "" {
			if c.ServerName, _, err = net.SplitHostPort(address); err != nil {
				return nil, err
			}
		}
		return (&tls.Dialer{Config: c}).DialContext(ctx, network, address)
	}
}

// regionOf returns what requests are signed for. Stores that have no regions take the last one.
func regionOf(u *engine.URL) string {
	return cmp.Or(u.Get("region"), s3utils.GetRegionFromURL(url.URL{Host: u.Hosts[0]}), os.Getenv("AWS_REGION"),
		os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
}

// keysOf returns where the keys come from: the URL, or else the places that the SDKs look at.
func keysOf(u *engine.URL) *credentials.Credentials {
	if u.User != "" {
		return credentials.New(&urlKeys{u: u})
	}
	return credentials.New(&foundKeys{credentials.Chain{Providers: []credentials.Provider{&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: dialTimeout}}}}})
}

// urlKeys are the keys of a URL. A passwordfile is read anew for each request.
type urlKeys struct{ u *engine.URL }

func (k *urlKeys) Retrieve() (credentials.Value, error) {
	secret, err := k.u.Password()
	return credentials.Value{AccessKeyID: k.u.User, SecretAccessKey: secret, SignerType: credentials.SignatureV4}, err
}

func (k *urlKeys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return k.Retrieve()
}

func (k *urlKeys) IsExpired() bool { return true }

// foundKeys are a chain that fails where the library's would send requests without a signature.
type foundKeys struct{ credentials.Chain }

func (k *foundKeys) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

func (k *foundKeys) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	v, err := k.Chain.RetrieveWithCredContext(c)
	if err == nil && v.AccessKeyID == "" {
		err = engine.Misconfiguredf("there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, have a profile or a role, or write s3://key:secret@host/…")
	}
	return v, err
}
