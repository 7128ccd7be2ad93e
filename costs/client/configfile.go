package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ration-dev/ration/internal/files"
)

// ConfigFile returns the path of costs.yaml or regions.yaml. Both come from one
// folder, since the prices of one do not fit the regions of another: folder, or
// if that is "" the first that holds either of the working folder and ration in
// XDG_CONFIG_HOME, by default HOME/.config. The error is a *ConfigError; it
// wraps a *MissingFileError if there is no such file.
func ConfigFile(name, folder string, getenv func(string) string) (string, error) {
	folders := []string{folder}
	if folders[0] == "" {
		folders[0] = "."
		if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
			folders = append(folders, filepath.Join(dir, "ration"))
		} else if home := getenv("HOME"); home != "" {
			folders = append(folders, filepath.Join(home, ".config", "ration"))
		}
	}
	other := "costs.yaml"
	if name == other {
		other = "regions.yaml"
	}
	for i, folder := range folders {
		path := filepath.Join(folder, name)
		if _, err := os.Lstat(path); err == nil {
			if err := files.CheckLinked(path, filepath.Join(folder, other)); err != nil { // both, to say it once
				return "", &ConfigError{err}
			}
			return path, nil
		} else if info, statErr := os.Stat(folder); statErr == nil && !info.IsDir() {
			return "", configError("%s is a file; name its folder with --config", folder)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", configError("%w; make it readable, or name another folder with --config", err)
		}
		if _, err := os.Lstat(filepath.Join(folder, other)); err == nil {
			return "", &ConfigError{&MissingFileError{Name: name, folders: folders[:i+1], other: other}}
		}
	}
	return "", &ConfigError{&MissingFileError{Name: name, folders: folders}}
}

// MissingFileError says that a configuration file is in none of the folders
// where it may be.
type MissingFileError struct {
	Name    string
	folders []string
	other   string // the last of folders has this file; "" if none has
}

// Error names the file and the folders, and says what to do.
func (e *MissingFileError) Error() string {
	advice := makeFile
	if e.other != "" { // ration init would not overwrite it
		advice = "write it there"
	}
	for _, folder := range e.folders {
		misnamed := filepath.Join(folder, strings.TrimSuffix(e.Name, ".yaml")+".yml")
		if _, err := os.Lstat(misnamed); err == nil {
			advice = "rename " + misnamed
		}
	}
	return fmt.Sprintf("no %s in %s; %s, or name its folder with --config or RATION_CONFIG", e.Name, e.Where(), advice)
}

// makeFile says how to make a configuration file.
const makeFile = "make one with ration init"

// Where names the folders by their absolute paths, since the working folder of
// a cron job is not evident.
func (e *MissingFileError) Where() string {
	if e.other != "" {
		return fmt.Sprintf("%s, where %s is (both come from one folder)", whole(e.folders[len(e.folders)-1]), e.other)
	}
	folders := make([]string, len(e.folders))
	for i, folder := range e.folders {
		folders[i] = whole(folder)
		if folder == "." {
			folders[i] += " (the working folder)"
		}
	}
	return strings.Join(folders, " or ")
}

// whole returns an absolute path, if there is one.
func whole(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}
