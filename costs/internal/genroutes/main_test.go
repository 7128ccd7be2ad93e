package main

import (
	"bytes"
	"os"
	"testing"
)

func TestRoutesAreCurrent(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + output)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s does not match the discovery document: run go generate ./costs", output)
	}
}
