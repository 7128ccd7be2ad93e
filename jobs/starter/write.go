package starter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ration-dev/ration/quota/privatefile"
)

func paths(dir string) (costs, regions string) {
	return filepath.Join(dir, "costs.yaml"), filepath.Join(dir, "regions.yaml")
}

// CheckFree returns an error if a folder has one of the files already.
func CheckFree(dir string) error {
	costs, regions := paths(dir)
	for _, path := range []string{costs, regions} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(err, fmt.Errorf("%s is there already; move it, or name another folder with --config", path))
		}
	}
	return nil
}

// Write writes the files into a folder, which is made if it is missing, and
// returns their paths. It overwrites nothing.
func (f *Files) Write(dir string) (costs, regions string, err error) {
	costs, regions = paths(dir)
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = privatefile.CheckFolder(dir) // as the next command will
	}
	if err == nil {
		err = writeNew(costs, f.Costs)
	}
	if err == nil {
		err = writeNew(regions, f.Regions)
	}
	return costs, regions, err
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
