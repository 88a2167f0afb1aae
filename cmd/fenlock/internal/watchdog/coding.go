//go:build linux || darwin || freebsd

package watchdog

// coder writes the fields of a message, or reads them: each message describes them once, for
// both. Arguments and environments are any bytes. Package encoding/gob would do this too, in a
// millisecond of each process's start; both ends are the same program.
type coder struct {
	text    []byte // what was written, or is still to be read
	reading bool
	short   bool // there was less to read than was said
}

// take takes the next n bytes of what is read.
func (c *coder) take(n int) []byte {
	if n < 0 || n > len(c.text) {
		c.short, c.text = true, nil
		return nil
	}
	taken := c.text[:n]
	c.text = c.text[n:]
	return taken
}

const numberSize = 8

// number is a field that is a whole number.
func number[T ~int | ~int64 | ~uint8 | ~uint32 | ~uint64 | ~uintptr](c *coder, v *T) {
	if !c.reading {
		for bit := 0; bit < 8*numberSize; bit += 8 {
			c.text = append(c.text, byte(uint64(*v)>>bit))
		}
		return
	}
	var n uint64
	for i, b := range c.take(numberSize) {
		n |= uint64(b) << (8 * i)
	}
	*v = T(n)
}

func (c *coder) flag(v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	number(c, &n)
	*v = n == 1
}

func (c *coder) bytes(v *string) {
	n := len(*v)
	number(c, &n)
	if c.reading {
		*v = string(c.take(n))
	} else {
		c.text = append(c.text, *v...)
	}
}

// list is a field of several values, of which none is the same as nil.
func list[T any](c *coder, v *[]T, field func(*T)) {
	n := len(*v)
	number(c, &n)
	if c.reading {
		*v = nil
		for ; n > 0 && !c.short; n-- {
			*v = append(*v, *new(T))
			field(&(*v)[len(*v)-1])
		}
		return
	}
	for i := range *v {
		field(&(*v)[i])
	}
}

// optional is a field that may be nil.
func optional[T any](c *coder, v **T, field func(*T)) {
	there := *v != nil
	c.flag(&there)
	switch {
	case !there:
		*v = nil
		return
	case c.reading:
		*v = new(T)
	}
	field(*v)
}
