package processes

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// A process without children has no descendants, and one with children has theirs, too.
func TestDescendants(t *testing.T) {
	if !childless() || Descendants() != nil {
		t.Fatalf("at first: childless %v, %v", childless(), Descendants())
	}
	cmd := exec.Command("sh", "-c", "sh -c 'echo $$; read x; :'; :")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	all := Descendants()
	if childless() || len(all) != 2 || all[0].Pid != cmd.Process.Pid || all[0].Name != "sh" ||
		all[1].Pid == cmd.Process.Pid {
		t.Errorf("with a shell in a shell: childless %v, %v", childless(), all)
	}
	if born, alive := Birth(cmd.Process.Pid); !alive || born != all[0].Born {
		t.Errorf("born %q, %v; %v", born, alive, all)
	}
	in.Close()
	cmd.Wait()
	if !childless() || Descendants() != nil {
		t.Errorf("at last: childless %v, %v", childless(), Descendants())
	}
}

// One that has ended and waits for its parent is no descendant; a parent that looks has to
// be able to tell.
func TestAnEndedChild(t *testing.T) {
	cmd := exec.Command("true")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	out.Read(make([]byte, 1)) // its end
	for alive := true; alive; {
		_, alive = Birth(cmd.Process.Pid)
	}
	if childless() {
		t.Error("a child that has ended is none")
	}
	if all := Descendants(); len(all) > 0 {
		t.Errorf("%v", all)
	}
	cmd.Wait()
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, " \n": nil, " S 1 23\n": {"S", "1", "23"}, "a  b": {"a", "b"},
	} {
		if got := words(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if p, parent, ok := readStat(os.Getpid()); !ok || parent != os.Getppid() || p.Pid != os.Getpid() {
		t.Errorf("of itself: %v, %d, %v", p, parent, ok)
	}
}
