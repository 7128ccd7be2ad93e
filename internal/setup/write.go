package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ration-dev/ration/internal/files"
)

// Write writes the files into a folder, which is made if it is missing, and
// returns their paths. It overwrites nothing.
func (f *Files) Write(dir string) (written []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := files.CheckFolder(dir); err != nil { // as the next command will
		return nil, err
	}
	for _, file := range []struct{ name, content string }{{"costs.yaml", f.Costs}, {"regions.yaml", f.Regions}} {
		if file.content == "" {
			continue
		}
		path := filepath.Join(dir, file.name)
		if err := writeNew(path, file.content); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

// CheckFree returns an error if a folder has one of the files already.
func CheckFree(dir string, names ...string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(err, fmt.Errorf("%s is there already; move it, or name another folder with --config", path))
		}
	}
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(path, content string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, content)
	return errors.Join(err, file.Close())
}
