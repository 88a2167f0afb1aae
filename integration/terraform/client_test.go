package fenlockterraform_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"
)

// client sends what the http backends send, in their words: internal/backend/remote-state/http/client.go of Terraform 1.13.3 and, with opentofu
// set, of OpenTofu 1.12.6. They differ in force-unlock: Terraform's sends no body, and OpenTofu's a LockInfo with the ID
// that it was given.
type client struct {
	t        *testing.T
	url      string
	opentofu bool

	lockID       string
	jsonLockInfo []byte
}

// lockInfo is statemgr.LockInfo.
type lockInfo struct {
	ID, Operation, Info, Who, Version, Created, Path string
}

func (c *client) request(method, url string, data []byte) (status int, answer []byte) {
	c.t.Helper()
	var reader io.Reader
	if data != nil {
		reader = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(c.t.Context()), method, url, reader)
	if err != nil {
		c.t.Error(err)
		return 0, nil
	}
	if data != nil {
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = int64(len(data))
		sum := md5.Sum(data)
		r.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Error(err)
		return 0, nil
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		c.t.Error(err)
	}
	if raw := response.Header.Get("Content-MD5"); raw != "" {
		sum := md5.Sum(answer)
		if raw != base64.StdEncoding.EncodeToString(sum[:]) {
			c.t.Errorf("%s: the Content-MD5 is wrong", method)
		}
	}
	return response.StatusCode, answer
}

// lock returns the holder's ID if that is somebody else.
func (c *client) lock(id string) (status int, holder string) {
	c.t.Helper()
	info, err := json.Marshal(lockInfo{ID: id, Operation: "OperationTypeApply", Who: "ops@host <ops>\n", Version: "1.13.3", Created: "2026-11-23T18:00:00Z"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.lockID = ""
	status, answer := c.request("LOCK", c.url, info)
	switch status {
	case http.StatusOK:
		c.lockID, c.jsonLockInfo = id, info
	case http.StatusConflict, http.StatusLocked:
		var existing lockInfo
		if err := json.Unmarshal(answer, &existing); err != nil {
			c.t.Errorf("already locked, failed to unmarshal body: %v", err)
		}
		holder = existing.ID
	}
	return status, holder
}

// unlock is also what force-unlock does, of a client that has locked nothing.
func (c *client) unlock(id string) (status int) {
	c.t.Helper()
	data := c.jsonLockInfo
	if data == nil {
		data = []byte{} // "&c.jsonLockInfo" is not nil: a body, an empty one
	}
	if c.opentofu {
		var info lockInfo
		if c.jsonLockInfo != nil {
			if err := json.Unmarshal(c.jsonLockInfo, &info); err != nil {
				c.t.Error(err)
			}
		}
		info.ID = id
		var err error
		if data, err = json.Marshal(info); err != nil {
			c.t.Error(err)
		}
	}
	status, _ = c.request("UNLOCK", c.url, data)
	return status
}

func (c *client) get() (status int, state string) {
	c.t.Helper()
	status, answer := c.request(http.MethodGet, c.url, nil)
	return status, string(answer)
}

func (c *client) put(state string) (status int) {
	c.t.Helper()
	base, err := url.Parse(c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.lockID != "" {
		query := base.Query()
		query.Set("ID", c.lockID)
		base.RawQuery = query.Encode()
	}
	status, _ = c.request(http.MethodPost, base.String(), []byte(state))
	return status
}
