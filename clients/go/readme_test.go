package waterclock_test

import (
	"os/exec"
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
	output, err := exec.Command("go", "run", "./examples/quickstart").CombinedOutput()
	want := "true 4\ntrue 3\ntrue 2\ntrue 1\ntrue 0\nfalse 0\n"
	if err != nil || string(output) != want {
		t.Errorf("error %v, output:\n%s", err, output)
	}
}
