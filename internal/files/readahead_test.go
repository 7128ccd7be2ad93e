package files_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/iotest"

	"github.com/ration-dev/ration/internal/files"
)

var errCut = errors.New("cut short")

// TestABodyReadsTheSameReadAhead: whatever is read ahead, in memory, in a file
// or in part because the file cannot be written, and whenever reading ahead
// ends, the body reads the same, and no file is left.
func TestABodyReadsTheSameReadAhead(t *testing.T) {
	folder := t.TempDir()
	for i := range 300 {
		t.Setenv("TMPDIR", folder)
		if i%3 == 0 {
			t.Setenv("TMPDIR", folder+"/none")
		}
		want := make([]byte, rand.N(40<<10))
		for j := range want {
			want[j] = byte(rand.Uint32())
		}
		source := io.MultiReader(bytes.NewReader(want), iotest.ErrReader(errCut))
		body := files.ReadAheadSpooled(io.NopCloser(source), rand.N(20<<10), rand.Int64N(20<<10))
		if i%2 == 0 {
			<-body.Done()
		}
		got, err := io.ReadAll(iotest.HalfReader(body))
		<-body.Done()
		body.Discard()
		if !errors.Is(err, errCut) || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v; want %d and %v", len(got), err, len(want), errCut)
		}
	}
	if left, err := os.ReadDir(folder); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
