//go:build linux || darwin || freebsd

package filenode

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// A disk writes sectors whole, when it likes and in any order, until it is told to sync. The power
// fails while it writes one at most, which is torn then.
const sectorSize = 512

type sector [sectorSize]byte

// power is what may be on the disk: of each sector, and of the size, what was synced last and all
// that was written since.
type power struct {
	sectors map[int64][]sector // by number, the oldest first
	memory  map[int64]sector   // what the kernel has of those that it could not write, and does not write any more
	sizes   []int64
	failed  func(p *power) // called before each sync; may be nil
	fails   int            // one sync in so many fails; 0: none
	failing int            // the number of the next sync that fails; 0: none
}

func newPower(synced map[int64]sector, size int64) *power {
	p := &power{sectors: map[int64][]sector{}, memory: map[int64]sector{}, sizes: []int64{size}}
	for at, s := range synced {
		p.sectors[at] = []sector{s}
	}
	return p
}

// of returns what there may be of a sector.
func (p *power) of(at int64) []sector {
	if p.sectors[at] == nil {
		p.sectors[at] = []sector{{}}
	}
	return p.sectors[at]
}

func (p *power) size() int64 { return p.sizes[len(p.sizes)-1] }

func (p *power) write(b []byte, at int64) {
	if end := at + int64(len(b)); end > p.size() {
		p.sizes = append(p.sizes, end)
	}
	for len(b) > 0 {
		number, from := at/sectorSize, at%sectorSize
		versions := p.of(number)
		s, unwritten := p.memory[number]
		if !unwritten {
			s = versions[len(versions)-1]
		}
		n := copy(s[from:], b)
		if s != versions[len(versions)-1] {
			p.sectors[number] = append(versions, s)
		}
		delete(p.memory, number)
		b, at = b[n:], at+int64(n)
	}
}

func (p *power) truncate(size int64) {
	for number, versions := range p.sectors {
		if number*sectorSize >= size && versions[len(versions)-1] != (sector{}) {
			p.sectors[number] = append(versions, sector{})
		}
	}
	p.sizes = append(p.sizes, size)
}

func (p *power) sync() {
	if p.failed != nil {
		p.failed(p)
	}
	for number, versions := range p.sectors {
		p.sectors[number] = versions[len(versions)-1:]
	}
	p.sizes = p.sizes[len(p.sizes)-1:]
}

// failSync has a sync fail: of each sector it is not known what was written, and the kernel tries
// no more.
func (p *power) failSync(random *rand.Rand) {
	for _, number := range p.unsure() {
		versions := p.sectors[number]
		p.memory[number] = versions[len(versions)-1]
		i := random.IntN(len(versions))
		p.sectors[number] = versions[i : i+1]
	}
}

// image is what one failure has left.
type image struct {
	sectors   map[int64]sector
	size      int64
	destroyed bool // one of the sectors is torn
}

// cut is in the middle of a header's numbers.
const cut = 48

// torn returns a sector that was being written: the rest is as it was, but for its last bit.
func (p *power) torn(at int64) sector {
	versions := p.sectors[at]
	s := versions[0]
	copy(s[:cut], versions[len(versions)-1][:])
	s[sectorSize-1] ^= 1
	return s
}

// all calls f with each image that is possible.
func (p *power) all(f func(image)) {
	unsure := p.unsure()
	i := image{sectors: p.synced()}
	var choose func(at int)
	choose = func(at int) {
		if at == len(unsure) {
			for _, i.size = range p.sizes {
				f(i)
			}
			return
		}
		for _, s := range p.sectors[unsure[at]] {
			i.sectors[unsure[at]] = s
			choose(at + 1)
		}
		if !i.destroyed {
			i.sectors[unsure[at]], i.destroyed = p.torn(unsure[at]), true
			choose(at + 1)
			i.destroyed = false
		}
	}
	choose(0)
}

// any returns one of them.
func (p *power) any(random *rand.Rand) image {
	i := image{sectors: p.synced(), size: p.sizes[random.IntN(len(p.sizes))]}
	unsure := p.unsure()
	for _, at := range unsure {
		i.sectors[at] = p.sectors[at][random.IntN(len(p.sectors[at]))]
	}
	if i.destroyed = len(unsure) > 0 && random.IntN(2) == 0; i.destroyed {
		at := unsure[random.IntN(len(unsure))]
		i.sectors[at] = p.torn(at)
	}
	return i
}

func (p *power) unsure() (all []int64) {
	for at, versions := range p.sectors {
		if len(versions) > 1 {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

func (p *power) synced() map[int64]sector {
	all := map[int64]sector{}
	for at, versions := range p.sectors {
		all[at] = versions[0]
	}
	return all
}

// clone returns a copy that does not change.
func (p *power) clone() *power {
	c := &power{sectors: map[int64][]sector{}, memory: maps.Clone(p.memory), sizes: slices.Clone(p.sizes)}
	for at, versions := range p.sectors {
		c.sectors[at] = slices.Clone(versions)
	}
	return c
}

// restore writes the image to the file, which stays the one it is.
func (i image) restore(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(f.Truncate(0), f.Truncate(i.size))
		for at, s := range i.sectors {
			if at*sectorSize < i.size && s != (sector{}) {
				_, failed := f.WriteAt(s[:], at*sectorSize)
				err = errors.Join(err, failed)
			}
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fading is a file on such a disk, as a process has it that is killed after so many calls, during
// the last.
type fading struct {
	*os.File
	p      *power
	left   int // negative: it is not killed
	partly *rand.Rand
}

// ends reports whether the process is killed now, or was before.
func (f *fading) ends() (now, before bool) {
	f.left--
	return f.left == -1, f.left < 0 && f.left > -1000
}

const lives = -1 << 40

func (f *fading) WriteAt(b []byte, at int64) (int, error) {
	now, before := f.ends()
	if now && f.partly.IntN(2) == 0 && len(b) > cut {
		b = b[:cut+f.partly.IntN(len(b)-cut)]
	} else if before {
		return 0, syscall.EIO
	}
	f.p.write(b, at)
	n, err := f.File.WriteAt(b, at)
	if now {
		err = syscall.EIO
	}
	return n, err
}

func (f *fading) Truncate(size int64) error {
	if _, before := f.ends(); before {
		return syscall.EIO
	}
	f.p.truncate(size)
	return f.File.Truncate(size)
}

func (f *fading) Sync() error {
	if _, before := f.ends(); before {
		return syscall.EIO
	}
	f.p.failing--
	if f.p.fails > 0 && f.partly.IntN(f.p.fails) == 0 || f.p.failing == 0 {
		f.p.failSync(f.partly)
		return syscall.EIO
	}
	f.p.sync() // the real disk need not
	return nil
}

// life is a file through boots that end with a failure of the power.
type life struct {
	t        *testing.T
	path     string
	random   *rand.Rand
	power    *power
	boot     int
	nodes    []*Node
	promised fence.Token // the largest that was answered
	log      []string
}

func newLife(t *testing.T, seed uint64) *life {
	dir, err := os.MkdirTemp("/dev/shm", "fenlock") // where there is one, the real disk is not waited for
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &life{t: t, path: filepath.Join(dir, "locks"), power: newPower(nil, 0), random: rand.New(rand.NewPCG(seed, 1))}
}

// restarts has the machine start again with what a failure has left.
func (l *life) restarts(i image) {
	l.ends()
	i.restore(l.t, l.path)
	l.power = newPower(i.sectors, i.size)
	l.boot++
}

func (l *life) ends() {
	for _, n := range l.nodes {
		n.Close()
	}
	l.nodes = nil
}

// starts opens the file in one more process, that is killed after so many calls.
func (l *life) starts(calls int) (n *Node, err error) {
	n = newIn(l.path)
	n.wrap = func(f *os.File) medium { return &fading{f, l.power, calls, l.random} }
	if err = n.openIn(fmt.Sprint("boot ", l.boot), func() time.Duration { return time.Hour }); err == nil {
		l.nodes = append(l.nodes, n)
	}
	l.log = append(l.log, fmt.Sprintf("a process with %d calls: %v", calls, err))
	return n, err
}

// acquires has a node promise a token, or not if it is killed. The lease stays.
func (l *life) acquires(n *Node, name string, proposed fence.Token) error {
	a, err := n.Do(l.t.Context(), as(node.Acquire, request(name, "", proposed)))
	l.log = append(l.log, fmt.Sprintf("%s with %d: %d, %v", name, proposed, a.Register, err))
	if err == nil && a.Status == node.Granted {
		l.promised = max(l.promised, a.Register)
	}
	return err
}

// check opens the file in the boot after a failure: nothing is leased, and no register is one that
// was promised.
func (l *life) check() {
	l.t.Helper()
	n, err := l.starts(lives)
	before := l.promised
	if err == nil {
		err = l.acquires(n, "a", 0)
	}
	if err != nil || l.promised <= before {
		l.t.Fatalf("%v; promised after %d:\n%s", err, before, strings.Join(l.log, "\n"))
	}
}

// ended reports whether an error is that of a process that was killed.
func (l *life) ended(err error) bool {
	if err != nil && !errors.Is(err, syscall.EIO) {
		l.t.Fatalf("%v:\n%s", err, strings.Join(l.log, "\n"))
	}
	return err != nil
}

// Two processes raise the ceiling, one after the other, each of which is killed after some calls,
// or is not; the second may be in a container with a boot of its own. Or a sync fails in one of
// them. The power fails before any sync, or at the end, and leaves any image.
func TestEveryPowerFailure(t *testing.T) {
	type moment struct {
		*power
		promised fence.Token
	}
	checked := 0
	try := func(first, second, boots, failing int, seed uint64) {
		l := newLife(t, seed)
		l.power.failing = failing
		var moments []moment
		l.power.failed = func(p *power) { moments = append(moments, moment{p.clone(), l.promised}) }
		for i, calls := range []int{first, second} {
			if calls == powerCalls {
				calls = lives
			}
			n, err := l.starts(calls)
			if err == nil {
				err = l.acquires(n, fmt.Sprint(i), 0)
			}
			if err == nil {
				err = l.acquires(n, "b", l.promised+fence.Token(i+1)*window)
			}
			if l.ended(err); err != nil || boots > 0 {
				n.Close()
			}
			l.boot += boots
		}
		l.ends()
		for _, m := range append(moments, moment{l.power.clone(), l.promised}) {
			m.all(func(i image) {
				after := &life{t: t, path: l.path, random: l.random, promised: m.promised, log: l.log, boot: 2}
				i.sectors = maps.Clone(i.sectors)
				after.restarts(i)
				checked++
				after.check()
				after.ends()
			})
		}
	}
	for first := range powerCalls + 1 {
		for second := range powerCalls + 1 {
			try(first, second, 0, 0, 1)
			try(first, second, 1, 0, 1)
		}
	}
	for failing := range 8 {
		for seed := range uint64(8) { // which decides what was written
			try(powerCalls, powerCalls, int(seed%2), failing+1, seed)
		}
	}
	t.Logf("%d images", checked)
}

// Many processes and boots, each of which ends in the middle of anything, and leaves any image.
func TestPowerFailuresAtRandom(t *testing.T) {
	failures, raised, killed := 0, 0, 0
	for seed := range uint64(powerLives) {
		l := newLife(t, seed)
		for range 12 {
			// The power fails before some sync, or at the end: the disk is what it was then.
			fails := l.random.IntN(20)
			var last *image
			promised := l.promised
			l.power.fails = []int{0, 10, 3}[l.random.IntN(3)]
			l.power.failed = func(p *power) {
				if fails--; fails == 0 {
					i := p.any(l.random)
					last, promised = &i, l.promised
				}
			}
			for step := 0; step < 30 && last == nil; step++ {
				if l.random.IntN(20) == 0 { // a container with a boot of its own takes the file
					l.ends()
					l.boot++
				}
				if len(l.nodes) == 0 || l.random.IntN(8) == 0 {
					calls := lives
					if l.random.IntN(2) == 0 {
						calls = l.random.IntN(20)
					}
					_, err := l.starts(calls)
					if l.ended(err) {
						killed++
					}
					continue
				}
				which := l.random.IntN(len(l.nodes))
				proposed := l.promised + fence.Token(l.random.Int64N(int64(3*window)))
				if l.random.IntN(3) > 0 {
					proposed = fence.Token(l.random.Int64N(int64(l.promised) + 1))
				} else {
					raised++
				}
				err := l.acquires(l.nodes[which], fmt.Sprint("name ", l.random.IntN(300)), proposed)
				if l.ended(err) {
					killed++
					l.nodes[which].Close()
					l.nodes = slices.Delete(l.nodes, which, which+1)
				}
			}
			if last == nil {
				i := l.power.any(l.random)
				last, promised = &i, l.promised
			}
			l.promised = promised
			l.restarts(*last)
			failures++
			l.check()
		}
		l.ends()
	}
	t.Logf("%d failures, %d tokens far ahead, %d processes killed, or told that a sync failed", failures, raised, killed)
}
