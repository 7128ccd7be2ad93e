package strictyaml

import "github.com/ration-dev/ration/internal/files"

// ReadFile reads a configuration file, up to one byte more than MaxSize,
// which Parse reports. A configuration decides what may be spent and where
// passwords are sent, so ReadFile returns files.ErrUnsafe if another user
// may have written it, or a symbolic link that leads to it.
func ReadFile(path string) ([]byte, error) {
	return files.ReadLinked(path, MaxSize+1)
}
