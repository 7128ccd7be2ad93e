package strictyaml

import "github.com/ration-dev/ration/quota/privatefile"

// ReadFile reads a configuration file of at most MaxSize bytes (Parse reports
// a longer one). Who writes it decides what may be spent and where passwords
// are sent, so a file that package privatefile refuses is an ErrUnsafeFile.
func ReadFile(path string) ([]byte, error) {
	return privatefile.ReadFile(path, MaxSize+1)
}
