package mysqlnode

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// Statements have their values in them, as numbers and hexadecimal digits. With parameters the
// driver would prepare each one first. With a setting that a pool may not have, it would write them
// as text that depends on sql_mode.

// literal writes bytes as a value: no bytes too, since ” is NULL with the sql_mode
// EMPTY_STRING_IS_NULL.
func literal(b []byte) string {
	return "x'" + hex.EncodeToString(b) + "'"
}

// clock are two columns that are the server's time together. UTC_TIMESTAMP is when the statement
// began, unless the session's timestamp was set; SYSDATE is now, in the session's time zone, and no
// function turns that into UTC in the hour that a time zone has twice. So the difference to NOW,
// which is in the same zone, is what is added. If that is no short time, the timestamp was set.
const (
	clock      = clockBegan + `, ` + clockSince
	clockBegan = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	clockSince = `TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))`
)

// longStatement is more than any statement here takes until the clock is read.
const longStatement = time.Minute

// A write without a read has the server's clock as this process reckons it. The server compares:
// its clock may not be behind that, and no further ahead than the slack.
const (
	early = 10 * time.Millisecond // that this process's clock may have gained since the read
	slack = 200 * time.Millisecond
)

// reading is a clock that was read.
type reading struct{ began, since int64 }

func (r reading) time() (now time.Duration, ok bool) {
	since := time.Duration(r.since) * time.Microsecond
	return time.Duration(r.began)*time.Microsecond + since, r.since >= 0 && since < longStatement && r.began > 0
}

// errRetimed says that a connection had a timestamp of its own, and has not any more.
var errRetimed = errors.New(
	"the session variable timestamp was set on a connection of the pool, and could not be set back")

// random returns a version that no row has had.
func random() int64 {
	var b [8]byte
	rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 1)
}
