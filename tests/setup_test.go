package tests

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The pages of databases are followed word for word, as an administrator of a new server would.
// Only addresses, the folder of passwords and the command under the lock are others.

func TestSetUpOfMySQL(t *testing.T) {
	server := testserver.StartMariaDB(t)
	root := database(t, "mysql", server.DSN())
	carryOut(t, root, "DROP DATABASE locks;") // the page makes one
	folder := t.TempDir()
	for _, user := range []string{"owner", "locks"} {
		if err := os.WriteFile(filepath.Join(folder, user+".password"), []byte(strings.ToUpper(user)+"-PASSWORD\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := followed(t, "../docs/mysql.md", root, strings.NewReplacer("db.example", server.Addr(), "/etc/fenlock", folder))
	wantSaid(t, said, "it holds", "Locks can be taken.", "0 errors, 0 warnings")
}

func TestSetUpOfPostgreSQL(t *testing.T) {
	server := testserver.StartPostgres(t)
	root := database(t, "pgx", server.DSN())
	carryOut(t, root, "CREATE ROLE owner LOGIN; CREATE ROLE app LOGIN; CREATE DATABASE app; GRANT CREATE ON DATABASE app TO owner;")
	owner := database(t, "pgx", "postgres://owner@"+server.Addr()+"/app?sslmode=disable")
	said := followed(t, "../docs/postgres.md", owner,
		strings.NewReplacer("db.example", server.Addr(), "./report", "echo it holds"))
	wantSaid(t, said, "it holds")
}

func database(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// carryOut executes statements, each of which ends with a semicolon.
func carryOut(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	for statement := range strings.SplitSeq(text, ";") {
		if statement = strings.TrimSpace(statement); statement == "" {
			continue
		}
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// block is one of code within a step.
var block = regexp.MustCompile(`(?m)(?:^ {7}\S.*\n)+`)

// followed carries out the blocks of code below "Set-up": statements on the database, commands in a
// shell that has fenlock. It returns what the commands print.
func followed(t *testing.T, page string, db *sql.DB, changed *strings.Replacer) (said string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Set-up\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := block.FindAllString(section, -1)
	if len(blocks) < 3 {
		t.Fatalf("%s has %d blocks of code below Set-up; want the tables, the rights and the first lock at least", page,
			len(blocks))
	}
	path := filepath.Dir(testserver.Fenlock(t)) + ":" + os.Getenv("PATH")
	for _, b := range blocks {
		if b = changed.Replace(b); strings.HasSuffix(b, ";\n") {
			carryOut(t, db, b)
			continue
		}
		shell := exec.CommandContext(t.Context(), "sh", "-e", "-c", b)
		shell.Env = append(os.Environ(), "PATH="+path)
		out, err := shell.CombinedOutput()
		if said += string(out); err != nil {
			t.Fatalf("%s\n%s%v", b, out, err)
		}
	}
	return said
}

func wantSaid(t *testing.T, said string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("not said: %q; but\n%s", w, said)
		}
	}
}
