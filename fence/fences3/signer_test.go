package fences3

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The examples of AWS's documentation of Signature Version 4.
func TestSigner(t *testing.T) {
	s := Signer{Region: "us-east-1", AccessKey: "AKIAIOSFODNN7EXAMPLE",
		SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		now:       func() time.Time { return time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC) }}
	r, err := http.NewRequest("GET", "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=0-9")
	s.sign(r, nil)
	const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); strings.Contains(text, "wJalr") ||
		strings.Contains(text, "AKIA") {
		t.Error(text)
	}
}

func TestEscapePath(t *testing.T) {
	for path, want := range map[string]string{"": "/", "/a b/ä+%": "/a%20b/%C3%A4%2B%25", "/-._~/": "/-._~/",
		"/a/../b": "/a/../b", "/$x": "/%24x"} {
		if got := escapePath(path); got != want {
			t.Errorf("%q: %q; want %q", path, got, want)
		}
	}
}
