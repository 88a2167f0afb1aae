package node_test

import (
	"fmt"
	"testing"

	"github.com/fenlock/fenlock/node"
)

func TestSeverity(t *testing.T) {
	text := fmt.Sprint([]node.Severity{node.Note, node.Warning, node.Error, 9})
	if text != "[note warning error severity(9)]" || !(node.Note < node.Warning && node.Warning < node.Error) {
		t.Error(text)
	}
}

func TestFound(t *testing.T) {
	f := node.Found("disk", node.Warning, "%d KiB are left, 100 %%.", 7)
	if g := f.Do("Free %s.", "some"); f.Advice != "" ||
		g != (node.Finding{Check: "disk", Severity: node.Warning, Reason: "7 KiB are left, 100 %.", Advice: "Free some."}) {
		t.Errorf("%+v, %+v", f, g)
	}
}
