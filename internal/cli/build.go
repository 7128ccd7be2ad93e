package cli

import (
	"runtime"
	"runtime/debug"
)

// BuildInfo says how this program was built.
type BuildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Date     string `json:"date"`     // of the revision
	Modified bool   `json:"modified"` // built from files that the revision does not have
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadBuild returns what the linker recorded; "-" stands for what is unknown.
func ReadBuild() BuildInfo {
	out := BuildInfo{"devel", "-", "-", false, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		out.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			out.Revision = s.Value
		case "vcs.time":
			out.Date = s.Value
		case "vcs.modified":
			out.Modified = s.Value == "true"
		}
	}
	return out
}
