package strictyaml

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a configuration file: a regular file of at most MaxSize
// bytes (Parse reports a longer one) that, on systems with permissions, only
// its owner may write to; else ErrUnsafeFile, since who writes it decides what
// may be spent.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening: a pipe would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; name one", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if othersMayWrite(info) {
		return nil, fmt.Errorf("%s: %w (mode %04o); run chmod go-w %s", path, ErrUnsafeFile, info.Mode().Perm(), path)
	}
	return io.ReadAll(io.LimitReader(file, MaxSize+1))
}
