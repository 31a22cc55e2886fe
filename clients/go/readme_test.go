package waterclock_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every block of Go in README.md is code that runs: the quick start as a
// program, the others as parts of examples.
func TestREADME(t *testing.T) {
	program := string(readFile(t, "examples/quickstart/main.go"))
	examples := string(readFile(t, "example_test.go")) + string(readFile(t, "grpc/example_test.go"))
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readFile(t, "README.md")), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no blocks of Go")
	}
	for _, block := range blocks {
		code := block[1]
		if !strings.HasPrefix(code, "package main") {
			if !strings.Contains(examples, code) && !strings.Contains(examples, indented(code)) {
				t.Errorf("README.md has code that no example runs:\n%s", code)
			}
		} else if code != program {
			t.Error("README.md has another quick start than examples/quickstart/main.go")
		}
	}
	if !strings.Contains(string(readFile(t, "README.md")), "```toml\n"+string(readFile(t, "testdata/readme.toml"))+"```\n") {
		t.Error("README.md has another configuration than testdata/readme.toml")
	}
	if functions, outputs := strings.Count(examples, "\nfunc Example"), strings.Count(examples, "\t// Output:"); functions != outputs {
		t.Errorf("%d of %d examples say what they print; the others are not run", outputs, functions)
	}
}

func indented(code string) string {
	return regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(code, "\t$1")
}

func TestQuickStart(t *testing.T) {
	client := dial()
	defer client.Close()
	if _, err := client.Reset(ctx, "login", "alice"); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("go", "run", "-overlay", withTestServer(t, "examples/quickstart/main.go"), "./examples/quickstart").CombinedOutput()
	want := "true 4\ntrue 3\ntrue 2\ntrue 1\ntrue 0\nfalse 0\n"
	if err != nil || string(output) != want {
		t.Errorf("error %v, output:\n%s", err, output)
	}
}

// withTestServer is an overlay for the go command, in which a program asks the
// server of the tests.
func withTestServer(t *testing.T, program string) string {
	t.Helper()
	code := strings.Replace(string(readFile(t, program)), "http://127.0.0.1:8080", os.Getenv("WATERCLOCK_URL"), 1)
	copied, overlay := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "overlay.json")
	original, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	replacements, err := json.Marshal(map[string]any{"Replace": map[string]string{original: copied}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{copied: []byte(code), overlay: replacements} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}
